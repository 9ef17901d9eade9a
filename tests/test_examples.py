"""The examples do what their README says: the data is what its script makes, and the network learns it, offline."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
APPLICATIONS = EXAMPLES.parent / "Applications"
DIGITS = EXAMPLES / "digits"
LOGISTIC = APPLICATIONS / "LogisticRegression"
_TRAIN = "import sys; from nntrainer_py.cli.train import main; sys.exit(main())"


def _train(ini: Path, out: Path, *options: str) -> list[dict[str, str]]:
    """Run nntrainer-train in a process of its own and return the rows of its history.csv."""
    command = [sys.executable, "-c", _TRAIN, str(ini), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    with (out / "history.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("folder", [DIGITS, LOGISTIC], ids=lambda folder: folder.name)
def test_data_is_what_its_script_makes(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs the extra sklearn")
    spec = importlib.util.spec_from_file_location("make_data", folder / "make_data.py")
    assert spec is not None
    assert spec.loader is not None
    make_data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_data)
    make_data.main(tmp_path)
    made = sorted(tmp_path.glob("*.dat"))
    assert [path.name for path in made] == [path.name for path in sorted(folder.glob("*.dat"))]
    for path in made:
        shipped = np.fromfile(folder / path.name, "<f4")
        # Scaled measurements may differ in the last bit from one processor to the next.
        np.testing.assert_allclose(np.fromfile(path, "<f4"), shipped, rtol=1e-5, atol=1e-6)


def test_digits_split_is_stratified_and_disjoint() -> None:
    train, test = (np.fromfile(DIGITS / f"digits_{part}.dat", "<f4").reshape(-1, 74) for part in ("train", "test"))
    assert (len(train), len(test)) == (1347, 450)
    for part in (train, test):
        assert part[:, :64].min() == 0.0
        assert part[:, :64].max() == 1.0
        np.testing.assert_array_equal(np.sort(part[:, 64:], axis=1)[:, -2:], np.tile([0.0, 1.0], (len(part), 1)))
    counts = train[:, 64:].sum(axis=0), test[:, 64:].sum(axis=0)
    np.testing.assert_allclose(counts[0] / 1347, counts[1] / 450, atol=2e-3)
    assert not {row.tobytes() for row in train} & {row.tobytes() for row in test}


@pytest.mark.slow
def test_digits_learns_with_five_seeds(tmp_path: Path) -> None:
    seeds = [_train(DIGITS / "model.ini", tmp_path / f"seed{seed}", "--seed", str(seed)) for seed in range(5)]
    accuracies = [float(rows[-1]["valid_accuracy"]) for rows in seeds]
    assert len(set(map(str, seeds))) == 5, "the seeds made no difference"
    assert np.mean(accuracies) >= 0.985, accuracies
    assert min(accuracies) >= 0.98, accuracies


def test_custom_layer_learns_from_its_plugin_file(tmp_path: Path) -> None:
    custom = EXAMPLES / "custom"
    rows = _train(custom / "model.ini", tmp_path / "run", "--plugin", str(custom / "scale.py"))
    assert float(rows[-1]["valid_accuracy"]) > 0.93


def test_readme_shows_the_custom_layer_as_it_is() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{(EXAMPLES / 'custom' / 'scale.py').read_text(encoding='utf-8')}```" in readme


def test_logistic_regression_learns(tmp_path: Path) -> None:
    rows = _train(LOGISTIC / "model.ini", tmp_path / "run")
    assert float(rows[-1]["valid_accuracy"]) > 0.94
    assert float(rows[-1]["loss"]) < 0.2 < float(rows[0]["loss"])
