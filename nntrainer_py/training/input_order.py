"""Several inputs given by their place alone, where the order of the data is not that of the description."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from nntrainer_py.errors import printable
from nntrainer_py.graph.spec import ModelSpec


def order_doubts(spec: ModelSpec, names: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """A warning where inputs of one size could be taken for each other; none where [Model] fixes their order.

    Args:
        names, sizes: of the inputs, in the order of the data; values of a sample.
    """
    described = [layer.user_name for layer in spec.layers if layer.user_name in names]
    if spec.model.input_layers or sorted(described) != sorted(names):  # a layer of several inputs has its own order
        return []
    places = [(described.index(name), size) for name, size in zip(names, sizes, strict=True)]
    if all(place < later or size != other for (place, size), (later, other) in combinations(places, 2)):
        return []
    return [
        f"the inputs are taken in the order {', '.join(map(printable, names))}, which is that of NNTrainer's graph and "
        "not that of the description; give them by name in a dictionary, or fix their order with "
        f"input_layers = {', '.join(map(printable, described))} in [Model]"
    ]
