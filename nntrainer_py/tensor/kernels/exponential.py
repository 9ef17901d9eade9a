"""Exponential, logarithm, hyperbolic tangent and error function of one float32, without branches.

NumPy's functions inside Numba are scalar calls; these are polynomials, so that loops over them become vector code. Each
is accurate to about 2 ulp where its docstring does not say otherwise, passes NaN on and gives the limit at infinity.
Results below the smallest normal float32 (1.2e-38) are zero. Sources: Cephes (exponential, tangent), Eigen (error
function), and a Chebyshev fit of atanh(s)/s on [0, 1/3] (logarithm).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nntrainer_py.tensor.kernels.compile import kernel

f32 = np.float32
_LARGEST = f32(88.72283)  # exp of more is infinite
_SMALLEST = f32(-87.33654)  # exp of less is below the smallest normal number
_INFINITE = f32(np.inf)


def _fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once; unlike plain arithmetic it is never reordered by the compiler."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FloatType()
        function = builder.module.declare_intrinsic("llvm.fma", [kind], ir.FunctionType(kind, [kind] * 3))
        return builder.call(function, arguments)

    return types.float32(types.float32, types.float32, types.float32), build


fma: Any = intrinsic(_fma)


@kernel()
def exp_split(x: Any) -> Any:
    """``(k, r, p)`` with ``exp(x) = 2**k * (1 + p)``, ``x = k * ln 2 + r``; k within -126..127, 0 for NaN."""
    k = np.floor(x * f32(1.44269504) + f32(0.5))
    k = f32(127.0) if k > f32(127.0) else k
    k = k if k >= f32(-126.0) else f32(0.0)
    r = fma(k, f32(-0.693359375), x)
    r = fma(k, f32(2.12194440e-4), r)
    p = f32(1.9875691500e-4)
    p = fma(p, r, f32(1.3981999507e-3))
    p = fma(p, r, f32(8.3334519073e-3))
    p = fma(p, r, f32(4.1665795894e-2))
    p = fma(p, r, f32(1.6666665459e-1))
    p = fma(p, r, f32(5.0000001201e-1))
    return k, r, fma(p * r, r, r)


@kernel()
def power_of_two(k: Any) -> Any:
    """``2**k`` for an integral k within -126..127."""
    return np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@kernel()
def exp(x: Any) -> Any:
    """e to the x; infinite above 88.72283, zero below -87.33654; within 6 ulp above 88.3."""
    k, _, p = exp_split(x)
    y = (f32(1.0) + p) * power_of_two(k)
    y = _INFINITE if x > _LARGEST else y
    return f32(0.0) if x < _SMALLEST else y


@kernel()
def expm1(x: Any) -> Any:
    """``exp(x) - 1``, accurate near zero too."""
    k, _, p = exp_split(x)
    scale = power_of_two(k)
    y = fma(p, scale, scale - f32(1.0))
    y = _INFINITE if x > _LARGEST else y
    return f32(-1.0) if x < _SMALLEST else y


@kernel()
def log1p_unit(u: Any) -> Any:
    """``ln(1 + u)`` for u within 0..1, as ``2 * atanh(u / (2 + u))``."""
    s = u / (f32(2.0) + u)
    z = s * s
    p = f32(1.1612460831e-01)
    p = fma(p, z, f32(1.0853230514e-01))
    p = fma(p, z, f32(1.4296182396e-01))
    p = fma(p, z, f32(1.9999853103e-01))
    p = fma(p, z, f32(3.3333333660e-01))
    twice = s + s
    return fma(twice * z, p, twice)


@kernel()
def sigmoid_of(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return f32(1.0) / (f32(1.0) + exp(-x))


@kernel()
def softplus_of(x: Any) -> Any:
    """``ln(1 + exp(x))`` without overflow."""
    size = abs(x)
    positive = f32(0.0) if x < f32(0.0) else x
    return positive + log1p_unit(exp(-size))


@kernel()
def tanh_of(x: Any) -> Any:
    """Hyperbolic tangent."""
    size = abs(x)
    z = x * x
    p = f32(-5.70498872745e-3)
    p = fma(p, z, f32(2.06390887954e-2))
    p = fma(p, z, f32(-5.37397155531e-2))
    p = fma(p, z, f32(1.33314422036e-1))
    p = fma(p, z, f32(-3.33332819422e-1))
    near = fma(p * z, x, x)
    far = f32(1.0) - f32(2.0) / (exp(size + size) + f32(1.0))
    far = -far if x < f32(0.0) else far
    return far if size >= f32(0.625) else near


@kernel()
def normal_cdf(x: Any) -> Any:
    """``0.5 * (1 + erf(x / sqrt(2)))``, the distribution function of the normal distribution.

    A quotient of polynomials with an absolute error below 2.5e-7; 0 and 1 beyond ``|x| = 5.66``, where that is closer
    than 1e-8.
    """
    a = x * f32(0.70710678)
    a = f32(4.0) if a > f32(4.0) else a
    a = f32(-4.0) if a < f32(-4.0) else a
    s = a * a
    p = f32(-2.72614225801306e-10)
    p = fma(p, s, f32(2.77068142495902e-08))
    p = fma(p, s, f32(-2.10102402082508e-06))
    p = fma(p, s, f32(-5.69250639462346e-05))
    p = fma(p, s, f32(-7.34990630326855e-04))
    p = fma(p, s, f32(-2.95459980854025e-03))
    p = fma(p, s, f32(-1.60960333262415e-02))
    q = f32(-1.45660718464996e-05)
    q = fma(q, s, f32(-2.13374055278905e-04))
    q = fma(q, s, f32(-1.68282697438203e-03))
    q = fma(q, s, f32(-7.37332916720468e-03))
    q = fma(q, s, f32(-1.42647390514189e-02))
    y = fma(f32(0.5) * a, p / q, f32(0.5))
    y = f32(1.0) if a >= f32(4.0) else y
    return f32(0.0) if a <= f32(-4.0) else y
