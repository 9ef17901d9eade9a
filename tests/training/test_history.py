"""The rows of a run: kept as numbers, given back as they were, written line by line."""

from __future__ import annotations

import csv
import json
import math
import tracemalloc

import pytest

from nntrainer_py.training.history import EpochRow, History


def _row(epoch: int) -> EpochRow:
    return EpochRow(
        epoch, 7 * epoch, 1 / epoch, {"mae": 0.1 * epoch, "r2": math.nan}, 0.1 + epoch, {"mae": 0.3, "r2": -math.inf},
        1e-3, 0.25 * epoch, 123,
    )  # fmt: skip


ROWS = [
    EpochRow(1, 10, 0.1 + 0.2, samples=5),
    EpochRow(2, 20, math.inf, {"accuracy": 0.5}, learning_rate=5e-324, samples=5),
    EpochRow(3, 2**40, -0.0, {"accuracy": 1 / 3}, 0.7, {"accuracy": 2 / 3}, 0.1, 1.5, 2**33),
    EpochRow(4, 40, 1.0, {}, 0.0, {}),
]


def test_rows_of_every_kind_come_back():
    history = History(ROWS)
    assert list(history) == ROWS
    assert (history[0], history[-1], history[1:3], len(history)) == (ROWS[0], ROWS[3], ROWS[1:3], 4)
    assert [row.epoch for row in reversed(history)] == [4, 3, 2, 1]
    with pytest.raises(IndexError):
        history[4]
    assert History.of_records(json.loads(line) for line in history.lines())[:] == ROWS
    assert not len(History())
    assert History().csv() == History().json_lines() == ""


def test_lines_go_on_where_they_ended():
    history = History(ROWS[:1])
    first = list(history.lines())
    history.append(ROWS[1])
    assert list(history.lines()) == [*first, json.dumps(ROWS[1].as_record())]
    assert list(history.lines()) == list(History(ROWS[:2]).lines())


def test_files_have_the_figures(tmp_path):
    history = History(map(_row, range(1, 6)))
    history.write_csv(tmp_path / "h.csv")
    history.write_json_lines(tmp_path / "h.jsonl")
    rows = list(csv.DictReader((tmp_path / "h.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["valid_loss"]) for row in rows] == history.column("valid_loss") == [k + 0.1 for k in range(1, 6)]
    assert rows[0]["r2"] == "nan"
    records = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["metrics"] for record in records] == [{"mae": 0.1 * k, "r2": None} for k in range(1, 6)]
    assert (tmp_path / "h.csv").read_text(encoding="utf-8") == history.csv()
    assert (tmp_path / "h.jsonl").read_text(encoding="utf-8") == history.json_lines()


def test_an_epoch_takes_little_memory(tmp_path):
    """Some 100 bytes for its numbers; some 300 more for its text, once there was a checkpoint."""
    count = 3000
    tracemalloc.start()
    try:
        history = History()
        for epoch in range(1, count + 1):
            history.append(_row(epoch))
        assert tracemalloc.get_traced_memory()[0] < 130 * count
        tracemalloc.reset_peak()
        history.write_csv(tmp_path / "h.csv")
        history.write_json_lines(tmp_path / "h.jsonl")
        assert tracemalloc.get_traced_memory()[1] < 160 * count
        sum(map(len, history.lines()))
        assert tracemalloc.get_traced_memory()[0] < 480 * count
    finally:
        tracemalloc.stop()
