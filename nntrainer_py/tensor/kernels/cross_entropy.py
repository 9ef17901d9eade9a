"""Cross entropies: softmax or sigmoid, the loss and the test of the labels in one pass per row.

Arrays are matrices whose rows are the width of a tensor. Labels are probabilities of the same shape (one-hot or soft),
or one class index per row (``indices``). The target of class j is ``weights[j] * ((1 - smoothing) * t + smoothing /
classes)``, with ``weights`` empty for ones; sigmoid: ``/ 2``. Losses of rows go to ``sums`` (float64) and are added in
order. A label that is no index of a class, not a number, negative, or in a row that does not sum to 1 leaves the
sample's number in ``status``.

The logarithm of the sum of exponentials is exact; NNTrainer adds 1e-20 inside the logarithm, which a float32 cannot see
except for probabilities below it, where the exact value keeps the derivative and the value in step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, sigmoid_of, softplus_of
from nntrainer_py.tensor.kernels.loss import gradient_scale, total
from nntrainer_py.tensor.kernels.softmax import largest, row_sum

Array = npt.NDArray[Any]
f32 = np.float32
SAMPLES, LOSS_SCALE, WRONG = 1, 2, 3  # places in StepState.numbers
CODE, DETAIL = 0, 1  # places in StepState.status
LABEL_OUT_OF_RANGE = 1
SUM_TOLERANCE = 1e-3
NEGATIVE_TOLERANCE = -1e-6
BAD = -np.inf  # in ``sums``: the label of the row is wrong


@kernel()
def valid_index(label: float, classes: int) -> bool:
    """A class index: integral and within 0 .. classes - 1; NaN is none."""
    return label >= 0.0 and label < classes and label == math.floor(label)


@kernel()
def row_mass(t: Array, row: int) -> float:
    """The sum of a row in float64."""
    mass = 0.0
    for j in range(t.shape[1]):
        mass += np.float64(t[row, j])
    return mass


@kernel()
def valid_distribution(t: Array, row: int) -> bool:
    """No negative entry, and a sum of 1; NaN and infinity fail the sum."""
    bad = 0
    for j in range(t.shape[1]):
        bad += 1 if t[row, j] < f32(NEGATIVE_TOLERANCE) else 0
    return bool(bad == 0 and abs(row_mass(t, row) - 1.0) <= SUM_TOLERANCE)


@kernel()
def valid_probabilities(t: Array, row: int) -> bool:
    """Every entry within 0 .. 1; NaN is not."""
    bad = 0
    for j in range(t.shape[1]):
        bad += 0 if (t[row, j] >= f32(NEGATIVE_TOLERANCE)) & (t[row, j] <= f32(1.0 + SUM_TOLERANCE)) else 1
    return bad == 0


@kernel()
def wrong_value(t: Array, row: int, indices: bool) -> float:
    """What is wrong with a label: the class number, the first entry outside 0 .. 1, or the sum of the row."""
    for j in range(1 if indices else t.shape[1]):
        inside = t[row, j] >= NEGATIVE_TOLERANCE and t[row, j] <= 1.0 + SUM_TOLERANCE
        if indices or not inside:
            return float(t[row, j])
    return row_mass(t, row)


@kernel()
def finish(
    sums: Array, t: Array, indices: bool, divisor: float, rows: int, numbers: Array, status: Array, loss: Array
) -> None:
    """Report the first bad row as its sample (``rows`` rows each), and add up the losses."""
    for i in range(sums.size):
        if sums[i] == BAD:
            if status[CODE] == 0:
                status[CODE], status[DETAIL] = LABEL_OUT_OF_RANGE, i // rows
                numbers[WRONG] = wrong_value(t, i, indices)
            break
    total(sums, divisor, loss)


@kernel()
def target(label: float, weights: Array, j: int, smoothing: float, share: float) -> float:
    """Weighted and smoothed target of class ``j``."""
    value = label + smoothing * (share - label)
    return value * weights[j] if weights.size > 0 else value


@kernel()
def row_targets(
    x: Array, t: Array, indices: bool, weights: Array, smoothing: float, row: int, top: float
) -> tuple[float, float]:
    """``(sum_j a_j, sum_j a_j (x_j - top))`` of the targets a of a row whose label is good."""
    classes = x.shape[1]
    share = 1.0 / classes
    k = int(t[row, 0]) if indices else 0
    mass, dot = 0.0, 0.0
    if smoothing == 0.0 and indices:
        mass = np.float64(weights[k]) if weights.size > 0 else 1.0
        return mass, mass * (np.float64(x[row, k]) - top)
    if smoothing == 0.0 and weights.size == 0:
        # an impossible class (x = -inf) that is no target adds nothing, here and below
        for j in range(classes):
            label = np.float64(t[row, j])
            part = label * (np.float64(x[row, j]) - top)
            mass += label
            dot += part if label != 0.0 else 0.0
        return mass, dot
    for j in range(classes):
        chosen = (1.0 if j == k else 0.0) if indices else np.float64(t[row, j])
        a = target(chosen, weights, j, smoothing, share)
        mass += a
        dot += a * (np.float64(x[row, j]) - top) if a != 0.0 else 0.0
    return mass, dot


@kernel()
def cross_softmax_rows(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    out: Array | None,
    sums: Array,
    first: int,
    last: int,
) -> None:
    """``sum_j a_j (ln sum_k exp(x_k) - x_j)`` of the targets a, and the softmax, of each row."""
    if out is None:
        result = x
    else:
        result = out
    classes = x.shape[1]
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else valid_distribution(t, i)
        top = largest(x, i)
        mass, dot = 0.0, 0.0
        if good:
            mass, dot = row_targets(x, t, indices, weights, smoothing, i, np.float64(top))
        for j in range(classes):
            result[i, j] = exp(x[i, j] - top)
        spread = row_sum(result, i)
        inverse = f32(1.0) / spread
        for j in range(classes):
            result[i, j] *= inverse
        sums[i] = mass * math.log(np.float64(spread)) - dot if good else BAD


@kernel()
def cross_softmax(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    status: Array,
    rows: int,
    out: Array | None,
    sums: Array,
    loss: Array,
) -> None:
    """Softmax and mean cross entropy over the samples (of ``rows`` rows each)."""
    cross_softmax_rows(x, t, indices, weights, smoothing, out, sums, 0, x.shape[0])
    finish(sums, t, indices, numbers[SAMPLES] / factor, rows, numbers, status, loss)


@kernel(parallel=True)
def cross_softmax_parallel(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    status: Array,
    rows: int,
    out: Array | None,
    sums: Array,
    loss: Array,
    step: int,
    parts: int,
) -> None:
    """`cross_softmax`, ``step`` rows at a time."""
    for part in prange(parts):
        last = min((part + 1) * step, x.shape[0])
        cross_softmax_rows(x, t, indices, weights, smoothing, out, sums, part * step, last)
    finish(sums, t, indices, numbers[SAMPLES] / factor, rows, numbers, status, loss)


@kernel()
def cross_softmax_derivative(
    p: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    out: Array | None,
    first: int,
    last: int,
) -> None:
    """``(p_j sum(a) - a_j) / N`` of the softmax ``p``; NaN in a row whose index is no class."""
    if out is None:
        result = p
    else:
        result = out
    classes = p.shape[1]
    scale = gradient_scale(numbers, factor)
    plain = weights.size == 0 and smoothing == 0.0
    for i in range(first, last):
        if indices:
            good = valid_index(t[i, 0], classes)
            k = int(t[i, 0]) if good else 0
            mass = 0.0 if good else np.nan
            for j in range(classes):
                mass += target(1.0 if j == k else 0.0, weights, j, smoothing, 1.0 / classes)
            whole = f32(mass) * scale
            for j in range(classes):
                a = target(1.0 if j == k else 0.0, weights, j, smoothing, 1.0 / classes)
                result[i, j] = p[i, j] * whole - f32(a) * scale
        elif plain:
            along = f32(row_mass(t, i))
            for j in range(classes):
                result[i, j] = (p[i, j] * along - t[i, j]) * scale
        else:
            mass = 0.0
            for j in range(classes):
                mass += target(np.float64(t[i, j]), weights, j, smoothing, 1.0 / classes)
            along = f32(mass)
            for j in range(classes):
                share = f32(target(np.float64(t[i, j]), weights, j, smoothing, 1.0 / classes))
                result[i, j] = (p[i, j] * along - share) * scale


@kernel(parallel=True)
def cross_softmax_derivative_parallel(
    p: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    out: Array | None,
    step: int,
    parts: int,
) -> None:
    """`cross_softmax_derivative`, ``step`` rows at a time."""
    for part in prange(parts):
        last = min((part + 1) * step, p.shape[0])
        cross_softmax_derivative(p, t, indices, weights, smoothing, factor, numbers, out, part * step, last)


@kernel()
def element_losses(x: Array, t: Array, row: int) -> float:
    """Sum over a row of ``max(x, 0) + ln(1 + exp(-|x|)) - t x``."""
    value = 0.0
    for j in range(x.shape[1]):
        # a product with t = 0 is zero for an infinite x too
        part = f32(0.0) if t[row, j] == f32(0.0) else t[row, j] * x[row, j]
        value += np.float64(softplus_of(x[row, j]) - part)
    return value


@kernel()
def chosen_element_losses(x: Array, t: Array, indices: bool, weights: Array, smoothing: float, row: int) -> float:
    """`element_losses` with class weights, smoothing or a class number as the label."""
    k = int(t[row, 0]) if indices else 0
    value = 0.0
    for j in range(x.shape[1]):
        v = np.float64(x[row, j])
        label = (1.0 if j == k else 0.0) if indices else np.float64(t[row, j])
        label += smoothing * (0.5 - label)
        w = np.float64(weights[j]) if weights.size > 0 else 1.0
        value += w * (np.float64(softplus_of(x[row, j])) - (label * v if label != 0.0 else 0.0))
    return value


@kernel()
def cross_sigmoid_rows(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    out: Array | None,
    sums: Array,
    first: int,
    last: int,
) -> None:
    """The sum of the elements' losses, and the sigmoid, of each row."""
    if out is None:
        result = x
    else:
        result = out
    plain = not indices and weights.size == 0 and smoothing == 0.0
    for i in range(first, last):
        good = valid_index(t[i, 0], x.shape[1]) if indices else valid_probabilities(t, i)
        sums[i] = BAD
        if good and plain:
            sums[i] = element_losses(x, t, i)
        elif good:
            sums[i] = chosen_element_losses(x, t, indices, weights, smoothing, i)
        for j in range(x.shape[1]):
            result[i, j] = sigmoid_of(x[i, j])


