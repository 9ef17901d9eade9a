"""Activation functions and their derivatives, sums of tensors, zeros, copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter

_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805  # of selu: Klambauer et al., 2017
_SLOPE = 0.01  # of leaky_relu below zero
_CUBIC, _ROOT = 0.044715, math.sqrt(2.0 / math.pi)  # of tanh_gelu: Hendrycks and Gimpel, 2016
_QUICK = 1.702  # of sigmoid_gelu, there too


def sigmoid(x: Term) -> Term:
    return x.apply("Sigmoid")


def _normal_distribution(x: Term) -> Term:
    return 0.5 * (1.0 + (x * math.sqrt(0.5)).apply("Erf"))


def _normal_density(x: Term) -> Term:
    return (x * x * -0.5).apply("Exp") * (1.0 / math.sqrt(2.0 * math.pi))


def _tanh_of_cubic(x: Term) -> Term:
    return ((x + _CUBIC * (x * x * x)) * _ROOT).apply("Tanh")


def _tanh_of_softplus(x: Term) -> Term:
    return x.apply("Softplus").apply("Tanh")


def _tanh_gelu_slope(x: Term) -> Term:
    t = _tanh_of_cubic(x)
    inner = (1.0 + (3.0 * _CUBIC) * (x * x)) * _ROOT
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner


def _gated_slope(x: Term, steepness: float) -> Term:
    s = sigmoid(x * steepness)
    return s * (1.0 + (x * steepness) * (1.0 - s))


def _mish_slope(x: Term) -> Term:
    t = _tanh_of_softplus(x)
    return t + x * (1.0 - t * t) * sigmoid(x)


FUNCTIONS: dict[str, Callable[[Term], Term]] = {
    "relu": lambda x: x.apply("Relu"),
    "leaky_relu": lambda x: x.apply("LeakyRelu", alpha=_SLOPE),
    "sigmoid": sigmoid,
    "tanh": lambda x: x.apply("Tanh"),
    "softplus": lambda x: x.apply("Softplus"),
    "elu": lambda x: x.apply("Elu", alpha=1.0),
    "selu": lambda x: x.apply("Selu", alpha=_ALPHA, gamma=_SCALE),
    "swish": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * _normal_distribution(x),
    "tanh_gelu": lambda x: 0.5 * x * (1.0 + _tanh_of_cubic(x)),
    "sigmoid_gelu": lambda x: x * sigmoid(x * _QUICK),
    "mish": lambda x: x * _tanh_of_softplus(x),
}

#: slopes from the output of the function
OF_OUTPUT: dict[str, Callable[[Term], Term]] = {
    "relu": lambda y: (y > 0.0).cast("float32"),
    "leaky_relu": lambda y: (y >= 0.0).where(y.like(1.0), _SLOPE),
    "sigmoid": lambda y: y * (1.0 - y),
    "tanh": lambda y: 1.0 - y * y,
    "softplus": lambda y: 1.0 - (-y).apply("Exp"),
    "elu": lambda y: (y >= 0.0).where(1.0, y + 1.0),
    "selu": lambda y: (y > 0.0).where(_SCALE, y + _SCALE * _ALPHA),
}

#: slopes from its input
OF_INPUT: dict[str, Callable[[Term], Term]] = {
    "swish": lambda x: _gated_slope(x, 1.0),
    "gelu": lambda x: _normal_distribution(x) + x * _normal_density(x),
    "tanh_gelu": _tanh_gelu_slope,
    "sigmoid_gelu": lambda x: _gated_slope(x, _QUICK),
    "mish": _mish_slope,
}


def activation(e: Emission) -> dict[str, Term]:
    return {"out": FUNCTIONS[e.attributes["function"]](e.read("x"))}


def activation_derivative(e: Emission) -> dict[str, Term]:
    function, g = e.attributes["function"], e.read("g")
    if function == "relu":
        return {"out": (e.read("y") > 0.0).where(g, 0.0)}
    slope = OF_OUTPUT[function](e.read("y")) if function in OF_OUTPUT else OF_INPUT[function](e.read("x"))
    return {"out": g * slope}


def add_n(e: Emission) -> dict[str, Term]:
    return {"out": reduce(lambda a, b: a + b, map(e.read, e.operation.reads))}


def zeros(e: Emission) -> dict[str, Term]:
    shape = e.shape("out")
    zero = e.graph.constant(0, e.attributes.get("dtype", "float32"))
    return {"out": zero.reshape(*(1 for _ in shape)).expand(*shape)}


def copy(e: Emission) -> dict[str, Term]:
    return {"out": e.read("x")}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (activation, activation_derivative, add_n, zeros, copy)}
