"""The activation functions over flat float32 arrays, and their derivatives times the incoming derivative ``g``.

Seven derivatives take the output ``y`` of the function (they may then run in place), the others the input ``x``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, expm1, fma, normal_cdf, sigmoid_of, softplus_of, tanh_of
from nntrainer_py.tensor.kernels.per_element import derivative, function

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


@function
def relu(x: Any) -> Any:
    """``x`` where it is positive, else zero."""
    return f32(0.0) if x <= f32(0.0) else x


@derivative
def relu_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return f32(0.0) if y <= f32(0.0) else g


@function
def leaky_relu(x: Any) -> Any:
    """``x`` where it is not negative, else a hundredth of it."""
    return f32(0.01) * x if x < f32(0.0) else x


@derivative
def leaky_relu_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return f32(0.01) * g if y < f32(0.0) else g


@function
def sigmoid(x: Any) -> Any:
    """Logistic function."""
    return sigmoid_of(x)


@derivative
def sigmoid_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return g * y * (f32(1.0) - y)


@function
def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return tanh_of(x)


@derivative
def tanh_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return g * (f32(1.0) - y) * (f32(1.0) + y)


@function
def softplus(x: Any) -> Any:
    """``ln(1 + exp(x))``."""
    return softplus_of(x)


@derivative
def softplus_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return g * -expm1(-y)


@function
def elu(x: Any) -> Any:
    """``x`` where it is not negative, else ``exp(x) - 1``."""
    return expm1(x) if x < f32(0.0) else x


@derivative
def elu_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return g * (y + f32(1.0)) if y < f32(0.0) else g


@function
def selu(x: Any) -> Any:
    """Scaled elu."""
    return SELU_NEGATIVE * expm1(x) if x <= f32(0.0) else SELU_SCALE * x


@derivative
def selu_derivative(y: Any, g: Any) -> Any:
    """From the output."""
    return g * (y + SELU_NEGATIVE) if y <= f32(0.0) else SELU_SCALE * g


@function
def swish(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return x * sigmoid_of(x)


@derivative
def swish_derivative(x: Any, g: Any) -> Any:
    """From the input."""
    s = sigmoid_of(x)
    return g * fma(x * s, f32(1.0) - s, s)


@function
def gelu(x: Any) -> Any:
    """``x`` times the distribution function of the normal distribution."""
    return x * normal_cdf(x)


@derivative
def gelu_derivative(x: Any, g: Any) -> Any:
    """From the input."""
    return g * fma(x * f32(0.39894228), exp(f32(-0.5) * x * x), normal_cdf(x))


@function
def tanh_gelu(x: Any) -> Any:
    """gelu with a tangent in place of the error function."""
    return x * sigmoid_of(TANH_GELU * fma(f32(0.044715) * x * x, x, x))


@derivative
def tanh_gelu_derivative(x: Any, g: Any) -> Any:
    """From the input."""
    s = sigmoid_of(TANH_GELU * fma(f32(0.044715) * x * x, x, x))
    near = f32(20.0) if x > f32(20.0) else (f32(-20.0) if x < f32(-20.0) else x)
    slope = TANH_GELU * fma(f32(0.134145) * near, near, f32(1.0))
    return g * fma(near * s * slope, f32(1.0) - s, s)


@function
def sigmoid_gelu(x: Any) -> Any:
    """gelu with a logistic function in place of the error function."""
    return x * sigmoid_of(f32(1.702) * x)


@derivative
def sigmoid_gelu_derivative(x: Any, g: Any) -> Any:
    """From the input."""
    s = sigmoid_of(f32(1.702) * x)
    return g * fma(f32(1.702) * x * s, f32(1.0) - s, s)


@function
def mish(x: Any) -> Any:
    """``x * tanh(softplus(x))``."""
    return x * tanh_softplus(x)


@derivative
def mish_derivative(x: Any, g: Any) -> Any:
    """From the input."""
    t = tanh_softplus(x)
    return g * fma(x * sigmoid_of(x), (f32(1.0) - t) * (f32(1.0) + t), t)