@kernel()
def cross_sigmoid(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    status: Array,
    rows: int,
    out: Array | None,
    sums: Array,
    loss: Array,
) -> None:
    """Sigmoid, and the mean over all elements of ``w (max(x, 0) + ln(1 + exp(-|x|)) - t x)``."""
    cross_sigmoid_rows(x, t, indices, weights, smoothing, out, sums, 0, x.shape[0])
    finish(sums, t, indices, numbers[SAMPLES] * rows * x.shape[1] / factor, rows, numbers, status, loss)


@kernel(parallel=True)
def cross_sigmoid_parallel(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    status: Array,
    rows: int,
    out: Array | None,
    sums: Array,
    loss: Array,
    step: int,
    parts: int,
) -> None:
    """`cross_sigmoid`, ``step`` rows at a time."""
    for part in prange(parts):
        last = min((part + 1) * step, x.shape[0])
        cross_sigmoid_rows(x, t, indices, weights, smoothing, out, sums, part * step, last)
    finish(sums, t, indices, numbers[SAMPLES] * rows * x.shape[1] / factor, rows, numbers, status, loss)


@kernel()
def cross_sigmoid_derivative(
    p: Array,
    t: Array,
    indices: bool,
    weights: Array,
    smoothing: float,
    factor: float,
    numbers: Array,
    out: Array | None,
    first: int,
    last: int,
) -> None:
    """``w (p - t) / S`` of the sigmoid ``p``; NaN in a row whose index is no class."""
    if out is None:
        result = p
    else:
        result = out
    classes = p.shape[1]
    scale = gradient_scale(numbers, factor)
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else True
        k = int(t[i, 0]) if indices and good else 0
        row_scale = scale if good else f32(np.nan)
        for j in range(classes):
            label = (f32(1.0) if j == k else f32(0.0)) if indices else t[i, j]
            label += f32(smoothing) * (f32(0.5) - label)
            w = f32(weights[j]) if weights.size > 0 else f32(1.0)
            result[i, j] = w * (p[i, j] - label) * row_scale


