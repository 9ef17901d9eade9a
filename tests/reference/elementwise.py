"""Twins of the element-wise kinds; SciPy's functions where it has them."""

from __future__ import annotations

import numpy as np
from scipy import special

from nntrainer_py.tensor.operations.user_functions import USER_FUNCTIONS

_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805


def _tanh_argument(x):
    return np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)


FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(0, x),
    "elu": lambda x: np.where(x >= 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(np.minimum(x, 0))),
    "swish": lambda x: x * special.expit(x),
    "gelu": lambda x: x * special.ndtr(x),
    "tanh_gelu": lambda x: 0.5 * x * (1 + np.tanh(_tanh_argument(x))),
    "sigmoid_gelu": lambda x: x * special.expit(1.702 * x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
}

_OF_OUTPUT = {
    "relu": lambda y: np.where(y > 0, 1.0, 0.0),
    "leaky_relu": lambda y: np.where(y >= 0, 1.0, 0.01),
    "sigmoid": lambda y: y * (1 - y),
    "tanh": lambda y: 1 - y**2,
    "softplus": lambda y: 1 - np.exp(-y),
    "elu": lambda y: np.where(y >= 0, 1.0, y + 1),
    "selu": lambda y: np.where(y > 0, _SCALE, y + _SCALE * _ALPHA),
}


def _tanh_gelu_slope(x):
    t = np.tanh(_tanh_argument(x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)


def _mish_slope(x):
    t = np.tanh(np.logaddexp(0, x))
    return t + x * (1 - t**2) * special.expit(x)


_OF_INPUT = {
    "swish": lambda x: special.expit(x) * (1 + x * (1 - special.expit(x))),
    "gelu": lambda x: special.ndtr(x) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi),
    "tanh_gelu": _tanh_gelu_slope,
    "sigmoid_gelu": lambda x: special.expit(1.702 * x) * (1 + 1.702 * x * (1 - special.expit(1.702 * x))),
    "mish": _mish_slope,
}


def activation(reads, attributes, state):
    return {"out": FUNCTIONS[attributes["function"]](reads["x"])}


def activation_derivative(reads, attributes, state):
    name = attributes["function"]
    slope = _OF_OUTPUT[name](reads["y"]) if name in _OF_OUTPUT else _OF_INPUT[name](reads["x"])
    return {"out": reads["g"] * slope}


def add_n(reads, attributes, state):
    return {"out": sum(reads.values())}


def zeros(reads, attributes, state):
    return {"out": np.zeros(attributes["shape"], attributes.get("dtype", "float32"))}


def copy(reads, attributes, state):
    return {"out": reads["x"].copy()}


REFERENCE = {
    "activation": activation,
    "activation_derivative": activation_derivative,
    "add_n": add_n,
    "zeros": zeros,
    "copy": copy,
}


def user_activation(reads, attributes, state):
    return {"out": USER_FUNCTIONS[attributes["function"]][0](reads["x"])}


def user_activation_derivative(reads, attributes, state):
    return {"out": reads["g"] * USER_FUNCTIONS[attributes["function"]][1](reads["x"])}


REFERENCE |= {"user_activation": user_activation, "user_activation_derivative": user_activation_derivative}
