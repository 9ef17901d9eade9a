"""Losses: summed in float64 and divided by the samples of the step state; derivatives carry the loss scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.record import StepState


def _weight(e: Emission) -> float:
    return float(e.attributes.get("weight", 1.0))


def _mean(e: Emission, each: Term, divisor: float = 1.0) -> dict[str, Term]:
    """The float64 sum of all, over the samples of the logical batch and ``divisor``, times the weight."""
    total = each.cast("float64").sum().reshape(1)
    return {"loss": total / (e.number(StepState.SAMPLES) * (divisor / _weight(e)))}


def _scale(e: Emission, divisor: float = 1.0) -> Term:
    """Factor of a derivative."""
    return _wide_scale(e, divisor).cast("float32")


def _wide_scale(e: Emission, divisor: float = 1.0) -> Term:
    """The same as float64."""
    return e.number(StepState.LOSS_SCALE) / e.number(StepState.SAMPLES) * (_weight(e) / divisor)


def _features(term: Term) -> int:
    return term.size // term.shape[0]


def _rows(term: Term) -> int:
    """Rows of one sample."""
    return _features(term) // term.shape[-1]


Value = Callable[[Term, Term, float], Term]


def _of_elements(value: Value, slope: Value) -> tuple[Emitter, Emitter]:
    """Emitters of a loss that is the mean of ``value(y, t, parameter)`` over all elements, and of its derivative."""

    def forward(e: Emission) -> dict[str, Term]:
        y, t = e.read("y"), e.read("t")
        each = value(y.cast("float64"), t.cast("float64"), float(e.attributes.get("parameter", 0.0)))
        return _mean(e, each, _features(y))

    def derivative(e: Emission) -> dict[str, Term]:
        y, t = e.read("y"), e.read("t")
        return {"out": slope(y, t, float(e.attributes.get("parameter", 0.0))) * _scale(e, _features(y))}

    return forward, derivative


def _square(y: Term, t: Term, parameter: float) -> Term:
    return (y - t) * (y - t)


def _square_slope(y: Term, t: Term, parameter: float) -> Term:
    return (y - t) * 2.0


def _absolute(y: Term, t: Term, parameter: float) -> Term:
    return (y - t).apply("Abs")


def _absolute_slope(y: Term, t: Term, parameter: float) -> Term:
    return (y - t).apply("Sign")


def _huber(y: Term, t: Term, delta: float) -> Term:
    d = (y - t).apply("Abs")
    return (d <= delta).where(0.5 * d * d, (d - 0.5 * delta) * delta)


def _huber_slope(y: Term, t: Term, delta: float) -> Term:
    return (y - t).binary("Max", -delta).binary("Min", delta)


def _signs(t: Term) -> Term:
    """Labels 0 and 1 as -1 and 1."""
    return t.equals(0.0).where(-1.0, t)


def _hinge(y: Term, t: Term, parameter: float) -> Term:
    return (1.0 - _signs(t) * y).apply("Relu")


def _hinge_slope(y: Term, t: Term, parameter: float) -> Term:
    return (_signs(t) * y < 1.0).where(-_signs(t), 0.0)


def kld(e: Emission) -> dict[str, Term]:
    y, t = e.read("y").cast("float64"), e.read("t").cast("float64")
    logarithms = t.binary("Max", np.finfo(np.float64).tiny).apply("Log") - _at_least(e, y).apply("Log")
    return _mean(e, t.equals(0.0).where(0.0, t * logarithms))


def kld_derivative(e: Emission) -> dict[str, Term]:
    return {"out": -e.read("t") / _at_least(e, e.read("y")) * _scale(e)}


def _at_least(e: Emission, x: Term) -> Term:
    return x.binary("Max", float(e.attributes["parameter"]))


def _length(x: Term) -> Term:
    return (x * x).sum([3]).apply("Sqrt")


def cosine_distance(e: Emission) -> dict[str, Term]:
    y, t = e.read("y").cast("float64"), e.read("t").cast("float64")
    lengths = _at_least(e, _length(y)) * _at_least(e, _length(t))
    return _mean(e, 1.0 - (y * t).sum([3]) / lengths, _rows(y))


def cosine_distance_derivative(e: Emission) -> dict[str, Term]:
    y, t = e.read("y").cast("float64"), e.read("t").cast("float64")  # the square of a float32 can be too large for one
    plain = _length(y)
    length, size = _at_least(e, plain), _at_least(e, _length(t))
    cosine = (y * t).sum([3]) / (length * size)
    moving = (plain < float(e.attributes["parameter"])).where(0.0, cosine)  # a short one's length is a constant
    return {"out": ((moving * (y / length) - t / size) / length * _wide_scale(e, _rows(y))).cast("float32")}


def _labels(e: Emission, x: Term) -> Term:
    """One probability for each class, in the type of ``x``."""
    t = e.read("t")
    if not e.attributes.get("indices"):
        return t.cast(x.dtype)
    return t.cast("int64").equals(e.graph.constant(np.arange(x.shape[-1], dtype=np.int64))).cast(x.dtype)


def _class_weighted(e: Emission, x: Term) -> Term:
    given = e.attributes.get("class_weights")
    return x * e.graph.constant(given, x.dtype) if given else x


def _smoothed(e: Emission, x: Term, share: float) -> Term:
    """The labels moved towards ``share``."""
    smoothing, labels = float(e.attributes.get("smoothing", 0.0)), _labels(e, x)
    return labels if smoothing == 0.0 else labels * (1.0 - smoothing) + smoothing * share


def _targets(e: Emission, x: Term) -> Term:
    return _class_weighted(e, _smoothed(e, x, 1.0 / x.shape[-1]))


def cross_softmax(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    wide = x.cast("float64")
    targets = _targets(e, wide)
    # an impossible class (x = -inf) that is no target adds nothing
    each = targets.equals(0.0).where(0.0, -targets * wide.apply("LogSoftmax", axis=-1))
    return {"out": x.apply("Softmax", axis=-1), **_mean(e, each)}


def cross_softmax_derivative(e: Emission) -> dict[str, Term]:
    p = e.read("p")
    targets = _targets(e, p)
    return {"out": (p * targets.sum([3]) - targets) * _scale(e)}


def _softplus(x: Term) -> Term:
    """``log(1 + e^x)`` as ``max(x, 0) + log(1 + e^-|x|)``, float64.

    The operator of that name overflows in ONNX Runtime where e^x does, and is 0 where e^x is small beside 1 (with
    float64, not with float32). So is the logarithm of ``u = 1 + e`` here, but ``u - 1`` is exactly what ``u`` holds of
    e: the quotient of the two mends it.
    """
    e = (-x.apply("Abs")).apply("Exp")
    u = 1.0 + e
    return x.apply("Relu") + u.equals(1.0).where(e, u.apply("Log") * (e / (u - 1.0)))


def cross_sigmoid(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    wide = x.cast("float64")
    labels = _smoothed(e, wide, 0.5)
    each = _softplus(wide) - labels.equals(0.0).where(0.0, labels * wide)
    return {"out": x.apply("Sigmoid"), **_mean(e, _class_weighted(e, each), _features(x))}


def cross_sigmoid_derivative(e: Emission) -> dict[str, Term]:
    p = e.read("p")
    return {"out": _class_weighted(e, p - _smoothed(e, p, 0.5)) * _scale(e, _features(p))}


def focal(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    wide = x.cast("float64")
    p, logarithm = wide.apply("Softmax", axis=-1), wide.apply("LogSoftmax", axis=-1)
    targets = _class_weighted(e, _labels(e, wide))
    each = targets.equals(0.0).where(0.0, -targets * (1.0 - p) ** float(e.attributes["gamma"]) * logarithm)
    return {"out": x.apply("Softmax", axis=-1), **_mean(e, each)}


def focal_derivative(e: Emission) -> dict[str, Term]:
    """Slope by each probability, times the probability, through the softmax."""
    narrow, gamma = e.read("p"), float(e.attributes["gamma"])
    p = narrow.cast("float64")
    rest = 1.0 - p
    targets = _class_weighted(e, _labels(e, p))
    first = (rest ** (gamma - 1.0)) * (p * p.binary("Max", np.finfo(np.float64).tiny).apply("Log")) * gamma
    safe = (rest <= 0.0).where(0.0, first) if gamma < 1.0 else first
    weighted = targets * (safe - rest**gamma)
    out = weighted - p * weighted.sum([3])
    return {"out": out.cast("float32") * _scale(e)}


def constant_loss(e: Emission) -> dict[str, Term]:
    return {"loss": e.graph.constant([_weight(e)], "float64")}


def constant_derivative(e: Emission) -> dict[str, Term]:
    shape = e.shape("out")
    value = (e.number(StepState.LOSS_SCALE) * _weight(e)).cast("float32")
    return {"out": value.reshape(*(1 for _ in shape)).expand(*shape)}


def l2_loss(e: Emission) -> dict[str, Term]:
    x = e.read("x").cast("float64")
    return {"loss": (x * x).sum().reshape(1) * (0.5 * float(e.attributes["constant"]))}


def _place_of_largest(term: Term) -> Term:
    flat = term.reshape(term.shape[0], _features(term))
    return term.graph.node("ArgMax", flat, shape=flat.shape[:1], dtype="int64", axis=1, keepdims=0)


def count_correct(e: Emission) -> dict[str, Term]:
    x, t = e.read("x"), e.read("t")
    if e.attributes.get("threshold"):
        right = (x > 0.0).equals((t > 0.5).reshape(*x.shape))
    elif e.attributes.get("indices"):
        right = _place_of_largest(x).equals(t.reshape(t.size).cast("int64"))
    else:
        right = _place_of_largest(x).equals(_place_of_largest(t))
    return {"count": right.cast("float64").sum().reshape(1)}


def regression_sums(e: Emission) -> dict[str, Term]:
    y, t = e.read("y").cast("float64"), e.read("t").cast("float64")
    d = y - t
    first, *others = (term.sum().reshape(1) for term in (d.apply("Abs"), d * d, t, t * t))
    return {"sums": first.concat(0, *others)}


EMITTERS: dict[str, Emitter] = {
    function.__name__: function
    for function in (
        kld, kld_derivative, cosine_distance, cosine_distance_derivative, cross_softmax, cross_softmax_derivative,
        cross_sigmoid, cross_sigmoid_derivative, focal, focal_derivative, constant_loss, constant_derivative, l2_loss,
        count_correct, regression_sums,
    )
}  # fmt: skip
for _name, _value, _slope in (
    ("mse", _square, _square_slope),
    ("mae", _absolute, _absolute_slope),
    ("huber", _huber, _huber_slope),
    ("hinge", _hinge, _hinge_slope),
):
    EMITTERS[_name], EMITTERS[f"{_name}_derivative"] = _of_elements(_value, _slope)