@kernel()
def focal_slope(p: float, a: float, gamma: float) -> float:
    """``p`` times the derivative of ``-a (1 - p)**gamma ln p``."""
    if a == 0.0 or p >= 1.0:
        return 0.0 if a == 0.0 or gamma > 0.0 else -a
    q = 1.0 - p
    if p < 1e-38:
        return -a  # p ln p is zero there
    return float(a * (gamma * p * q ** (gamma - 1.0) * math.log(p) - q**gamma))


@kernel()
def focal(
    x: Array,
    t: Array,
    indices: bool,
    weights: Array,
    gamma: float,
    factor: float,
    numbers: Array,
    status: Array,
    rows: int,
    out: Array | None,
    sums: Array,
    loss: Array,
) -> None:
    """Softmax, and the mean over the samples of ``-sum_j a_j (1 - p_j)**gamma ln p_j``."""
    if out is None:
        result = x
    else:
        result = out
    classes = x.shape[1]
    for i in range(x.shape[0]):
        good = valid_index(t[i, 0], classes) if indices else valid_distribution(t, i)
        k = int(t[i, 0]) if indices and good else 0
        top = np.float64(largest(x, i))
        spread = 0.0
        for j in range(classes):
            spread += math.exp(np.float64(x[i, j]) - top)
        logarithm = math.log(spread)
        value = 0.0
        for j in range(classes):
            label = (1.0 if j == k else 0.0) if indices else np.float64(t[i, j])
            log_p = np.float64(x[i, j]) - top - logarithm
            if label != 0.0:
                value -= target(label, weights, j, 0.0, 0.0) * (-math.expm1(log_p)) ** gamma * log_p
            result[i, j] = f32(math.exp(log_p))
        sums[i] = value if good else BAD
    finish(sums, t, indices, numbers[SAMPLES] / factor, rows, numbers, status, loss)


