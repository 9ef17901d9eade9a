"""Random numbers against libstdc++'s own output, the published Philox vectors and plain statistics.

The libstdc++ values come from programs compiled with g++ 12 (``-O3 -march=native``, so with fused multiply-adds).
"""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from nntrainer_py.errors import PropertyError, UsageError
from nntrainer_py.tensor.rng import (
    Stream,
    key_of,
    nntrainer_shuffle,
    nntrainer_shuffle_bytes,
    normal_of,
    permutation,
    permutation_bytes,
    philox4x32,
    random_bits,
    threshold_of,
    uniform_of,
)


def hexadecimal(text: str) -> np.ndarray:
    return np.array([float.fromhex(word) for word in text.split()], dtype=np.float32)


def test_raw_outputs_are_those_of_mt19937() -> None:
    assert Stream(0).raw(4).tolist() == [2357136044, 2546248239, 3071714933, 3626093760]
    assert Stream(5489).raw(10_000)[-1] == 4123659995  # the C++ standard's check value


def test_uniform_is_that_of_libstdcxx() -> None:
    out = np.empty(6, dtype=np.float32)
    Stream(0).uniform(out, -0.5, 0.25)
    expected = "-0x1.6a0b7cp-4 -0x1.c5901p-5 0x1.2a1f9p-5 0x1.10cacep-3 -0x1.889f38p-5 0x1.25cdf2p-3"
    np.testing.assert_array_equal(out, hexadecimal(expected))


def test_normal_is_that_of_libstdcxx_and_drops_the_spare_value() -> None:
    stream, first, second = Stream(0), np.empty(7, dtype=np.float32), np.empty(3, dtype=np.float32)
    stream.normal(first, 0.5, 2.0)
    stream.normal(second, 0.0, 1.0)
    expected = (
        "0x1.3b2994p+2 0x1.69bf86p+1 0x1.06251cp+1 0x1.77b53cp+0 0x1.4b1ee8p+1 0x1.196062p+0 0x1.6f15bep+1 "
        "0x1.e44732p+0 -0x1.2b3772p+0 -0x1.3c1804p+0"
    )
    np.testing.assert_allclose(np.concatenate([first, second]), hexadecimal(expected), rtol=1.2e-7, atol=0)


@pytest.mark.parametrize(("draw", "following"), [("normal", 2702476217), ("uniform", 2069430799)])
def test_long_fill_draws_exactly_as_many_outputs_as_libstdcxx(draw: str, following: int) -> None:
    stream, out = Stream(7), np.empty(1_000_001, dtype=np.float32)
    getattr(stream, draw)(out, -0.1, 0.1)
    assert stream.raw(1)[0] == following


def test_bernoulli_is_that_of_libstdcxx() -> None:
    stream, out = Stream(3), np.empty(40, dtype=np.uint8)
    stream.bernoulli(out, 0.3)
    assert "".join(map(str, out)) == "1010011110101000000000100010011000000010"
    assert stream.raw(1)[0] == 1745989749


def plain_polar(stream: Stream, count: int) -> list[float]:
    """The specification's loop, one value at a time in float64."""
    values: list[float] = []
    while len(values) < count:
        x, y = (2.0 * np.float64(np.float32(u)) / 2**32 - 1.0 for u in stream.raw(2))
        r = x * x + y * y
        if 0.0 < r <= 1.0:
            m = np.sqrt(-2.0 * np.log(r) / r)
            values += [y * m, x * m]
    return values[:count]


@pytest.mark.parametrize("count", [1, 2, 501])
def test_normal_follows_the_plain_loop(count: int) -> None:
    one, other, out = Stream(11), Stream(11), np.empty(count, dtype=np.float32)
    one.normal(out, 0.0, 1.0)
    # near r = 1 the logarithm loses digits in float32, hence the absolute part
    np.testing.assert_allclose(out, plain_polar(other, count), rtol=2e-5, atol=3e-4)
    assert one.raw(1) == other.raw(1)


def test_fill_of_other_layouts_and_types_equals_the_plain_one() -> None:
    plain = np.empty(24, dtype=np.float32)
    Stream(1).normal(plain, 0.0, 1.0)
    transposed = np.empty((6, 4), dtype=np.float32).T
    Stream(1).normal(transposed, 0.0, 1.0)
    np.testing.assert_array_equal(transposed, plain.reshape(4, 6))
    strided = np.zeros(48, dtype=np.float16)
    Stream(1).normal(strided[::2], 0.0, 1.0)
    np.testing.assert_array_equal(strided[::2], plain.astype(np.float16))
    assert not strided[1::2].any()


def test_state_continues_from_the_same_place_through_json() -> None:
    stream = Stream(4)
    stream.raw(1000)
    saved = json.loads(json.dumps(stream.state().tolist()))
    expected = stream.raw(2000)
    other = Stream(0)
    other.restore(saved)
    np.testing.assert_array_equal(other.raw(2000), expected)


