"""Layer normalization over any axes of a sample, and rms normalization over the width."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.layer_normalization import scale_shape, statistics_shape


def _shaped(e: Emission, name: str) -> Term:
    """Parameters and statistics in the shape that broadcasts against ``x``."""
    x, term, axes = e.read("x"), e.read(name), e.attributes["axes"]
    return term.reshape(*(statistics_shape if name in ("mean", "inverse") else scale_shape)(x.shape, axes))


def _normal(e: Emission) -> Term:
    return (e.read("x") - _shaped(e, "mean")) * _shaped(e, "inverse")


def _inverse_root(square: Term, epsilon: float) -> Term:
    return 1.0 / (square + epsilon).apply("Sqrt")


def layer_statistics(e: Emission) -> dict[str, Term]:
    x, axes = e.read("x"), e.attributes["axes"]
    mean = x.mean(axes)
    centred = x - mean
    return {"mean": mean, "inverse": _inverse_root((centred * centred).mean(axes), float(e.attributes["epsilon"]))}


def layer_normalize(e: Emission) -> dict[str, Term]:
    return {"out": _normal(e) * _shaped(e, "gamma") + _shaped(e, "beta")}


def layer_normalize_sums(e: Emission) -> dict[str, Term]:
    g = e.read("g")
    others = [axis for axis in range(4) if axis not in e.attributes["axes"]]
    return {"dgamma": (g * _normal(e)).sum(others), "dbeta": g.sum(others)}


def layer_normalize_derivative(e: Emission) -> dict[str, Term]:
    axes, normal = e.attributes["axes"], _normal(e)
    h = e.read("g") * _shaped(e, "gamma")
    return {"out": _shaped(e, "inverse") * (h - h.mean(axes) - normal * (h * normal).mean(axes))}


def _gamma(e: Emission) -> Term:
    gamma = e.read("gamma")
    return gamma.reshape(gamma.size)


def rms_statistics(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    return {"inverse": _inverse_root((x * x).mean([3]), float(e.attributes["epsilon"]))}


def rms_normalize(e: Emission) -> dict[str, Term]:
    return {"out": e.read("x") * e.read("inverse") * _gamma(e)}


def rms_normalize_gradient(e: Emission) -> dict[str, Term]:
    return {"out": (e.read("g") * e.read("x") * e.read("inverse")).sum([0, 1, 2])}


def rms_normalize_derivative(e: Emission) -> dict[str, Term]:
    x, inverse = e.read("x"), e.read("inverse")
    h = e.read("g") * _gamma(e)
    normal = x * inverse
    return {"out": inverse * (h - normal * (h * normal).mean([3]))}


EMITTERS: dict[str, Emitter] = {
    f.__name__: f
    for f in (
        layer_statistics, layer_normalize, layer_normalize_sums, layer_normalize_derivative,
        rms_statistics, rms_normalize, rms_normalize_gradient, rms_normalize_derivative,
    )
}  # fmt: skip
