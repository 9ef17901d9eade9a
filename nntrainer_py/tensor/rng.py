"""Random numbers: NNTrainer's own stream for initial weights, counter-based numbers for everything else.

**NNTrainer's stream** (:class:`Stream`) is one MT19937, seeded by the legacy integer seeding; weights are filled from
it one after the other, so the order of the draws matters. Its draws are those of libstdc++.

**Counter-based numbers** have no order: 32 random bits are a pure function of where they are used,
``(key, step, sample, draw, element)``. The function is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
numbers: as easy as 1, 2, 3", SC 2011). The bit formula, which the compiled kernels reproduce:

* ``key = key_of(seed, name)``: the first 8 bytes, little endian, of BLAKE2b over ``seed`` (8 bytes, little endian)
  followed by the UTF-8 bytes of ``name``, with the personalisation ``nntrainer_py``.
* Key words ``k0 = key mod 2^32``, ``k1 = key div 2^32``.
* Counter words ``c0 = element div 4``, ``c1 = sample``, ``c2 = step``, ``c3 = draw``, each taken mod 2^32.
* Ten rounds of ``p0 = c0 * 0xD2511F53``, ``p1 = c2 * 0xCD9E8D57`` (64-bit products),
  ``(c0, c1, c2, c3) = (hi(p1) ^ c1 ^ k0, lo(p1), hi(p0) ^ c3 ^ k1, lo(p0))``; between two rounds
  ``k0 += 0x9E3779B9``, ``k1 += 0xBB67AE85`` (mod 2^32).
* The result is word ``element mod 4`` of ``(c0, c1, c2, c3)``.

``sample`` is the index in the logical batch before it is split, ``draw`` numbers the uses by one layer within a step,
and ``element`` is the flat index within the sample. Neither threads, order, recomputation, resuming nor splitting of
the batch can change a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from nntrainer_py.errors import PropertyError, UsageError

Float32 = npt.NDArray[np.float32]
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]

SEEDS = 2**32
_BLOCK = 1 << 15  # elements made at a time: the temporaries stay in the second-level cache
_DRAWS = 1 << 12  # numbers drawn at a time for a shuffle
_DRAW_BYTES = 48  # of each, as an object and in two lists
_STATE_WORDS = 625  # the 624 words of MT19937 and the position in them


def check_seed(seed: int) -> int:
    """The seed as a plain integer; PropertyError unless ``0 <= seed < 2^32`` (what MT19937's integer seeding takes)."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < SEEDS:
        raise PropertyError(f"an integer from 0 to {SEEDS - 1}", seed, key="seed")
    return int(seed)


class Stream:
    """NNTrainer's random stream: ``std::mt19937(seed)`` read by libstdc++'s distributions.

    Fills are float32 and in C order of ``out``, which may be a strided view or of another float type (values are then
    rounded from float32). Products and sums that NNTrainer's build contracts into one fused multiply-add are rounded
    once here too: uniform fills reproduce its recorded weights bit by bit. Normal fills use the correctly rounded
    logarithm, where glibc's ``logf`` differs in the last bit for about one value in 300.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = check_seed(seed)
        self._random = np.random.RandomState(self.seed)

    def raw(self, count: int) -> UInt32:
        """The next ``count`` outputs of the generator, 32 bits each."""
        return self._random.randint(0, SEEDS, size=count, dtype=np.uint32)

    def uniform(self, out: npt.NDArray[np.generic], low: float, high: float) -> None:
        """Fill ``out`` from [low, high): one output u per value, ``float(u) / 2^32 * (high - low) + low``."""
        first, last = np.float32(low), np.float32(high)
        span = float(last - first)
        for part in _blocks(out):
            part[...] = self._units(part.size) * span + float(first)

    def normal(self, out: npt.NDArray[np.generic], mean: float, deviation: float) -> None:
        """Fill ``out`` from the normal distribution by the polar method; the spare value of an odd count is dropped.

        x, y = 2u - 1 until 0 < r = x^2 + y^2 <= 1; m = sqrt(-2 ln r / r); y m comes first, then x m.
        """
        center, scale = float(np.float32(mean)), float(np.float32(deviation))
        for part in _blocks(out):
            values = self._polar_pairs((part.size + 1) // 2).reshape(-1)[: part.size]
            part[...] = values.astype(np.float64) * scale + center

    def bernoulli(self, out: npt.NDArray[np.generic], probability: float) -> None:
        """Fill ``out`` with 1 (probability ``probability``) and 0; each value takes two outputs, the low word first."""
        limit = float(np.float32(_check_probability(probability)))
        for part in _blocks(out):
            words = self.raw(2 * part.size).astype(np.float64).reshape(-1, 2)
            unit = np.minimum((words[:, 0] + words[:, 1] * 2.0**32) * 2.0**-64, np.nextafter(1.0, 0.0))
            part[...] = unit < limit

    def state(self) -> UInt32:
        """The position in the stream as 625 words; :meth:`restore` continues from exactly there."""
        _, words, position, _, _ = self._random.get_state(legacy=True)
        state = np.empty(_STATE_WORDS, dtype=np.uint32)
        state[:-1] = words
        state[-1] = position
        return state

    def restore(self, state: npt.ArrayLike) -> None:
        """Take over a position saved by :meth:`state`; PropertyError if it is not one."""
        words = np.asarray(state)
        if words.shape != (_STATE_WORDS,) or words.dtype.kind not in "ui":
            found = f"{words.dtype} of shape {words.shape}"
            raise PropertyError(f"{_STATE_WORDS} integers", found, key="random state")
        if words.min() < 0 or words.max() >= SEEDS or words[-1] > _STATE_WORDS - 1:
            raise PropertyError("words of a saved generator", "a word out of its range", key="random state")
        self._random.set_state(("MT19937", words[:-1].astype(np.uint32), int(words[-1]), 0, 0.0))

    def _units(self, count: int) -> npt.NDArray[np.float64]:
        """Uniform floats in [0, 1) as float64: rounded to float32 as libstdc++ does, 1 replaced by the next below."""
        rounded = self.raw(count).astype(np.float32)
        np.minimum(rounded, np.float32(2.0**32 - 256), out=rounded)
        return rounded.astype(np.float64) * 2.0**-32

    def _polar_pairs(self, count: int) -> Float32:
        """``count`` accepted pairs (y m, x m), float32 ``[count, 2]``, having drawn not one output too many."""
        pairs = np.empty((count, 2), dtype=np.float32)
        done = 0
        while done < count:
            # Never more tries than values missing, so an unused draw cannot be left over.
            tries = (2.0 * self._units(2 * (count - done)) - 1.0).astype(np.float32).reshape(-1, 2)
            x, y = tries[:, 0], tries[:, 1]
            radius = (x.astype(np.float64) ** 2 + y * y).astype(np.float32)
            kept = np.flatnonzero((radius <= 1) & (radius > 0))
            radius = radius[kept]
            logarithm = np.log(radius.astype(np.float64)).astype(np.float32)
            factor = np.sqrt(np.float32(-2) * logarithm / radius)
            part = pairs[done : done + kept.size]
            np.multiply(y[kept], factor, out=part[:, 0])
            np.multiply(x[kept], factor, out=part[:, 1])
            done += kept.size
        return pairs


def nntrainer_shuffle(count: int, stream: Stream) -> npt.NDArray[np.int64]:
    """NNTrainer's order of ``count`` samples: ``std::shuffle`` of 0..count-1 with the generator of ``stream``.

    Call it once per epoch with the same stream (NNTrainer: a stream of its own per data set, seed 0), whose state
    carries over. libstdc++ draws two positions from one bounded number while their product fits in 32 bits
    (count <= 65535) and one by one above.
    """
    order = np.arange(_check_count(count), dtype=np.int64)
    if count > 1:
        paired = (SEEDS - 1) // count >= count
        (_swap_paired if paired else _swap_single)(memoryview(order), stream)  # type: ignore[arg-type]  # it is one
    return order


def _swap_paired(order: memoryview[int], stream: Stream) -> None:
    count = len(order)
    first = 1 if count % 2 else 2
    ranges = chain(() if count % 2 else (2,), ((i + 1) * (i + 2) for i in range(first, count, 2)))
    drawn = _bounded(ranges, count // 2, stream)
    if count % 2 == 0:
        j = next(drawn)
        order[1], order[j] = order[j], order[1]
    for i in range(first, count, 2):
        p, q = divmod(next(drawn), i + 2)
        order[i], order[p] = order[p], order[i]
        order[i + 1], order[q] = order[q], order[i + 1]


def _swap_single(order: memoryview[int], stream: Stream) -> None:
    drawn = _bounded(range(2, len(order) + 1), len(order) - 1, stream)
    for i in range(1, len(order)):
        j = next(drawn)
        order[i], order[j] = order[j], order[i]


def _bounded(ranges: Iterable[int], count: int, stream: Stream) -> Iterator[int]:
    """One number in [0, r) for each of ``count`` r: Lemire's method of libstdc++ 11 and later, no draw left over."""
    outputs: list[int] = []
    for index, size in enumerate(ranges):
        while True:
            if not outputs:  # every missing number takes at least one output
                outputs = stream.raw(min(count - index, _DRAWS)).tolist()[::-1]
            product = outputs.pop() * size
            low = product & (SEEDS - 1)
            if low >= size or low >= SEEDS % size:
                break
        yield product >> 32


def key_of(seed: int, name: str) -> int:
    """The 64-bit key of a layer's counter-based numbers; the same for every run, machine and version."""
    return _digest(seed, name, b"nntrainer_py")


def permutation(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    """The order of ``count`` samples in epoch ``epoch``: a pure function, so a resumed run needs no saved state.

    Sorts the indices by 64 counter-based bits each (elements 2i and 2i + 1 of step ``epoch``, low word first); equal
    bits, practically absent, keep the smaller index first.
    """
    key = _digest(seed, "", b"nntrainer_py-shf")
    bits = np.empty(_check_count(count), dtype=np.uint64)
    step = 2 * _groups_at_once(count)  # two samples a group of words
    for start in range(0, count, step):
        part = bits[start : start + step]
        words = _groups(key, epoch, 0, 0, start // 2, (start + len(part) + 1) // 2).reshape(-1, 2)[: len(part)]
        part[...] = words[:, 1]
        part <<= np.uint64(32)
        part |= words[:, 0]
        del words  # before the next ones are made
    return np.argsort(bits, kind="stable").astype(np.int64, copy=False)


def permutation_bytes(count: int) -> int:
    """What `permutation` takes while it works: bits to sort by, the result, and NumPy's room for sorting."""
    return (8 + 8 + 4) * count


def _groups_at_once(count: int) -> int:
    """So many that making them takes no more than the sorting afterwards, for which a group has 144 bytes then."""
    return min(_BLOCK, max(1, count // 12))


def nntrainer_shuffle_bytes(count: int) -> int:
    """What `nntrainer_shuffle` takes while it works, its result included, the state of the stream not."""
    return count * 8 + _DRAW_BYTES * min(_DRAWS, count)


def random_bits(key: int, step: int, samples: npt.ArrayLike, draw: int, count: int) -> UInt32:
    """32 random bits for elements 0..count-1 of each sample: uint32 ``[len(samples), count]``.

    ``samples`` holds indices in the logical batch. This NumPy form is the reference of the compiled kernels.
    """
    rows = np.atleast_1d(np.asarray(samples, dtype=np.uint64))
    groups = -(-count // 4)
    bits = np.empty((rows.size, groups, 4), dtype=np.uint32)
    for row, sample in enumerate(rows):
        for start in range(0, groups, _BLOCK):
            stop = min(start + _BLOCK, groups)
            bits[row, start:stop] = _groups(key, step, sample, draw, start, stop)
    return bits.reshape(rows.size, groups * 4)[:, :count]


def _groups(key: int, step: int, sample: np.uint64 | int, draw: int, start: int, stop: int) -> UInt64:
    """The words of elements 4 start to 4 stop - 1 of a sample: ``[stop - start, 4]``."""
    counter = np.empty((4, stop - start), dtype=np.uint64)
    counter[0] = np.arange(start, stop, dtype=np.uint64)
    counter[1], counter[2], counter[3] = sample, step % SEEDS, draw % SEEDS
    return philox4x32(counter, key).T


def philox4x32(counter: npt.ArrayLike, key: int, rounds: int = 10) -> UInt64:
    """Philox4x32: ``[4, n]`` counter words (taken mod 2^32) to as many random words, each below 2^32, as uint64."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = np.asarray(counter, dtype=np.uint64) & mask
    k0, k1 = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(rounds):
        p0 = c0 * np.uint64(0xD2511F53)
        p1 = c2 * np.uint64(0xCD9E8D57)
        c0, c1 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & mask
        c2, c3 = (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3])


def uniform_of(bits: UInt32) -> Float32:
    """Uniform float32 in [0, 1) from the upper 24 of 32 bits: every value is a multiple of 2^-24, so 1 cannot occur."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def threshold_of(probability: float) -> int:
    """``round(probability * 2^32)``, 0 to 2^32: an event of this probability happens where ``bits < threshold``."""
    return int(np.floor(_check_probability(probability) * 2.0**32 + 0.5))


def normal_of(bits: UInt32) -> npt.NDArray[np.float64]:
    """Standard normal float64 from bits ``[..., even]`` by Box and Muller: elements 2i, 2i + 1 use both their words.

    With u = (b[2i] + 1) / 2^32 in (0, 1] and v = b[2i+1] / 2^32: sqrt(-2 ln u) times cos(2 pi v), then sin(2 pi v).
    """
    if bits.shape[-1] % 2:
        raise UsageError(f"normal numbers come in pairs: expected an even number of words, got {bits.shape[-1]}")
    radius = np.sqrt(-2.0 * np.log((bits[..., 0::2].astype(np.float64) + 1.0) * 2.0**-32))
    angle = bits[..., 1::2].astype(np.float64) * (2.0 * np.pi * 2.0**-32)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(bits.shape)


def _check_probability(probability: float) -> float:
    if not 0.0 <= probability <= 1.0:
        raise PropertyError("a number from 0 to 1", probability, key="probability")
    return float(probability)


def _check_count(count: int) -> int:
    if count < 0:
        raise PropertyError("a number of samples", count, key="count")
    return int(count)


def _digest(seed: int, name: str, person: bytes) -> int:
    text = check_seed(seed).to_bytes(8, "little") + name.encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=person).digest(), "little")


def _blocks(out: npt.NDArray[np.generic]) -> Iterator[npt.NDArray[np.generic]]:
    """``out`` in C order as one-dimensional writable pieces of an even size (the last one aside)."""
    if out.flags.c_contiguous:
        flat = out.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            yield flat[start : start + _BLOCK]
    elif out.ndim == 1:
        for start in range(0, out.size, _BLOCK):
            yield out[start : start + _BLOCK]
    else:
        whole = np.empty(out.size, dtype=out.dtype)
        yield from _blocks(whole)
        out[...] = whole.reshape(out.shape)
