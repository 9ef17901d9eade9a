"""Losses as operations: a float64 scalar forward, the derivative by the prediction on the way back.

Every loss is ``weight`` times a mean over the samples of the logical batch (StepState.numbers[SAMPLES], not the batch
of the plan, so that gradient accumulation gives the same numbers). The reported loss is without loss scale, derivatives
are with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nntrainer_py.tensor.kernels import cross_entropy, figures, focal, loss
from nntrainer_py.tensor.operations.elementwise import same_memory
from nntrainer_py.tensor.operations.record import (
    Array,
    Call,
    Operation,
    OperationKind,
    Role,
    Run,
    Spec,
    Value,
    register,
)
from nntrainer_py.tensor.operations.softmax import row_parts, rows

SCALAR = Spec((1,), "float64", Role.SCALAR)


def samples(array: Array) -> Array:
    """A matrix with one sample a row."""
    return array.reshape(array.shape[0], -1)


class ElementLoss(OperationKind):
    """A loss over ``y`` and ``t`` of one shape; attribute ``weight``, and ``parameter`` where the loss has one."""

    #: samples: one row each; rows: the width of a tensor is a row, and the loss a mean over rows
    by_rows: ClassVar[bool] = False

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if reads["y"].shape != reads["t"].shape:
            raise ValueError(f"a prediction of {reads['y'].dim} and a label of {reads['t'].dim}")
        return {"loss": SCALAR}

    def scratch(self, operation: Operation, threads: int) -> int:
        y = operation.reads["y"]
        return 8 * (y.size // y.shape[-1] if self.by_rows else y.shape[0])

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        shape = rows if self.by_rows else samples
        y, t = shape(arrays["y"]), shape(arrays["t"])
        sums = run.scratch[: 8 * y.shape[0]].view(np.float64)
        parameter, factor = _numbers(operation)
        if self.by_rows:
            factor *= arrays["y"].shape[0] / y.shape[0]
        made = getattr(loss, self.name)
        arguments = (y, t, parameter, factor, run.state.numbers, sums, arrays["loss"])
        return made.function, (*arguments, row_parts(y, run)) if made.forks else arguments


class ElementLossDerivative(OperationKind):
    """Its derivative by ``y``."""

    in_place = (("out", "y"),)
    elementwise = True
    #: how the derivative is divided: by elements of a sample, by rows of a sample, or not further than by samples
    mean: ClassVar[str] = "elements"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["y"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        shape = rows if self.mean == "rows" else _flat
        y, t, out = shape(arrays["y"]), shape(arrays["t"]), shape(arrays["out"])
        parameter, factor = _numbers(operation)
        batch = arrays["y"].shape[0]
        if self.mean == "elements":
            factor *= batch / y.size
        elif self.mean == "rows":
            factor *= batch / y.shape[0]
        target = None if same_memory(y, out) else out
        return getattr(loss, self.name).function, (y, t, parameter, factor, run.state.numbers, target)


def _flat(array: Array) -> Array:
    return array.reshape(-1)


def _numbers(operation: Operation) -> tuple[float, float]:
    return float(operation.attributes.get("parameter", 0.0)), float(operation.attributes.get("weight", 1.0))


def _element_loss(name: str, mean: str = "elements") -> None:
    by_rows = mean == "rows"
    register(type(f"{name}_loss", (ElementLoss,), {"name": name, "by_rows": by_rows})())
    register(type(f"{name}_back", (ElementLossDerivative,), {"name": f"{name}_derivative", "mean": mean})())


class CrossEntropy(OperationKind):
    """Makes the probabilities ``out`` and the ``loss`` from logits ``x`` and labels ``t``.

    ``t`` has the shape of ``x``, or with ``indices`` a width of 1 and class numbers. Attributes: ``weight``,
    ``class_weights`` (one per class), ``smoothing`` (focal: ``gamma``). Labels that cannot be right are reported.
    """

    in_place = (("out", "x"),)
    parameter: ClassVar[str] = "smoothing"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check_label(reads["x"], reads["t"], attributes)
        return {"out": Spec(reads["x"].shape), "loss": SCALAR}

    def scratch(self, operation: Operation, threads: int) -> int:
        x = operation.reads["x"]
        return 8 * (x.size // x.shape[-1])

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x, t = rows(arrays["x"]), rows(arrays["t"])
        out = None if same_memory(arrays["out"], x) else rows(arrays["out"])
        indices, weights, factor = _options(operation)
        parameter = float(operation.attributes.get(self.parameter, 0.0))
        sums = run.scratch[: 8 * x.shape[0]].view(np.float64)
        state = run.state
        per_sample = x.shape[0] // arrays["x"].shape[0]
        module = focal if self.name == "focal" else cross_entropy
        return getattr(module, self.name).function, (
            x, t, indices, weights, parameter, factor, state.numbers, state.status, per_sample, out, sums,
            arrays["loss"], row_parts(x, run),
        )  # fmt: skip


class CrossEntropyDerivative(OperationKind):
    """The derivative by the logits, from the probabilities ``p`` that the loss made."""

    in_place = (("out", "p"),)
    parameter: ClassVar[str] = "smoothing"
    mean_of_elements: ClassVar[bool] = False

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check_label(reads["p"], reads["t"], attributes)
        return {"out": Spec(reads["p"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        p, t = rows(arrays["p"]), rows(arrays["t"])
        out = None if same_memory(arrays["out"], p) else rows(arrays["out"])
        indices, weights, factor = _options(operation)
        if self.mean_of_elements:
            factor *= arrays["p"].shape[0] / p.size
        parameter = float(operation.attributes.get(self.parameter, 0.0))
        module = focal if self.name == "focal_derivative" else cross_entropy
        arguments = (p, t, indices, weights, parameter, factor, run.state.numbers, out, row_parts(p, run))
        return getattr(module, self.name).function, arguments


def _check_label(x: Value, t: Value, attributes: Mapping[str, Any]) -> None:
    expected = (*x.shape[:-1], 1) if attributes.get("indices") else x.shape
    if t.shape != expected:
        raise ValueError(f"a prediction of {x.dim} and a label of {t.dim}")
    given = attributes.get("class_weights")
    if given and len(given) != x.shape[-1]:
        raise ValueError(f"class_weights: {len(given)} numbers for {x.shape[-1]} classes")


def _options(operation: Operation) -> tuple[bool, Array, float]:
    attributes = operation.attributes
    weights = np.array(attributes.get("class_weights", ()), np.float64)
    return bool(attributes.get("indices", False)), weights, float(attributes.get("weight", 1.0))


def _cross_entropy(name: str, parameter: str, mean_of_elements: bool) -> None:
    declared = {"parameter": parameter}
    register(type(f"{name}_loss", (CrossEntropy,), {"name": name, **declared})())
    declared_back = {"name": f"{name}_derivative", "mean_of_elements": mean_of_elements, **declared}
    register(type(f"{name}_back", (CrossEntropyDerivative,), declared_back)())


class ConstantLoss(OperationKind):
    """A loss of ``weight`` whatever the prediction ``y``."""

    name = "constant_loss"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"loss": SCALAR}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return loss.constant.function, (float(operation.attributes.get("weight", 1.0)), arrays["loss"])


class ConstantDerivative(OperationKind):
    """A derivative of ``weight`` times the loss scale everywhere; attribute ``shape``."""

    name = "constant_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(tuple(attributes["shape"]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        weight = float(operation.attributes.get("weight", 1.0))
        return loss.constant_derivative.function, (weight, run.state.numbers, arrays["out"].reshape(-1))


class L2Loss(OperationKind):
    """``0.5 * constant * sum(x**2)`` of a weight, the loss whose derivative is ``constant * x``."""

    name = "l2_loss"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"loss": SCALAR}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return loss.l2.function, (arrays["x"].reshape(-1), float(operation.attributes["constant"]), arrays["loss"])


class CountCorrect(OperationKind):
    """Number of samples whose largest prediction ``x`` is at the largest label ``t``, over all features; float64.

    Attributes: ``indices`` (class numbers as labels), ``threshold`` (one logit a sample: class 1 when positive).
    """

    name = "count_correct"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if attributes.get("threshold") and reads["x"].dim.features != 1:
            raise ValueError(f"a threshold for one prediction a sample, not for {reads['x'].dim}")
        return {"count": SCALAR}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x, t = samples(arrays["x"]), samples(arrays["t"])
        indices, threshold = (bool(operation.attributes.get(key, False)) for key in ("indices", "threshold"))
        return figures.count_correct.function, (x, t, indices, threshold, arrays["count"])


class RegressionSums(OperationKind):
    """Four float64 sums over all elements: ``|y - t|``, ``(y - t)**2``, ``t``, and ``t**2``: for MAE and R2."""

    name = "regression_sums"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if reads["y"].shape != reads["t"].shape:
            raise ValueError(f"a prediction of {reads['y'].dim} and a label of {reads['t'].dim}")
        return {"sums": Spec((4,), "float64", Role.SCALAR)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return figures.regression_sums.function, (_flat(arrays["y"]), _flat(arrays["t"]), arrays["sums"])


for _name in ("mse", "mae", "huber", "hinge"):
    _element_loss(_name)
_element_loss("kld", "samples")
_element_loss("cosine_distance", "rows")
_cross_entropy("cross_softmax", "smoothing", False)
_cross_entropy("cross_sigmoid", "smoothing", True)
_cross_entropy("focal", "gamma", False)
register(ConstantLoss())
register(ConstantDerivative())
register(L2Loss())
register(CountCorrect())
register(RegressionSums())
