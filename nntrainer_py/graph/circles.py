"""Layers in an order in which each stands behind all that it reads, or the circle that makes this impossible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from nntrainer_py.errors import DescriptionError, Origin
from nntrainer_py.graph.spec import LayerSpec

#: so many layers of a circle are named
_SHOWN = 16


def sort(layers: Sequence[LayerSpec]) -> list[LayerSpec]:
    """The layers in canonical order; `DescriptionError` that names the layers of a cycle."""
    position = {spec.name: index for index, spec in enumerate(layers)}
    readers: list[list[int]] = [[] for _ in layers]
    for index, spec in enumerate(layers):
        for connection in spec.inputs or ():
            readers[position[connection.name]].append(index)
    pushed: list[int] = []
    entered: set[int] = set()
    done: set[int] = set()
    for root in range(len(layers)):
        # an explicit stack: a chain of layers may be longer than Python's
        path = [] if root in entered else [(root, iter(readers[root]))]
        entered.add(root)
        while path:
            current, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                done.add(current)
                pushed.append(current)
            elif following not in entered:
                entered.add(following)
                path.append((following, iter(readers[following])))
            elif following not in done:
                raise _circle(layers, [*[index for index, _ in path], following])
    return [layers[index] for index in reversed(pushed)]


def _circle(layers: Sequence[LayerSpec], path: list[int]) -> DescriptionError:
    """The fault of a path of layers, each read by the next, whose last one is among those before it."""
    ring = path[path.index(path[-1]) :]
    words = [_placed(layers[index], layers[path[-1]]) for index in ring]
    if len(words) > _SHOWN:
        words[8:-4] = [f"({len(words) - 12} more)"]
    # of a ring, someone reads a layer that comes later, or itself: where that is written is where to look
    back = next(reader for read, reader in pairwise(ring) if read >= reader)
    spec = layers[back]
    key = "input_layers" if "input_layers" in spec.places else ""
    return DescriptionError(f"layers read each other in a circle: {' -> '.join(words)}", origin=spec.at(key), key=key)


def _placed(spec: LayerSpec, first: LayerSpec) -> str:
    """A layer's name and where its section stands; with the file, where that is not the one of ``first``."""
    origin, start = spec.origin or Origin(), first.origin or Origin()
    if not origin.line:
        return spec.name
    place = f"line {origin.line}" if origin.file == start.file else f"{origin.file}:{origin.line}"
    return f"{spec.name} ({place})"
