"""Exponential, logarithm, hyperbolic tangent and error function of one float32, without branches.

NumPy's functions inside Numba are scalar calls; these are polynomials, so that loops over them become vector code. Each
is accurate to about 2 ulp (exp between 88.4 and 88.7: 6), passes NaN on and gives the limit at infinity. Results below
the smallest normal float32 (1.2e-38) are zero. Sources: Cephes (exponential, tangent), N. Juffa's error function, and a
Chebyshev fit of atanh(s)/s on [0, 1/3] (logarithm).
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
    """e to the x; infinite from 88.72283 on, zero below -87.33654."""
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

    Absolute error below 1.2e-7, relative error below 2e-4; zero below x = -5.6, where the value is below 1.1e-8.
    """
    a = x * f32(0.70710678)
    t = abs(a)
    s = a * a
    r = fma(f32(-1.72853470e-5), t, f32(3.83197126e-4))
    u = fma(f32(-3.88396438e-3), t, f32(2.42546219e-2))
    r = fma(r, s, u)
    r = fma(r, t, f32(-1.06777877e-1))
    r = fma(r, t, f32(-6.34846687e-1))
    r = fma(r, t, f32(-1.28717512e-1))
    r = fma(r, t, -t)
    tail = f32(0.5) * exp(r)
    tail = f32(0.0) if t > f32(4.0) else tail
    far = tail if a < f32(0.0) else f32(1.0) - tail
    q = f32(-5.96761703e-4)
    q = fma(q, s, f32(4.99119423e-3))
    q = fma(q, s, f32(-2.67681349e-2))
    q = fma(q, s, f32(1.12819925e-1))
    q = fma(q, s, f32(-3.76125336e-1))
    q = fma(q, s, f32(1.28379166e-1))
    near = fma(f32(0.5), fma(q, a, a), f32(0.5))
    return far if t > f32(0.927734375) else near
