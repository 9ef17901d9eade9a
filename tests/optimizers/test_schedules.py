"""Schedules against their formulas, step by step."""

from __future__ import annotations

import math

import pytest

from nntrainer_py.errors import UsageError
from nntrainer_py.optimizers.constant import Constant
from nntrainer_py.optimizers.cosine import Cosine
from nntrainer_py.optimizers.exponential import Exponential
from nntrainer_py.optimizers.linear import Linear
from nntrainer_py.optimizers.one_cycle import OneCycle
from nntrainer_py.optimizers.polynomial import Polynomial
from nntrainer_py.optimizers.reduce_on_plateau import ReduceOnPlateau
from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.optimizers.step import Step
from nntrainer_py.registry import SCHEDULERS

TOP, LOW, SPAN = 0.1, 0.02, 30
FORMULAS = {
    "constant": (Constant(learning_rate=TOP), lambda t: TOP),
    "exponential": (
        Exponential(learning_rate=TOP, decay_rate=0.5, decay_steps=SPAN),
        lambda t: TOP * math.exp(math.log(0.5) * t / SPAN),
    ),
    "step": (
        Step(learning_rate=(0.1, 0.05, 0.01), iteration=(4, 20)),
        lambda t: 0.1 if t <= 4 else 0.05 if t <= 20 else 0.01,
    ),
    "linear": (
        Linear(max_learning_rate=TOP, min_learning_rate=LOW, decay_steps=SPAN),
        lambda t: TOP + (LOW - TOP) * t / SPAN if t < SPAN else LOW,
    ),
    "cosine": (
        Cosine(max_learning_rate=TOP, min_learning_rate=LOW, decay_steps=SPAN),
        lambda t: (TOP + LOW) / 2 + (TOP - LOW) / 2 * math.cos(math.pi * (t - SPAN * (t // SPAN)) / SPAN),
    ),
    "polynomial": (
        Polynomial(max_learning_rate=TOP, min_learning_rate=LOW, decay_steps=SPAN, power=3.0),
        lambda t: LOW + (TOP - LOW) * ((SPAN - t) / SPAN) ** 3 if t < SPAN else LOW,
    ),
}


@pytest.mark.parametrize("word", FORMULAS)
@pytest.mark.parametrize("warmup", [0, 1, 10])
def test_fifty_steps(word: str, warmup: int) -> None:
    schedule, formula = FORMULAS[word]
    warmed = type(schedule)(**schedule.explicit(), warmup_steps=warmup)
    for t in range(70):
        expected = formula(0) * t / warmup if t < warmup else formula(t - warmup)
        assert warmed.rate(t) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_warmup_may_start_above_zero() -> None:
    schedule = Constant(learning_rate=1.0, warmup_steps=4, warmup_start=0.5)
    assert [schedule.rate(t) for t in range(6)] == [0.5, 0.625, 0.75, 0.875, 1.0, 1.0]


def test_the_boundary_of_a_step_has_the_earlier_rate() -> None:
    schedule = Step(learning_rate=(1e-4, 9e-5, 7e-5, 5e-5), iteration=(4, 6, 15))
    assert [schedule.rate(t) for t in (0, 4, 5, 6, 7, 15, 16)] == [1e-4, 1e-4, 9e-5, 9e-5, 7e-5, 7e-5, 5e-5]


def test_cosine_restarts() -> None:
    schedule = FORMULAS["cosine"][0]
    assert schedule.rate(SPAN) == schedule.rate(0) == TOP
    assert schedule.rate(SPAN - 1) > LOW


def test_one_cycle_against_recorded_rates() -> None:
    """torch.optim.lr_scheduler.OneCycleLR(max_lr=0.1, total_steps=20), recorded with PyTorch 2."""
    recorded = [
        0.004, 0.013167184, 0.037167184, 0.066832816, 0.090832816, 0.1, 0.098746401, 0.095048463, 0.089091618,
        0.081174565, 0.0716943, 0.061126202, 0.0500002, 0.038874198, 0.0283061, 0.018825835, 0.010908782, 0.004951937,
        0.001253999, 4e-07,
    ]  # fmt: skip
    schedule = OneCycle(max_learning_rate=0.1, decay_steps=20)
    for t, expected in enumerate(recorded):
        assert schedule.rate(t) == pytest.approx(expected, abs=1e-9), t
    assert schedule.rate(500) == schedule.rate(19)


def test_one_cycle_of_a_few_steps() -> None:
    for steps in (1, 2, 3):
        rates = [OneCycle(max_learning_rate=0.1, decay_steps=steps).rate(t) for t in range(steps + 2)]
        assert all(0 < rate <= 0.1 for rate in rates)


def plateau(**properties: object) -> ReduceOnPlateau:
    return ReduceOnPlateau(learning_rate=1.0, factor=0.5, patience=2, **properties)


def after(schedule: ReduceOnPlateau, values: list[float]) -> list[float]:
    rates = []
    for value in values:
        schedule.epoch_end({schedule.monitor: value})
        rates.append(schedule.rate(0))
    return rates


def test_reduce_on_plateau() -> None:
    assert after(plateau(), [3, 2, 2, 2, 2, 2, 2, 2]) == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    assert after(plateau(), [5, 4, 3, 2, 1]) == [1] * 5
    assert after(plateau(threshold=0.1), [1.0, 0.95, 0.95, 0.95]) == [1, 1, 1, 0.5]
    assert after(plateau(min_learning_rate=0.4), [1] * 8)[-1] == 0.4
    assert after(plateau(cooldown=2), [1] * 10) == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_reduce_on_plateau_watches_accuracies_upwards() -> None:
    rising = plateau(monitor="valid_accuracy")
    assert rising.watches() == "valid_accuracy"
    assert after(rising, [0.1, 0.2, 0.3, 0.4, 0.5]) == [1] * 5
    assert after(rising, [0.5, 0.5, 0.5]) == [1, 1, 0.5]


def test_reduce_on_plateau_does_not_take_nan_for_progress() -> None:
    assert after(plateau(), [1, math.nan, math.nan, math.nan]) == [1, 1, 1, 0.5]
    assert after(plateau(), [math.nan, math.nan, math.nan]) == [1, 1, 0.5]


def test_reduce_on_plateau_needs_its_metric() -> None:
    with pytest.raises(UsageError, match=r"monitor: valid_loss is not known after an epoch \(known: accuracy, loss\)"):
        plateau().epoch_end({"loss": 1.0, "accuracy": 0.5})


def test_reduce_on_plateau_resumes() -> None:
    whole, first, second = plateau(cooldown=1), plateau(cooldown=1), plateau(cooldown=1)
    values = [3.0, 2, 2, 2, 2, 1.9, 2, 2, 2, 2]
    expected = after(whole, values)
    for cut in range(len(values)):
        first.load_state({})
        made = after(first, values[:cut])
        second.load_state(first.state())
        assert made + after(second, values[cut:]) == expected
    first.load_state({})
    assert first.rate(0) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Step(learning_rate=(1.0, 2.0), iteration=(1, 2)), "learning_rate: expected 3 numbers"),
        (
            lambda: Step(learning_rate=(1.0, 2.0, 3.0), iteration=(2, 2)),
            "iteration: expected integers that rise, got '2,2'",
        ),
        (
            lambda: Linear(max_learning_rate=0.1, min_learning_rate=0.2, decay_steps=1),
            "min_learning_rate: expected at most",
        ),
        (lambda: Exponential(learning_rate=1.0, decay_rate=0.0, decay_steps=1), "decay_rate"),
        (lambda: Cosine(max_learning_rate=1.0, min_learning_rate=0.0, decay_steps=0), "decay_steps"),
        (lambda: Constant(), "learning_rate: required"),
        (lambda: Constant(learning_rate=1.0, warmup_start=2.0), "warmup_start"),
    ],
)
def test_faults(make, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_every_schedule_is_one() -> None:
    for word in SCHEDULERS.words():
        assert issubclass(SCHEDULERS.load(word), Schedule)
