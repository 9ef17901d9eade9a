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
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import CHUNK, share

Array = npt.NDArray[np.float32]
f32 = np.float32


@kernel()
def relu_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = f32(0.0) if v <= f32(0.0) else d


@kernel(forks=True)
def relu_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of relu, from its output."""
    fork_join(relu_derivative_part, parts, (y, g, out))


@kernel()
def leaky_relu_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = f32(0.01) * d if v < f32(0.0) else d


@kernel(forks=True)
def leaky_relu_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of leaky_relu, from its output."""
    fork_join(leaky_relu_derivative_part, parts, (y, g, out))


@kernel()
def sigmoid_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = d * v * (f32(1.0) - v)


@kernel(forks=True)
def sigmoid_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of sigmoid, from its output."""
    fork_join(sigmoid_derivative_part, parts, (y, g, out))


@kernel()
def tanh_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = d * (f32(1.0) - v) * (f32(1.0) + v)


@kernel(forks=True)
def tanh_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of tanh, from its output."""
    fork_join(tanh_derivative_part, parts, (y, g, out))


@kernel()
def softplus_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = d * -expm1(-v)


@kernel(forks=True)
def softplus_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of softplus, from its output."""
    fork_join(softplus_derivative_part, parts, (y, g, out))


@kernel()
def elu_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = d * (v + f32(1.0)) if v < f32(0.0) else d


@kernel(forks=True)
def elu_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of elu, from its output."""
    fork_join(elu_derivative_part, parts, (y, g, out))


@kernel()
def selu_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = y[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = d * (v + SELU_NEGATIVE) if v <= f32(0.0) else SELU_SCALE * d


@kernel(forks=True)
def selu_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of selu, from its output."""
    fork_join(selu_derivative_part, parts, (y, g, out))


@kernel()
def swish_derivative_part(part: int, parts: int, x: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = x[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        s = sigmoid_of(v)
        result[i] = d * fma(v * s, f32(1.0) - s, s)


@kernel(forks=True)
def swish_derivative(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of swish, from its input."""
    fork_join(swish_derivative_part, parts, (x, g, out))


@kernel()
def gelu_derivative_part(part: int, parts: int, x: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = x[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        result[i] = d * fma(v * f32(0.39894228), exp(f32(-0.5) * v * v), normal_cdf(v))


@kernel(forks=True)
def gelu_derivative(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of gelu, from its input."""
    fork_join(gelu_derivative_part, parts, (x, g, out))


@kernel()
def tanh_gelu_derivative_part(part: int, parts: int, x: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = x[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        s = sigmoid_of(TANH_GELU * fma(f32(0.044715) * v * v, v, v))
        near = f32(20.0) if v > f32(20.0) else (f32(-20.0) if v < f32(-20.0) else v)
        slope = TANH_GELU * fma(f32(0.134145) * near, near, f32(1.0))
        result[i] = d * fma(near * s * slope, f32(1.0) - s, s)


@kernel(forks=True)
def tanh_gelu_derivative(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of tanh_gelu, from its input."""
    fork_join(tanh_gelu_derivative_part, parts, (x, g, out))


@kernel()
def sigmoid_gelu_derivative_part(part: int, parts: int, x: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = x[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        s = sigmoid_of(f32(1.702) * v)
        result[i] = d * fma(f32(1.702) * v * s, f32(1.0) - s, s)


@kernel(forks=True)
def sigmoid_gelu_derivative(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of sigmoid_gelu, from its input."""
    fork_join(sigmoid_gelu_derivative_part, parts, (x, g, out))


@kernel()
def mish_derivative_part(part: int, parts: int, x: Array, g: Array, out: Array | None) -> None:
    a, b = share(part, parts, g.size, CHUNK)
    known, incoming = x[a:b], g[a:b]
    result = incoming if out is None else out[a:b]
    for i in range(incoming.size):
        v, d = known[i], incoming[i]
        t = tanh_softplus(v)
        result[i] = d * fma(v * sigmoid_of(v), (f32(1.0) - t) * (f32(1.0) + t), t)


@kernel(forks=True)
def mish_derivative(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """Of mish, from its input."""
    fork_join(mish_derivative_part, parts, (x, g, out))
