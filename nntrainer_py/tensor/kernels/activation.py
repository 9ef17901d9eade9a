"""The activation functions over flat float32 arrays.

``out`` None means in place: the compiler then knows that it is the same memory, and still makes vector code.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, expm1, fma, normal_cdf, sigmoid_of, softplus_of, tanh_of

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
def relu(x: Array, out: Array | None) -> None:
    """``x`` where it is positive, else zero."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = f32(0.0) if v <= f32(0.0) else v


@kernel()
def leaky_relu(x: Array, out: Array | None) -> None:
    """``x`` where it is not negative, else a hundredth of it."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = f32(0.01) * v if v < f32(0.0) else v


@kernel()
def sigmoid(x: Array, out: Array | None) -> None:
    """Logistic function."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = sigmoid_of(v)


@kernel()
def tanh(x: Array, out: Array | None) -> None:
    """Hyperbolic tangent."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = tanh_of(v)


@kernel()
def softplus(x: Array, out: Array | None) -> None:
    """``ln(1 + exp(x))``."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = softplus_of(v)


@kernel()
def elu(x: Array, out: Array | None) -> None:
    """``x`` where it is not negative, else ``exp(x) - 1``."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = expm1(v) if v < f32(0.0) else v


@kernel()
def selu(x: Array, out: Array | None) -> None:
    """Scaled elu."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = SELU_NEGATIVE * expm1(v) if v <= f32(0.0) else SELU_SCALE * v


@kernel()
def swish(x: Array, out: Array | None) -> None:
    """``x * sigmoid(x)``."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = v * sigmoid_of(v)


@kernel()
def gelu(x: Array, out: Array | None) -> None:
    """``x`` times the distribution function of the normal distribution."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = v * normal_cdf(v)


@kernel()
def tanh_gelu(x: Array, out: Array | None) -> None:
    """gelu with a tangent in place of the error function."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = v * sigmoid_of(TANH_GELU * fma(f32(0.044715) * v * v, v, v))


@kernel()
def sigmoid_gelu(x: Array, out: Array | None) -> None:
    """gelu with a logistic function in place of the error function."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = v * sigmoid_of(f32(1.702) * v)


@kernel()
def mish(x: Array, out: Array | None) -> None:
    """``x * tanh(softplus(x))``."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        v = x[i]
        result[i] = v * tanh_softplus(v)
