"""Hundreds of damaged model files through the command: a known exit code, the file is named, never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from commands import MODEL, command, write_problem

CONVOLUTIONS = """\
[Model]
loss = cross
epochs = 1
batch_size = 16

[Optimizer]
type = sgd
learning_rate = 0.01

[train_set]
type = file
path = train.dat

[point]
type = input
input_shape = 1:2:2

[conv]
type = conv2d
filters = 2
kernel_size = 2,2
padding = same
activation = relu

[norm]
type = batch_normalization

[side]
type = pooling2d
input_layers = norm
pooling = max
pool_size = 1,1

[both]
type = addition
input_layers = norm, side

[drop]
type = dropout
dropout_rate = 0.2

[flat]
type = flatten

[cloud]
type = fully_connected
unit = 3
activation = softmax
"""
VALUES = [
    "0", "-1", "1", "2", "7", "1e400", "nan", "inf", "1e-3", "99999999999999999999", "4294967295", "", "=", "|", '"',
    "'", "\\", "[", "]", "#", ";", ":", "1:1", "1:2:3:4:5", "0:0:0", "a(9)", "norm(1)", "norm", "cloud", "point", "\0",
    "é", "true", "false", "none", "same", "valid", "1,1", "3,3,3", "1,,1", ",", "2147483647,2147483647", "40,40",
    "1:1:1000000000", "x" * 1500, "relu", "softmax", "mse", "cross", "max", "global_average", "fully_connected",
    "conv2d", "conv1d", "lstm", "split", "concat", "addition", "rnn", "embedding", "reshape", "permute", "identity",
    "matmul", "multiply", "slice", "upsample2d", "layer_normalization", "model.ini", "train.dat", ".",
    "unit=3 | activation=relu",
]  # fmt: skip
KEYS = [
    "unit", "kernel_size", "filters", "stride", "padding", "axis", "input_layers", "input_shape", "type", "activation",
    "flatten", "shared_from", "backbone", "learning_rate", "path", "epochs", "batch_size", "loss", "save_path", "seed",
    "memory_budget", "fsu", "distribute", "target_shape", "pool_size", "weight_dtype", "trainable", "dropout_rate",
    "momentum", "epsilon", "model_tensor_type", "clip_grad_by_norm", "loss_scale", "threads", "gradient_accumulation",
    "label_layers", "convolution", "memory_optimization", "weight_regularizer", "dilation", "groups", "nonsense",
]  # fmt: skip
MARKS = "[]=#;\"'\\|,:() \t\r\x0b\xa0é0-."


def _mutated(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(lines))
        how = chance.randrange(6)
        if how <= 1:
            keyed = [place for place, line in enumerate(lines) if "=" in line]
            at = chance.choice(keyed)
            lines[at] = f"{lines[at].split('=')[0]}= {chance.choice(VALUES)}"
        elif how == 2:
            lines.insert(at + 1, f"{chance.choice(KEYS)} = {chance.choice(VALUES)}")
        elif how == 3:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == 4:
            del lines[at]
        else:
            place = chance.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + chance.choice(MARKS) + lines[at][place:]
    return "\n".join(lines)


def _run(count: int, seed: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[int, int]:
    chance = random.Random(seed)
    write_problem(folder)
    codes: dict[int, int] = {}
    ini, out = folder / "mutated.ini", folder / "out"
    for number in range(count):
        text = _mutated(chance.choice([MODEL, CONVOLUTIONS]), chance)
        ini.write_text(text, encoding="utf-8", newline="")
        words = ["--check"] if number % 3 else ["--out", out, "--epochs", 1, "--quiet", "--threads", 1]
        done = command(capsys, "train", ini, *words)
        assert done.code in (0, 2, 3, 4), (done, text)
        assert "Traceback" not in done.err
        assert "internal error" not in done.err, (done.err, text)
        if done.code in (2, 3):
            assert "mutated.ini" in done.err, (done.err, text)
            assert not out.exists(), text
        codes[done.code] = codes.get(done.code, 0) + 1
        for path in sorted(out.rglob("*"), reverse=True):
            path.unlink()
        if out.exists():
            out.rmdir()
    return codes


def test_no_traceback_and_nothing_half_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = _run(250, 0, tmp_path, capsys)
    assert codes[2] > 100
    assert codes[0] > 10


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_more(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    _run(1000, seed, tmp_path, capsys)
