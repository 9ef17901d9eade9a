"""The applications do what their README says, on the shared data where that is there and on made-up data elsewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import command
from shared import shared_path

from nntrainer_py.cli.run_folder import RESULT

APPLICATIONS = Path(__file__).resolve().parent.parent / "Applications"


def _train(capsys: pytest.CaptureFixture[str], name: str, out: Path, *options: object) -> dict[str, float]:
    """Train an application; the last figures of its result.json."""
    done = command(capsys, "train", APPLICATIONS / name / "model.ini", "--out", out, "--quiet", *options)
    assert done.code == 0, done.err
    figures: dict[str, float] = json.loads((out / RESULT).read_text(encoding="utf-8"))["final"]
    return figures


def _parameters(capsys: pytest.CaptureFixture[str], name: str) -> tuple[int, int]:
    done = command(capsys, "train", "--check", APPLICATIONS / name / "model.ini", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out.splitlines()[-1])
    return found["parameters"], found["trainable_parameters"]


def test_every_folder_is_listed_and_explained() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)/README\.md\)", (APPLICATIONS / "README.md").read_text(), re.MULTILINE)
    folders = sorted(path.name for path in APPLICATIONS.iterdir() if path.is_dir())
    assert sorted(name for name, _ in listed) == sorted(folder for _, folder in listed) == folders
    for folder in folders:
        assert {"model.ini", "README.md"} <= {path.name for path in (APPLICATIONS / folder).iterdir()}


def test_resnet_has_the_published_number_of_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    """By the table of the paper: convolutions without bias, two numbers a channel for each normalization, classes."""
    convolutions, channels, below = 27 * 64, 64, 64
    for width in (64, 128, 256, 512):
        convolutions += 9 * width * (below + 3 * width) + (width * below if width != below else 0)
        channels += 4 * width + (width if width != below else 0)
        below = width
    trained = convolutions + 2 * channels + 512 * 100 + 100
    assert trained == 11_220_132
    assert _parameters(capsys, "Resnet") == (trained + 2 * channels, trained)


def test_vgg_has_thirteen_convolutions(capsys: pytest.CaptureFixture[str]) -> None:
    widths = [16] * 2 + [32] * 2 + [64] * 3 + [128] * 6
    trained = sum(9 * before * width + width + 2 * width for before, width in zip([3, *widths], widths, strict=False))
    trained += 2 * (128 * 128 + 128) + 128 * 100 + 100
    assert _parameters(capsys, "VGG") == (trained + 2 * sum(widths), trained)


def test_vgg_trains_on_what_its_script_makes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made-up files in the binary format of CIFAR-100: the fine class, second byte of each sample, is the label."""
    random = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 5)):
        samples = random.integers(0, 256, (count, 3074), dtype=np.uint8)
        samples[:, 1] %= 100
        samples.tofile(tmp_path / f"{part}.bin")
    spec = importlib.util.spec_from_file_location("make_data", APPLICATIONS / "VGG" / "make_data.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path, tmp_path)
    with np.load(tmp_path / "cifar100_test.npz") as made:
        np.testing.assert_array_equal(made["y"], samples[:, 1])
        np.testing.assert_array_equal(made["x"].reshape(5, -1), samples[:, 2:])
    files = ["--train", tmp_path / "cifar100_train.npz", "--valid", tmp_path / "cifar100_test.npz"]
    figures = _train(capsys, "VGG", tmp_path / "run", *files, "--epochs", 2, "--set", "Model.batch_size=6")
    assert np.isfinite(figures["loss"])


def test_mnist_reads_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.fromfile(shared_path("data", "mnist_1000.dat"), "<f4").reshape(1000, 794)
    kept = np.arange(1000) % 5 == 4
    rows[~kept].tofile(tmp_path / "train.dat")
    rows[kept].tofile(tmp_path / "valid.dat")
    files = ["--train", tmp_path / "train.dat", "--valid", tmp_path / "valid.dat"]
    assert _train(capsys, "MNIST", tmp_path / "run", *files)["valid_accuracy"] > 0.85


def test_mnist_is_told_which_files_are_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = command(capsys, "train", APPLICATIONS / "MNIST" / "model.ini", "--out", tmp_path / "run")
    assert done.code == 3
    assert "train-images-idx3-ubyte.gz" in done.err
    assert "t10k-images-idx3-ubyte.gz" in done.err
    assert not (tmp_path / "run").exists()


def test_knn_tells_drawings_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each drawing in turn is told by a model that has seen the four others of each class."""
    pytest.importorskip("PIL", reason="needs the extra images")
    source, right = shared_path("data", "knn"), 0.0
    for left_out in range(1, 6):
        folder = tmp_path / str(left_out)
        for word in ("happy", "sad", "soso"):
            for number in range(1, 6):
                target = folder / ("valid" if number == left_out else "train") / word
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / word / f"{word}{number}.bmp", target)
        files = ["--train", folder / "train", "--valid", folder / "valid"]
        right += 3 * _train(capsys, "KNN", folder / "run", *files)["valid_accuracy"]
    assert round(right) >= 11


def test_product_ratings_are_learned_by_heart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = _train(capsys, "ProductRatings", tmp_path / "run", "--train", shared_path("data", "product_ratings.txt"))
    assert figures["mae"] < 0.1
