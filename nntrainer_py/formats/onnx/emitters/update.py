"""Updates of the optimizers, and the clipping of gradients; numbers of the step are prepared in float64."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.record import StepState

_LEAST = 1e-6  # added to a norm that divides


def _rate(e: Emission) -> Term:
    """The learning rate, float64."""
    return e.number(StepState.LEARNING_RATE)


def _gradient(e: Emission) -> Term:
    """Complete: clipped, without loss scale, with decay."""
    weight, gradient = e.read("weight"), e.read("gradient")
    scale = e.graph.constant([1.0], "float64") if not e.has("scale") else e.read("scale")
    plain = gradient.reshape(*weight.shape) * (scale / e.number(StepState.LOSS_SCALE)).cast("float32")
    decay = float(e.attributes.get("decay", 0.0))
    return plain if decay == 0.0 else plain + weight * decay


def _number(e: Emission, name: str) -> float:
    return float(e.attributes[name])


def _mixed(old: Term, new: Term, share: float) -> Term:
    return old * share + new * (1.0 - share)


def sgd(e: Emission) -> dict[str, Term]:
    return {"weight": e.read("weight") - _rate(e).cast("float32") * _gradient(e)}


def momentum(e: Emission) -> dict[str, Term]:
    g, mu = _gradient(e), _number(e, "momentum")
    v = e.read("v") * mu + g
    step = g + v * mu if e.attributes["nesterov"] else v
    return {"weight": e.read("weight") - _rate(e).cast("float32") * step, "v": v}


def _moments(e: Emission) -> tuple[Term, Term]:
    g = _gradient(e)
    return _mixed(e.read("m"), g, _number(e, "beta1")), _mixed(e.read("v"), g * g, _number(e, "beta2"))


def _corrections(e: Emission) -> tuple[Term, Term]:
    """``1 - beta ** (t + 1)`` of both moments, float64."""
    t = (e.counter(StepState.ITERATION) + 1).cast("float64")
    return 1.0 - t.like(_number(e, "beta1")) ** t, 1.0 - t.like(_number(e, "beta2")) ** t


def adam(e: Emission) -> dict[str, Term]:
    m, v = _moments(e)
    first, second = _corrections(e)
    epsilon, weight = _number(e, "epsilon"), e.read("weight")
    if e.attributes["torch_ref"]:
        rate, root = _rate(e) / first, 1.0 / second.apply("Sqrt")
        step = rate.cast("float32") * m / (root.cast("float32") * v.apply("Sqrt") + epsilon)
    else:
        rate = _rate(e) * second.apply("Sqrt") / first
        step = rate.cast("float32") * m / (v.apply("Sqrt") + epsilon)
    decay = _number(e, "weight_decay")
    kept = weight if decay == 0.0 else weight * (1.0 - _rate(e) * decay).cast("float32")
    return {"weight": kept - step, "m": m, "v": v}


def _descent_by_root(e: Emission, g: Term, v: Term) -> dict[str, Term]:
    step = _rate(e).cast("float32") * g / (v.apply("Sqrt") + _number(e, "epsilon"))
    return {"weight": e.read("weight") - step, "v": v}


def rmsprop(e: Emission) -> dict[str, Term]:
    g = _gradient(e)
    return _descent_by_root(e, g, _mixed(e.read("v"), g * g, _number(e, "rho")))


def adagrad(e: Emission) -> dict[str, Term]:
    g = _gradient(e)
    return _descent_by_root(e, g, e.read("v") + g * g)


def lion(e: Emission) -> dict[str, Term]:
    g, m, weight = _gradient(e), e.read("m"), e.read("weight")
    step = _mixed(m, g, _number(e, "beta1")).apply("Sign")
    kept = weight * (1.0 - _rate(e) * _number(e, "weight_decay")).cast("float32")
    return {"weight": kept - _rate(e).cast("float32") * step, "m": _mixed(m, g, _number(e, "beta2"))}


def _squares(term: Term) -> Term:
    """The sum of squares, float64, shape (1,)."""
    wide = term.cast("float64")
    return (wide * wide).sum().reshape(1)


def lamb(e: Emission) -> dict[str, Term]:
    m, v = _moments(e)
    first, second = _corrections(e)
    weight = e.read("weight")
    root = (1.0 / second.apply("Sqrt")).cast("float32")
    step = (1.0 / first).cast("float32") * m / (root * v.apply("Sqrt") + _number(e, "epsilon"))
    step = step + weight * _number(e, "weight_decay")
    weights, steps = _squares(weight), _squares(step)
    ratio = (weights / steps).apply("Sqrt")
    trust = (weights * steps).equals(0.0).where(_rate(e), _rate(e) * ratio)
    return {"weight": weight - trust.cast("float32") * step, "m": m, "v": v}


def global_norm(e: Emission) -> dict[str, Term]:
    total = e.graph.constant([0.0], "float64")
    for name in e.operation.reads:
        total = total + _squares(e.read(name))
    return {"norm": total.apply("Sqrt") / e.number(StepState.LOSS_SCALE)}


def clip_scale(e: Emission) -> dict[str, Term]:
    limit, size = float(e.attributes["limit"]), e.read("norm") + _LEAST
    return {"scale": (size > limit).where(limit / size, 1.0)}


EMITTERS: dict[str, Emitter] = {
    function.__name__: function
    for function in (sgd, momentum, adam, rmsprop, adagrad, lion, lamb, global_norm, clip_scale)
}