@kernel()
def focal_derivative(
    p: Array,
    t: Array,
    indices: bool,
    weights: Array,
    gamma: float,
    factor: float,
    numbers: Array,
    out: Array | None,
    first: int,
    last: int,
) -> None:
    """``(q_k - p_k sum(q)) / N`` with ``q = a (gamma p (1 - p)**(gamma - 1) ln p - (1 - p)**gamma)``."""
    if out is None:
        result = p
    else:
        result = out
    classes = p.shape[1]
    scale = factor * numbers[LOSS_SCALE] / numbers[SAMPLES]
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else True
        k = int(t[i, 0]) if indices and good else 0
        mass = 0.0 if good else np.nan
        for j in range(classes):
            label = (1.0 if j == k else 0.0) if indices else np.float64(t[i, j])
            mass += focal_slope(np.float64(p[i, j]), target(label, weights, j, 0.0, 0.0), gamma)
        for j in range(classes):
            label = (1.0 if j == k else 0.0) if indices else np.float64(t[i, j])
            v = np.float64(p[i, j])
            q = focal_slope(v, target(label, weights, j, 0.0, 0.0), gamma)
            result[i, j] = f32((q - v * mass) * scale)


@kernel()
def count_correct(x: Array, t: Array, indices: bool, threshold: bool, out: Array) -> None:
    """How many samples (rows) have their largest prediction where the label is largest; the first one wins a tie.

    ``threshold``: one prediction a sample, a logit, which says 1 when positive. NaN is never right.
    """
    count = 0
    for i in range(x.shape[0]):
        if threshold:
            v = x[i, 0]
            count += (v > f32(0.0)) == (t[i, 0] > f32(0.5)) and v == v
            continue
        best, finite = 0, x[i, 0] == x[i, 0]
        for j in range(1, x.shape[1]):
            finite = finite and x[i, j] == x[i, j]
            best = j if x[i, j] > x[i, best] else best
        wanted = int(t[i, 0]) if indices else 0
        if not indices:
            for j in range(1, t.shape[1]):
                wanted = j if t[i, j] > t[i, wanted] else wanted
        count += best == wanted and finite
    out[0] = count