@pytest.mark.parametrize("state", [[1, 2], np.zeros(625), np.full(625, -1), np.full(625, 2**32), np.full(625, 700)])
def test_wrong_state_is_refused(state: object) -> None:
    with pytest.raises(PropertyError, match="random state"):
        Stream(0).restore(state)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, "1", True, None])
def test_wrong_seed_is_refused(seed: object) -> None:
    with pytest.raises(PropertyError, match="seed: expected an integer from 0 to 4294967295"):
        Stream(seed)  # type: ignore[arg-type]


SHUFFLES = {
    0: [[], [], []],
    1: [[0], [0], [0]],
    2: [[0, 1], [0, 1], [0, 1]],
    3: [[2, 1, 0], [2, 1, 0], [0, 2, 1]],
    9: [[2, 4, 6, 0, 5, 1, 8, 3, 7], [2, 6, 4, 5, 0, 3, 7, 8, 1], [8, 0, 4, 7, 3, 2, 6, 5, 1]],
    10: [[0, 2, 1, 5, 9, 8, 4, 7, 6, 3], [0, 5, 6, 1, 4, 8, 9, 7, 2, 3], [9, 5, 6, 0, 1, 2, 4, 3, 8, 7]],
}


@pytest.mark.parametrize("count", SHUFFLES)
def test_shuffle_is_that_of_libstdcxx_over_three_epochs(count: int) -> None:
    stream = Stream(0)
    assert [nntrainer_shuffle(count, stream).tolist() for _ in range(3)] == SHUFFLES[count]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1000, [(2636770503, 1599585190), (1233998961, 2924403310)]),
        (46341, [(4254444257, 171627596), (701565649, 1596000603)]),
        (65535, [(3421246586, 3569672111), (2422517468, 512256088)]),
        (65536, [(1937109161, 3632538780), (2204635115, 446366045)]),
    ],
)
def test_long_shuffle_is_that_of_libstdcxx(count: int, expected: list[tuple[int, int]]) -> None:
    """FNV-like hash of the order, and the generator's next output (drawn, as in the program that was compiled)."""
    stream = Stream(5)
    for digest, following in expected:
        value = 2166136261
        for index in nntrainer_shuffle(count, stream).tolist():
            value = ((value ^ index) * 16777619) & 0xFFFFFFFF
        assert (value, int(stream.raw(1)[0])) == (digest, following)


