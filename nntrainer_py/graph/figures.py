"""Which figures of a model are worth counting beside its loss: accuracy, or for regression MAE and R2.

The counting is an operation of the forward pass, so that a step takes no array memory for it. It belongs to the first
loss of the model, as in NNTrainer.
"""

from __future__ import annotations

from collections.abc import Mapping

from nntrainer_py.layers.base import Layer
from nntrainer_py.tensor.operations.emitter import Emitter
from nntrainer_py.tensor.operations.record import Value

#: losses of a choice between classes
CHOICES = ("cross_sigmoid", "cross_softmax", "focal", "kld")
#: losses of a distance between numbers
DISTANCES = ("huber", "mae", "mse")

#: names in `Lowered.metrics`
CORRECT, REGRESSION = "correct", "regression"


def emit(emitter: Emitter, loss: Layer, before: Layer | None, prediction: Value, label: Value) -> dict[str, Value]:
    """Emit the counting for a loss layer with ``before`` in front of it; empty where no figure would mean anything.

    ``correct`` counts the samples whose largest prediction is at the largest label (a single logit: whose sign is
    right). ``regression`` sums ``|y - t|``, ``(y - t)**2``, ``t`` and ``t**2`` over all elements. A distance to a
    softmax is a choice too.
    """
    word = loss.keyword
    choice = word in CHOICES or (word in DISTANCES and _is_softmax(before))
    if choice:
        indices = bool(getattr(loss, "integer_labels", False))
        single = prediction.dim.features == 1
        if indices and label.dim.features != 1:
            return {}  # one class for each row of a sample
        if single and word != "cross_sigmoid":
            return {}
        counted = emitter.run("count_correct", x=prediction, t=label, indices=indices, threshold=single)
        return {CORRECT: counted}
    if word in DISTANCES:
        return {REGRESSION: emitter.run("regression_sums", y=prediction, t=label)}
    return {}


def emit_choice(emitter: Emitter, output: Value, label: Value) -> dict[str, Value]:
    """Emit the counting for a layer that looks at a label without being a loss; empty unless both are scores."""
    if output.dim.features < 2 or output.shape != label.shape:
        return {}
    return {CORRECT: emitter.run("count_correct", x=output, t=label, indices=False, threshold=False)}


def names(metrics: Mapping[str, Value]) -> tuple[str, ...]:
    """Names of the figures that come of ``Lowered.metrics``."""
    if CORRECT in metrics:
        return ("accuracy",)
    return ("mae", "r2") if REGRESSION in metrics else ()


def _is_softmax(layer: Layer | None) -> bool:
    return layer is not None and layer.keyword == "activation" and getattr(layer, "activation", None) == "softmax"
