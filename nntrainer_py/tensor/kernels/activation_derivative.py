"""Derivatives of the activation functions, times the incoming derivative ``g``.

Seven take the output ``y`` of the function (they may then run in place), the others the input ``x``; ``out`` None means
in ``g``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.activation import SELU_NEGATIVE, SELU_SCALE, TANH_GELU, tanh_softplus
from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, expm1, fma, normal_cdf, sigmoid_of

Array = npt.NDArray[np.float32]
f32 = np.float32


@kernel()
def relu_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of relu, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = f32(0.0) if v <= f32(0.0) else d


@kernel()
def leaky_relu_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of leaky_relu, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = f32(0.01) * d if v < f32(0.0) else d


@kernel()
def sigmoid_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of sigmoid, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = d * v * (f32(1.0) - v)


@kernel()
def tanh_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of tanh, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = d * (f32(1.0) - v) * (f32(1.0) + v)


@kernel()
def softplus_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of softplus, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = d * -expm1(-v)


@kernel()
def elu_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of elu, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = d * (v + f32(1.0)) if v < f32(0.0) else d


@kernel()
def selu_derivative(y: Array, g: Array, out: Array | None) -> None:
    """Of selu, from its output."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = y[i], g[i]
        result[i] = d * (v + SELU_NEGATIVE) if v <= f32(0.0) else SELU_SCALE * d


@kernel()
def swish_derivative(x: Array, g: Array, out: Array | None) -> None:
    """Of swish, from its input."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = x[i], g[i]
        s = sigmoid_of(v)
        result[i] = d * fma(v * s, f32(1.0) - s, s)


@kernel()
def gelu_derivative(x: Array, g: Array, out: Array | None) -> None:
    """Of gelu, from its input."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = x[i], g[i]
        result[i] = d * fma(v * f32(0.39894228), exp(f32(-0.5) * v * v), normal_cdf(v))


@kernel()
def tanh_gelu_derivative(x: Array, g: Array, out: Array | None) -> None:
    """Of tanh_gelu, from its input."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = x[i], g[i]
        s = sigmoid_of(TANH_GELU * fma(f32(0.044715) * v * v, v, v))
        near = f32(20.0) if v > f32(20.0) else (f32(-20.0) if v < f32(-20.0) else v)
        slope = TANH_GELU * fma(f32(0.134145) * near, near, f32(1.0))
        result[i] = d * fma(near * s * slope, f32(1.0) - s, s)


@kernel()
def sigmoid_gelu_derivative(x: Array, g: Array, out: Array | None) -> None:
    """Of sigmoid_gelu, from its input."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = x[i], g[i]
        s = sigmoid_of(f32(1.702) * v)
        result[i] = d * fma(f32(1.702) * v * s, f32(1.0) - s, s)


@kernel()
def mish_derivative(x: Array, g: Array, out: Array | None) -> None:
    """Of mish, from its input."""
    if out is None:
        result = g
    else:
        result = out
    for i in range(g.size):
        v, d = x[i], g[i]
        t = tanh_softplus(v)
        result[i] = d * fma(v * sigmoid_of(v), (f32(1.0) - t) * (f32(1.0) + t), t)
