"""A run with a thousand classes: its table is neither held, nor written, nor drawn as a million cells."""

from __future__ import annotations

import html
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from commands import command
from PIL import Image

from nntrainer_py.cli import pictures
from nntrainer_py.cli.confusion import Confusions
from nntrainer_py.cli.json_text import json_parts
from nntrainer_py.training.metrics import ClassReport

CLASSES = 1000
INI = """
[Model]
loss = cross
epochs = 1
batch_size = 100
[Optimizer]
type = sgd
learning_rate = 0.001
[train_set]
type = npz
path = d.npz
[valid_set]
type = npz
path = d.npz
[in]
type = input
input_shape = 1:1:4
[fc]
type = fully_connected
unit = 1000
activation = softmax
"""


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    return np.random.default_rng(1).integers(0, CLASSES, 500)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, labels: np.ndarray) -> Path:
    from nntrainer_py.cli.train import main

    folder = tmp_path_factory.mktemp("many")
    np.savez(folder / "d.npz", x=np.random.default_rng(0).random((500, 4), np.float32), y=labels)
    (folder / "model.ini").write_text(INI, encoding="utf-8")
    assert main([str(folder / "model.ini"), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


def test_the_file_has_the_cells_that_are_not_zero(run: Path, labels: np.ndarray) -> None:
    record = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    cells = record["confusion"]
    assert min(cells["count"]) == 1
    matrix = np.zeros((CLASSES, CLASSES), int)
    matrix[cells["true"], cells["predicted"]] = cells["count"]
    np.testing.assert_array_equal(matrix.sum(axis=1), np.bincount(labels, minlength=CLASSES))
    assert matrix.trace() / 500 == pytest.approx(record["accuracy"])


def test_the_page_draws_groups_and_lists_the_worst(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "report", run).code == 0
    text = (run / "report.html").read_text(encoding="utf-8")
    assert len(text) < 2 << 20
    cells = [int(found) for found in re.findall(r"taken for [^:<]*: (\d+)</title>", text)]
    assert len(cells) == 60 * 60
    assert sum(cells) == 500
    record = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    true, taken, count = max(
        zip(*(record["confusion"][key] for key in ("true", "predicted", "count")), strict=True),
        key=lambda cell: (cell[0] != cell[1], cell[2]),
    )
    row = f'<tr><td>{html.escape(str(true))}</td><td>{taken}</td><td class="n">{count}</td></tr>'
    assert row in text.partition("most often taken for")[2]


def test_a_run_of_before_whose_file_has_every_cell(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "report", run).code == 0
    wanted = (run / "report.html").read_text(encoding="utf-8")
    path = run / "evaluation.json"
    kept = path.read_text(encoding="utf-8")
    record = json.loads(kept)
    cells = record["confusion"]
    matrix = np.zeros((CLASSES, CLASSES), int)
    matrix[cells["true"], cells["predicted"]] = cells["count"]
    try:
        path.write_text(json.dumps(record | {"confusion": matrix.tolist()}), encoding="utf-8")
        assert command(capsys, "report", run).code == 0
        assert (run / "report.html").read_text(encoding="utf-8") == wanted
        for wrong in ({"true": [0], "predicted": [1000], "count": [1]}, {"true": [0], "predicted": [], "count": [1]}):
            path.write_text(json.dumps(record | {"confusion": wrong}), encoding="utf-8")
            done = command(capsys, "report", run)
            assert (done.code, "confusion matrix" in done.err) == (3, True)
    finally:
        path.write_text(kept, encoding="utf-8")


def test_reporting_takes_little_memory(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(capsys, "report", run)
    tracemalloc.start()
    try:
        assert command(capsys, "report", run).code == 0
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_the_text_is_written_in_pieces(labels: np.ndarray) -> None:
    report = ClassReport(CLASSES)
    report.add(np.eye(CLASSES, dtype=np.float32)[(labels * 7) % CLASSES], labels)
    record = report.as_record()
    parts = list(json_parts(record, indent=1))
    assert "".join(parts) == json.dumps(record, indent=1) + "\n"
    assert max(map(len, parts)) < 1 << 16


def test_groups_are_neighbours_that_together_are_the_matrix() -> None:
    random = np.random.default_rng(5)
    matrix = random.integers(0, 3, (130, 130))
    found = Confusions.of_matrix([str(k) for k in range(130)], matrix)
    groups = found.groups()
    assert [place for group in groups for place in group] == list(range(130))
    assert len(groups) == 60
    wanted = [[matrix[np.ix_(true, taken)].sum() for taken in groups] for true in groups]
    np.testing.assert_array_equal(found.table(groups), wanted)
    assert found.right == matrix.trace() / matrix.sum()
    few = Confusions.of_matrix([str(k) for k in range(5)], matrix[:5, :5])
    np.testing.assert_array_equal(few.table(few.groups()), matrix[:5, :5])


def test_the_picture_is_of_a_bounded_size(tmp_path: Path) -> None:
    """A canvas has 4 bytes a pixel; what colours the cells must not grow with the classes."""
    matrix = np.random.default_rng(6).integers(0, 2, (CLASSES, CLASSES))
    found = Confusions.of_matrix([str(k) for k in range(CLASSES)], matrix)
    pictures.draw_confusion(found, tmp_path / "first.png")  # fonts and the library itself
    tracemalloc.start()
    try:
        pictures.draw_confusion(found, tmp_path / "confusion.png")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 15 << 20
    with Image.open(tmp_path / "confusion.png") as picture:
        assert max(picture.size) <= 1000
        assert len(picture.convert("RGB").resize((200, 200)).getcolors(40_000)) > 50
