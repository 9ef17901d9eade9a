"""Labels that cannot be right are found before anything is updated (users/reports.md U013)."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nntrainer_py.errors import DataError
from nntrainer_py.losses.base import CrossEntropy
from nntrainer_py.losses.cross_sigmoid import CrossSigmoid
from nntrainer_py.losses.cross_softmax import CrossSoftmax
from nntrainer_py.losses.focal import Focal
from nntrainer_py.tensor.kernels import cross_entropy, figures, focal
from nntrainer_py.tensor.operations.record import StepState
from tests.losses.test_losses import run_lone

CLASSES = 10
BAD_NUMBERS = [CLASSES, -1, 255, 1.5, -0.5, np.nan, np.inf, -np.inf, 1e30]


def logits(samples: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((samples, 1, 1, CLASSES)).astype(np.float32)


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize("loss", [CrossSoftmax, CrossSigmoid, Focal])
def test_u013_class_number_outside(loss: type[CrossEntropy], bad: float) -> None:
    labels = np.array([3, 9, bad, 0], np.float32).reshape(4, 1, 1, 1)
    with pytest.raises(DataError, match=rf"sample 2 of the batch: .*, got {re.escape(f'{bad:g}')}$"):
        run_lone(loss(integer_labels=True), logits(4), labels)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        pytest.param(np.zeros(CLASSES), "0", id="sums to 0"),
        pytest.param(np.eye(CLASSES)[1] + np.eye(CLASSES)[4], "2", id="sums to 2"),
        pytest.param(np.eye(CLASSES)[1] * 255, "255", id="255"),
        pytest.param(np.full(CLASSES, np.nan), "nan", id="nan"),
        pytest.param(np.where(np.arange(CLASSES) == 3, np.inf, 0), "inf", id="inf"),
        pytest.param(np.r_[0.5, -1.0, 1.5, np.zeros(CLASSES - 3)], "-1", id="negative"),
    ],
)
@pytest.mark.parametrize("loss", [CrossSoftmax, Focal])
def test_u013_row_that_is_no_distribution(loss: type[CrossEntropy], row: np.ndarray, found: str) -> None:
    labels = np.eye(CLASSES)[[3, 9, 2, 0]].reshape(4, 1, 1, CLASSES)
    labels[1, 0, 0] = row
    with pytest.raises(DataError, match=rf"sample 1 of the batch: .*, got {found}$"):
        run_lone(loss(), logits(4), labels)


def test_u013_the_sample_is_named_where_a_sample_has_several_rows() -> None:
    x = np.zeros((3, 1, 4, 5), np.float32)
    labels = np.zeros((3, 1, 4, 1), np.float32)
    labels[2, 0, 1] = 5
    with pytest.raises(DataError, match=r"sample 2\b"):
        run_lone(CrossSoftmax(integer_labels=True), x, labels)


def test_u013_soft_rows_are_legal() -> None:
    labels = np.random.default_rng(1).dirichlet(np.ones(CLASSES), 4).reshape(4, 1, 1, CLASSES)
    value, derivative, _ = run_lone(CrossSoftmax(), logits(4), labels)
    assert np.isfinite(value)
    assert derivative.sum(-1) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("bad", [-0.5, 1.5, np.nan])
def test_cross_sigmoid_labels_lie_within_0_and_1(bad: float) -> None:
    labels = np.zeros((4, 1, 1, CLASSES))
    labels[3, 0, 0, 7] = bad
    with pytest.raises(DataError, match=r"sample 3\b"):
        run_lone(CrossSigmoid(), logits(4), labels)


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize("name", ["cross_softmax", "cross_sigmoid", "focal"])
def test_u013_no_read_or_write_outside_under_guards(name: str, bad: float) -> None:
    """Every array lies between guards; a bad class number must leave them alone, and read none into the results."""
    guard, rows = 64, 3
    state = StepState()
    none = np.zeros(0)

    def guarded(count: int, value: float) -> tuple[np.ndarray, np.ndarray]:
        whole = np.full(count + 2 * guard, value, np.float32)
        return whole, whole[guard : guard + count]

    whole_x, x = guarded(rows * CLASSES, 1e30)
    whole_out, out = guarded(rows * CLASSES, 7.0)
    _, labels = guarded(rows, 0.0)
    x[:] = logits(rows).reshape(-1)
    labels[:] = (1, bad, 2)
    sums, loss = np.zeros(rows), np.zeros(1)
    matrix, target, made = x.reshape(rows, -1), labels.reshape(rows, 1), out.reshape(rows, -1)
    arguments = (matrix, target, True, none, 0.0, 1.0, state.numbers, state.status, 1, made, sums, loss, 1)
    module = focal if name == "focal" else cross_entropy
    getattr(module, name)(*arguments)
    assert state.status.tolist() == [1, 1]
    derivative = np.zeros_like(made)
    back = getattr(module, f"{name}_derivative")
    back(made, target, True, none, 0.0, 1.0, state.numbers, derivative, 1)
    assert np.all(np.isnan(derivative[1]))
    assert np.all(np.abs(derivative[[0, 2]]) <= 1)
    for whole, value in ((whole_x, np.float32(1e30)), (whole_out, 7.0)):
        assert np.all(whole[:guard] == value)
        assert np.all(whole[-guard:] == value)


def test_the_first_bad_sample_is_named_with_threads() -> None:
    x = np.zeros((200, 1, 1, 1000), np.float32)
    labels = np.zeros((200, 1, 1, 1), np.float32)
    labels[[70, 150, 199]] = 1000
    with pytest.raises(DataError, match=r"sample 70\b"):
        run_lone(CrossSoftmax(integer_labels=True), x, labels)


def test_count_correct() -> None:
    x = np.array([[1, 2, 2], [3, 3, 1], [np.nan, 1, 0], [0, 0, 5]], np.float32)
    t = np.eye(3, dtype=np.float32)[[1, 1, 1, 2]]
    out = np.zeros(1)
    figures.count_correct(x, t, False, False, out)
    assert out[0] == 2  # the first of equal ones wins; NaN is never right
    figures.count_correct(x, np.array([[1], [0], [0], [2]], np.float32), True, False, out)
    assert out[0] == 3
    logit, wanted = np.array([[0.1], [-0.1], [0.1], [np.nan]], np.float32), np.array([[1], [0], [0], [0]], np.float32)
    figures.count_correct(logit, wanted, False, True, out)
    assert out[0] == 2
