"""`Model.compile` looks at the type of every option, in one place."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from small_models import classifier

from nntrainer_py import UsageError
from nntrainer_py.training.options import Options

WRONG = [
    ("threads", 0), ("threads", True), ("threads", "2"),
    ("seed", -1), ("seed", 1.5), ("seed", "seed"), ("seed", 1 << 32),
    ("convolution", 3), ("convolution", ""), ("convolution", []), ("convolution", "fast"),
    ("accumulate_gradients", 1), ("accumulate_gradients", "no"),
    ("in_place", "no"), ("in_place", None),
    ("reuse", "False"), ("reuse", 0),
    ("recompute", "no"), ("recompute", []),
    ("order", ["auto"]), ("order", None), ("order", "best"),
    ("planner", []), ("planner", {}), ("planner", 1),
    ("memory_budget", "8M"), ("memory_budget", 0), ("memory_budget", 1e6), ("memory_budget", True),
    ("training", "yes"), ("training", None),
    ("swap", "no"), ("swap", 1),
    ("swap_folder", 3), ("swap_folder", None), ("swap_folder", b"here"), ("swap_folder", []),
    ("lookahead", -1), ("lookahead", "4"),
    ("data_buffers", None), ("data_buffers", 1.0),
    ("micro_batch", 0), ("micro_batch", "3"), ("micro_batch", False),
    ("poison", "no"),
]  # fmt: skip


def test_every_option_is_tried():
    assert {name for name, _ in WRONG} == {field.name for field in fields(Options)}


@pytest.mark.parametrize(("name", "value"), WRONG, ids=repr)
def test_wrong_options(name, value):
    with pytest.raises(UsageError, match=f"^{name}: expected .*, got "):
        Options(**{name: value})
    if name in ("threads", "seed", "convolution") or value is not None:  # None: as the description says
        with pytest.raises(UsageError, match=f"{name}: expected .*, got "):
            classifier().compile(**{name: value})


def test_what_else_counts_as_the_type(tmp_path):
    made = Options(
        threads=np.int64(2), seed=np.uint32(7), recompute=np.False_, swap=np.True_, memory_budget=np.int32(9),
        swap_folder=Path(tmp_path),
    )  # fmt: skip
    assert (made.threads, made.seed, made.recompute, made.swap, made.memory_budget) == (2, 7, False, True, 9)
    assert made.swap_folder == str(tmp_path)
    assert all(type(getattr(made, field.name)) in (int, bool, str, type(None)) for field in fields(Options))
    assert Options() == Options(memory_budget=None, swap=None, lookahead=None, micro_batch=None)


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(UsageError, match="unknown option 'recomputed'; did you mean 'recompute'"):
        classifier().compile(recomputed=False)
