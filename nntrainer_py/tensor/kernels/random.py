"""Counter-based random numbers: Philox4x32-10 as ``nntrainer_py.tensor.rng`` documents and computes it, bit by bit.

Every kernel is a pure function of ``key`` (of seed and layer), the step and the first sample's index in the logical
batch (both read from ``counters``, so a bound call replays), ``draw`` and the element. Nothing is stored between
forward and backward pass: a derivative draws the same mask again. Arrays are [samples, features].
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Float32 = npt.NDArray[np.float32]
UInt32 = npt.NDArray[np.uint32]
Int64 = npt.NDArray[np.int64]
Block = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

STEP = 1  # places in ``counters``, the layout of the step state
OFFSET = 2
PARALLEL_ELEMENTS = 1 << 16  # below this one thread is as fast

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_UNIT24 = np.float32(2.0**-24)
_UNIT32 = 2.0**-32


@kernel()
def philox(c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, key: np.uint64) -> Block:
    """Four random words below 2^32 of four counter words below 2^32."""
    k0, k1 = key & _LOW, key >> _SHIFT
    for _ in range(10):
        p0 = c0 * _M0
        p1 = c2 * _M1
        c0 = (p1 >> _SHIFT) ^ c1 ^ k0
        c2 = (p0 >> _SHIFT) ^ c3 ^ k1
        c1 = p1 & _LOW
        c3 = p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@kernel()
def random_bits_part(part: int, parts: int, key: np.uint64, counters: Int64, draw: int, bits: UInt32) -> None:
    """A share of the groups of ``bits`` [samples, features]: four elements each, the last of a row shorter."""
    features = bits.shape[1]
    groups = (features + 3) // 4
    first, last = share(part, parts, bits.shape[0] * groups, 1)
    step = np.uint64(counters[STEP]) & _LOW
    number = np.uint64(draw) & _LOW
    for row in range(first // groups, (last + groups - 1) // groups):
        sample = np.uint64(counters[OFFSET] + row) & _LOW
        start = max(first - row * groups, 0)
        stop = min(last - row * groups, groups)
        whole = min(stop, features // 4)
        for group in range(start, whole):
            w0, w1, w2, w3 = philox(np.uint64(group) & _LOW, sample, step, number, key)
            place = 4 * group
            bits[row, place] = w0
            bits[row, place + 1] = w1
            bits[row, place + 2] = w2
            bits[row, place + 3] = w3
        if whole < stop and whole >= start:
            words = philox(np.uint64(whole) & _LOW, sample, step, number, key)
            for element in range(4 * whole, features):
                bits[row, element] = words[element - 4 * whole]


@kernel(forks=True)
def random_bits(key: np.uint64, counters: Int64, draw: int, bits: UInt32, parts: int) -> None:
    """Fill ``bits`` uint32 [samples, features] with 32 random bits per element."""
    fork_join(random_bits_part, parts, (key, counters, draw, bits))


@kernel()
def choose(bits: UInt32, threshold: int, below: float, above: float, out: Float32) -> None:
    """``out`` = ``below`` where ``bits < threshold`` (0 to 2^32), else ``above``.

    ``bits`` may be the memory of ``out``: each element is read before it is written.
    """
    low, high = np.float32(below), np.float32(above)
    for row in range(bits.shape[0]):
        for element in range(bits.shape[1]):
            out[row, element] = low if np.int64(bits[row, element]) < threshold else high


@kernel()
def dropout_part(
    part: int, parts: int, key: np.uint64, counters: Int64, draw: int, threshold: int, scale: float, x: Float32,
    out: Float32,
) -> None:  # fmt: skip
    """The same walk as ``random_bits_part``."""
    features = x.shape[1]
    groups = (features + 3) // 4
    first, last = share(part, parts, x.shape[0] * groups, 1)
    step = np.uint64(counters[STEP]) & _LOW
    number = np.uint64(draw) & _LOW
    limit, factor, zero = np.uint64(threshold), np.float32(scale), np.float32(0.0)
    for row in range(first // groups, (last + groups - 1) // groups):
        sample = np.uint64(counters[OFFSET] + row) & _LOW
        start = max(first - row * groups, 0)
        stop = min(last - row * groups, groups)
        whole = min(stop, features // 4)
        for group in range(start, whole):
            w0, w1, w2, w3 = philox(np.uint64(group) & _LOW, sample, step, number, key)
            place = 4 * group
            # multiplied first: choosing between two numbers needs no jump (which would be mispredicted half the time)
            x0, x1 = x[row, place] * factor, x[row, place + 1] * factor
            x2, x3 = x[row, place + 2] * factor, x[row, place + 3] * factor
            out[row, place] = zero if w0 < limit else x0
            out[row, place + 1] = zero if w1 < limit else x1
            out[row, place + 2] = zero if w2 < limit else x2
            out[row, place + 3] = zero if w3 < limit else x3
        if whole < stop and whole >= start:
            words = philox(np.uint64(whole) & _LOW, sample, step, number, key)
            for element in range(4 * whole, features):
                out[row, element] = zero if words[element - 4 * whole] < limit else x[row, element] * factor


@kernel(forks=True)
def dropout(
    key: np.uint64, counters: Int64, draw: int, threshold: int, scale: float, x: Float32, out: Float32, parts: int
) -> None:
    """``out`` = 0 where the element's bits are below ``threshold`` (0 to 2^32), else ``x * scale``.

    Dropout (scale = 1 / (1 - rate)) and, for the incoming gradient as ``x``, its derivative; no mask is stored.
    A dropped element is 0 even where x is not finite. ``out`` may be ``x``.
    """
    fork_join(dropout_part, parts, (key, counters, draw, threshold, scale, x, out))


@kernel()
def uniform(bits: UInt32, low: float, high: float, out: Float32) -> None:
    """``out = low + (high - low) * u`` with u in [0, 1) from the upper 24 bits. ``out`` may be ``bits``'s memory."""
    start, span = np.float32(low), np.float32(high) - np.float32(low)
    for row in range(bits.shape[0]):
        for element in range(bits.shape[1]):
            out[row, element] = start + span * (np.float32(bits[row, element] >> np.uint32(8)) * _UNIT24)


@kernel()
def normal(bits: UInt32, mean: float, deviation: float, out: Float32) -> None:
    """Normal numbers by Box and Muller from pairs of words; ``bits`` [samples, features rounded up to even].

    ``out`` [samples, features], computed in float64 and rounded once.
    """
    features = out.shape[1]
    for row in range(out.shape[0]):
        for pair in range((features + 1) // 2):
            place = 2 * pair
            radius = deviation * math.sqrt(-2.0 * math.log((np.float64(bits[row, place]) + 1.0) * _UNIT32))
            angle = np.float64(bits[row, place + 1]) * (2.0 * math.pi * _UNIT32)
            out[row, place] = np.float32(mean + radius * math.cos(angle))
            if place + 1 < features:
                out[row, place + 1] = np.float32(mean + radius * math.sin(angle))
