"""nntrainer-inspect: the peak and who is alive then, recomputed here; the picture; other planners beside ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import MODEL, command


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    path = tmp_path / "model.ini"
    path.write_text(MODEL, encoding="utf-8")
    return path


def test_the_peak_is_the_largest_sum_alive(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(command(capsys, "inspect", ini, "--json", "--planners").out)
    boxes = record["picture"]["boxes"]

    def alive(moment: int) -> list[tuple[str, int]]:
        return [(name, size) for name, size, first, last, _ in boxes if first <= moment <= last and size]

    sums = [sum(-(-size // 64) * 64 for _, size in alive(k)) for k in range(record["picture"]["operations"] + 1)]
    assert record["peak"]["bytes"] == max(sums) == record["memory"]["lower_bound"]
    assert sums[record["peak"]["operation"]] == max(sums)
    assert sorted((one["name"], one["bytes"]) for one in record["peak"]["alive"]) == sorted(
        alive(record["peak"]["operation"])
    )
    planners = record["planners"]
    assert planners["search"] == record["picture"]["arena"]
    assert planners["basic"] == record["memory"]["without_reuse"]
    theirs = {name: size for name, size in planners.items() if "NNTrainer's lifetimes" in name}
    assert len(theirs) == 2
    assert all(0 < size < planners["basic"] for size in theirs.values())
    # boxes that live at one time do not share an address
    for k, (_, size, first, last, at) in enumerate(boxes):
        for _, other, start, end, there in boxes[:k]:
            assert last < start or end < first or at + size <= there or there + other <= at


def test_text_and_picture(ini: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = command(capsys, "inspect", ini, "--plot", tmp_path / "plan.png")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("only the batches kept ready are counted") == 2  # the data is not there
    assert "peak of a step" in done.out
    assert "alive then" in done.out
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    done = command(capsys, "inspect", ini, "--plot", tmp_path / "plan.nix")
    assert done.code == 2
    assert "png" in done.err


def test_inference_needs_less(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = json.loads(command(capsys, "inspect", ini, "--json").out)
    inference = json.loads(command(capsys, "inspect", ini, "--json", "--inference").out)
    assert inference["mode"] == "predict"
    assert inference["memory"]["optimizer"] == 0
    assert inference["memory"]["arena"] < training["memory"]["arena"]