@pytest.mark.parametrize(
    ("rounds", "counter", "key", "expected"),
    [
        (7, [0] * 4, [0] * 2, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (7, [0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "5207ddc2 45165e59 4d8ee751 8c52f662"),
        (10, [0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, [0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            10,
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_vectors(rounds: int, counter: list[int], key: list[int], expected: str) -> None:
    """The known answers that Random123 ships for philox4x32."""
    words = philox4x32(np.array(counter).reshape(4, 1), key[0] | key[1] << 32, rounds)
    assert words.ravel().tolist() == [int(word, 16) for word in expected.split()]


def test_bits_are_the_documented_words_of_the_documented_counter() -> None:
    key = key_of(3, "dropout1")
    bits = random_bits(key, step=2**32 + 9, samples=[4, 5], draw=6, count=11)
    assert bits.shape == (2, 11)
    assert bits.dtype == np.uint32
    for row, sample in enumerate((4, 5)):
        for element in range(11):
            words = philox4x32(np.array([[element // 4], [sample], [9], [6]]), key)
            assert bits[row, element] == words[element % 4, 0]


def test_bits_do_not_depend_on_how_a_batch_is_split() -> None:
    key = key_of(0, "drop")
    whole = random_bits(key, 5, np.arange(8), 0, 1000)
    parts = [random_bits(key, 5, samples, 0, 1000) for samples in ([0, 1, 2], [3], [4, 5, 6, 7])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(random_bits(key, 5, [6, 2], 0, 7), whole[[6, 2], :7])


def test_large_sample_is_made_in_blocks_that_join() -> None:
    count = 4 * (1 << 15) + 6
    bits = random_bits(1, 0, [0], 0, count)[0]
    words = philox4x32(np.array([[count // 4], [0], [0], [0]]), 1)
    assert bits[-2:].tolist() == words[:2, 0].tolist()


def test_every_coordinate_changes_the_bits() -> None:
    base = (key_of(0, "a"), 1, 2, 3)
    changed = [
        (key_of(1, "a"), 1, 2, 3),
        (key_of(0, "b"), 1, 2, 3),
        (base[0], 2, 2, 3),
        (base[0], 1, 3, 3),
        (base[0], 1, 2, 4),
    ]
    rows = [random_bits(key, step, [sample], draw, 64)[0].tobytes() for key, step, sample, draw in [base, *changed]]
    assert len(set(rows)) == len(rows)


def test_keys_are_fixed_for_ever() -> None:
    """Resumed runs depend on them, so a change must be noticed."""
    keys = (key_of(0, "dropout"), key_of(1, "dropout"), key_of(0, "drop\u00f6ut"))
    assert keys == (12095486079102112995, 164233577923524906, 11174660559107212954)


def test_bits_are_uniform_and_uncorrelated() -> None:
    bits = random_bits(key_of(0, "test"), 0, np.arange(64), 0, 4096)
    values = uniform_of(bits)
    assert values.dtype == np.float32
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert stats.kstest(values.ravel(), "uniform").pvalue > 0.01
    counts = np.bincount((bits >> np.uint32(24)).ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > 0.01
    # each of the 32 bits is set half the time, five standard deviations allowed
    ones = [int(((bits >> np.uint32(position)) & np.uint32(1)).sum()) for position in range(32)]
    assert np.abs(np.array(ones) - bits.size / 2).max() < 5 * np.sqrt(bits.size) / 2
    centred = values.astype(np.float64) - 0.5
    for left, right in [(centred[:, :-1], centred[:, 1:]), (centred[:-1], centred[1:])]:
        assert abs((left * right).mean() * 12) < 5 / np.sqrt(left.size)


def test_uniform_cannot_be_one() -> None:
    assert uniform_of(np.array([0xFFFFFFFF, 0, 256], dtype=np.uint32)).tolist() == [1 - 2**-24, 0.0, 2**-24]


def test_threshold() -> None:
    assert (threshold_of(0.0), threshold_of(0.5), threshold_of(1.0)) == (0, 2**31, 2**32)
    bits = random_bits(1, 0, [0], 0, 200_000)
    assert (bits.astype(np.uint64) < threshold_of(0.3)).mean() == pytest.approx(0.3, abs=0.005)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(PropertyError, match="probability"):
            threshold_of(wrong)


def test_normal_of_bits() -> None:
    values = normal_of(random_bits(key_of(0, "noise"), 0, [0, 1], 0, 50_000))
    assert stats.kstest(values.ravel(), "norm").pvalue > 0.01
    assert abs((values[:, 0::2] * values[:, 1::2]).mean()) < 0.02
    assert np.isfinite(normal_of(np.array([0, 0, 0xFFFFFFFF, 0xFFFFFFFF], dtype=np.uint32))).all()
    with pytest.raises(UsageError, match="even number of words, got 3"):
        normal_of(np.zeros(3, dtype=np.uint32))


def test_permutation_is_a_pure_function_of_seed_and_epoch() -> None:
    orders = [permutation(seed, epoch, 1000) for seed, epoch in [(0, 0), (0, 1), (1, 0)]]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    assert len({order.tobytes() for order in orders}) == 3
    np.testing.assert_array_equal(permutation(0, 1, 1000), orders[1])
    assert permutation(0, 0, 0).size == 0
    assert permutation(0, 0, 1).tolist() == [0]


@pytest.mark.parametrize("count", [2, 3, 1023, 1024, 1025, 1026, 2049, 20_001, 300_000])
def test_permutation_sorts_by_64_bits_a_sample(count: int) -> None:
    """Made in pieces or not, it is the sorting by the words of the one row of bits."""
    person = b"nntrainer_py-shf"
    digest = hashlib.blake2b((12).to_bytes(8, "little"), digest_size=8, person=person).digest()
    low, high = random_bits(int.from_bytes(digest, "little"), 7, [0], 0, 2 * count)[0].astype(object).reshape(-1, 2).T
    keys = (low + high * 2**32).tolist()
    assert permutation(12, 7, count).tolist() == sorted(range(count), key=keys.__getitem__)


@pytest.mark.parametrize(
    ("call", "counted"),
    [
        (lambda count: permutation(1, 1, count), permutation_bytes),
        (lambda count: nntrainer_shuffle(count, Stream(1)), nntrainer_shuffle_bytes),
    ],
)
@pytest.mark.parametrize("count", [1, 100, 5_000, 70_000, 400_000])
def test_memory_of_an_order_while_it_is_made(
    count: int, call: Callable[[int], object], counted: Callable[[int], int]
) -> None:
    call(count)
    tracemalloc.start()
    try:
        call(count)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= counted(count) + 8192
    assert counted(count) <= (8 + 24) * count or counted is nntrainer_shuffle_bytes


def test_permutations_are_equally_likely() -> None:
    seen = {tuple(order): 0 for order in np.ndindex(4, 4, 4, 4) if len(set(order)) == 4}
    for epoch in range(2400):
        seen[tuple(permutation(9, epoch, 4).tolist())] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 0.01


def test_negative_count_is_refused() -> None:
    for call in (lambda: permutation(0, 0, -1), lambda: nntrainer_shuffle(-1, Stream(0))):
        with pytest.raises(PropertyError, match="count"):
            call()
