"""The activation functions over flat float32 arrays.

``out`` None means in place: the compiler then knows that it is the same memory, and still makes vector code.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, expm1, fma, normal_cdf, sigmoid_of, softplus_of, tanh_of
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import CHUNK, share

Array = npt.NDArray[np.float32]
f32 = np.float32
SELU_SCALE = f32(1.05070098)
SELU_NEGATIVE = f32(1.7580993408473766)  # scale times alpha
TANH_GELU = f32(1.5957691216057308)  # 2 * sqrt(2 / pi): (1 + tanh(u)) / 2 = sigmoid(2 u)


@kernel()
def tanh_softplus(v: np.float32) -> np.float32:
    """``tanh(ln(1 + exp(v)))`` as ``n / (n + 2)`` with ``n = e * (e + 2)``."""
    e = exp(f32(20.0) if v > f32(20.0) else v)
    n = e * (e + f32(2.0))
    # a plain quotient would let the compiler form (v * n) / (n + 2) in mish, which overflows
    return f32(1.0) if v > f32(20.0) else n / (n + f32(2.0))


@kernel()
def relu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = f32(0.0) if v <= f32(0.0) else v


@kernel(forks=True)
def relu(x: Array, out: Array | None, parts: int) -> None:
    """``x`` where it is positive, else zero."""
    fork_join(relu_part, parts, (x, out))


@kernel()
def leaky_relu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = f32(0.01) * v if v < f32(0.0) else v


@kernel(forks=True)
def leaky_relu(x: Array, out: Array | None, parts: int) -> None:
    """``x`` where it is not negative, else a hundredth of it."""
    fork_join(leaky_relu_part, parts, (x, out))


@kernel()
def sigmoid_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = sigmoid_of(v)


@kernel(forks=True)
def sigmoid(x: Array, out: Array | None, parts: int) -> None:
    """Logistic function."""
    fork_join(sigmoid_part, parts, (x, out))


@kernel()
def tanh_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = tanh_of(v)


@kernel(forks=True)
def tanh(x: Array, out: Array | None, parts: int) -> None:
    """Hyperbolic tangent."""
    fork_join(tanh_part, parts, (x, out))


@kernel()
def softplus_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = softplus_of(v)


@kernel(forks=True)
def softplus(x: Array, out: Array | None, parts: int) -> None:
    """``ln(1 + exp(x))``."""
    fork_join(softplus_part, parts, (x, out))


@kernel()
def elu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = expm1(v) if v < f32(0.0) else v


@kernel(forks=True)
def elu(x: Array, out: Array | None, parts: int) -> None:
    """``x`` where it is not negative, else ``exp(x) - 1``."""
    fork_join(elu_part, parts, (x, out))


@kernel()
def selu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = SELU_NEGATIVE * expm1(v) if v <= f32(0.0) else SELU_SCALE * v


@kernel(forks=True)
def selu(x: Array, out: Array | None, parts: int) -> None:
    """Scaled elu."""
    fork_join(selu_part, parts, (x, out))


@kernel()
def swish_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = v * sigmoid_of(v)


@kernel(forks=True)
def swish(x: Array, out: Array | None, parts: int) -> None:
    """``x * sigmoid(x)``."""
    fork_join(swish_part, parts, (x, out))


@kernel()
def gelu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = v * normal_cdf(v)


@kernel(forks=True)
def gelu(x: Array, out: Array | None, parts: int) -> None:
    """``x`` times the distribution function of the normal distribution."""
    fork_join(gelu_part, parts, (x, out))


@kernel()
def tanh_gelu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = v * sigmoid_of(TANH_GELU * fma(f32(0.044715) * v * v, v, v))


@kernel(forks=True)
def tanh_gelu(x: Array, out: Array | None, parts: int) -> None:
    """gelu with a tangent in place of the error function."""
    fork_join(tanh_gelu_part, parts, (x, out))


@kernel()
def sigmoid_gelu_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = v * sigmoid_of(f32(1.702) * v)


@kernel(forks=True)
def sigmoid_gelu(x: Array, out: Array | None, parts: int) -> None:
    """gelu with a logistic function in place of the error function."""
    fork_join(sigmoid_gelu_part, parts, (x, out))


@kernel()
def mish_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source = x[a:b]
    result = source if out is None else out[a:b]
    for i in range(source.size):
        v = source[i]
        result[i] = v * tanh_softplus(v)


@kernel(forks=True)
def mish(x: Array, out: Array | None, parts: int) -> None:
    """``x * tanh(softplus(x))``."""
    fork_join(mish_part, parts, (x, out))
