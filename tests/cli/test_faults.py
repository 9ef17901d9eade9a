"""Whatever a user gets wrong is told before the first step, at its place, with an exit code and never a traceback."""

from __future__ import annotations

import os
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, command, process, program, write_problem

SCHEDULE = "\n[LearningRateScheduler]\ntype = constant\nlearning_rate = 0.1\n"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("good", "bad", "section", "known"),
    [
        ("unit = 8", "unitt = 8", "hidden", "unit"),
        ("epochs = 3", "epochz = 3", "Model", "epochs"),
        ("learning_rate = 0.02", "lerning_rate = 0.02", "Optimizer", "learning_rate"),
        ("learning_rate = 0.1", "learningrate = 0.1", "LearningRateScheduler", "learning_rate"),
        ("path = train.dat", "path = train.dat\nbufer_size = 3", "train_set", "buffer_size"),
    ],
)
def test_u001_an_unknown_key_is_named(
    good: str, bad: str, section: str, known: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL + SCHEDULE
    assert good in text
    broken = text.replace(good, bad, 1)
    ini = write_problem(tmp_path, broken)
    line = broken[: broken.index(bad.splitlines()[-1])].count("\n") + 1
    done = command(capsys, "train", ini)
    assert done.code == 2
    found = next(row for row in done.err.splitlines() if "unknown property" in row)
    assert found.startswith(f"{ini}:{line}: [{section}] {bad.splitlines()[-1].split()[0]}: ")
    assert f"did you mean '{known}'?" in found
    assert not (tmp_path / "runs").exists()


def test_u002_line_ends_of_other_systems_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    table = "\n".join(",".join(f"{v:.3f}" for v in row) + f",{k % 3}" for k, row in enumerate(rng.normal(size=(48, 4))))
    text = MODEL.replace("type = file", "type = csv").replace(".dat", ".csv")
    weights = {}
    for name, end in (("lf", "\n"), ("crlf", "\r\n"), ("cr", "\r"), ("mixed", None)):
        folder = tmp_path / name
        folder.mkdir()
        for file, content in (("model.ini", text), ("train.csv", table + "\n"), ("valid.csv", table + "\n")):
            lines = content.split("\n")
            if end is not None:
                changed = end.join(lines)
            else:
                changed = "".join(line + ("\r\n" if k % 2 else "\n") for k, line in enumerate(lines)).rstrip()
            (folder / file).write_bytes(changed.encode())
        done = command(capsys, "train", folder / "model.ini")
        assert done.code == 0, done.err
        assert done.err == ""
        weights[name] = (folder / "runs" / "model-1" / "model.bin").read_bytes()
    assert len(set(weights.values())) == 1


def test_u005_a_key_or_section_twice_names_both_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = MODEL.replace("unit = 8\n", "unit = 8\nunit = 9\n") + "\n[hidden]\ntype = flatten\n"
    lines = broken.splitlines()
    done = command(capsys, "train", "--check", write_problem(tmp_path, broken))
    assert done.code == 2
    for first, second in (("unit = 8", "unit = 9"), ("[hidden]", None)):
        one = lines.index(first) + 1
        two = lines.index(second) + 1 if second is not None else len(lines) - lines[::-1].index("[hidden]")
        assert any(f":{two}: " in row and f"{one}" in row.split(f":{two}: ")[1] for row in done.err.splitlines()), (
            done.err
        )


def test_u007_percent_and_dollar_are_ordinary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# 100 % sure, ${HOME} stays\n" + MODEL.replace(
        "epochs = 3", "epochs = 1\nsave_path = out/60% keyboard/$x/m.bin   # 5 % more"
    )
    done = command(capsys, "train", write_problem(tmp_path, text))
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "60% keyboard" / "$x" / "m.bin").is_file()


def _u008_cases(folder: Path) -> dict[str, tuple[str, int, str]]:
    (folder / "empty.dat").touch()
    (folder / "closed.dat").write_bytes(b"\0" * 28)
    (folder / "closed.dat").chmod(0)
    path = "path = train.dat"
    return {
        "none": (MODEL.replace("[train_set]\ntype = file\npath = train.dat\n", ""), 2, "train_set"),
        "missing": (MODEL.replace(path, "path = nowhere.dat"), 3, "nowhere.dat"),
        "folder": (MODEL.replace(path, "path = ."), 3, "folder"),
        "empty": (MODEL.replace(path, "path = empty.dat"), 3, "empty.dat"),
        "unreadable": (MODEL.replace(path, "path = closed.dat"), 3, "closed.dat"),
    }


@pytest.mark.parametrize("case", ["none", "missing", "folder", "empty", "unreadable"])
def test_u008_data_that_cannot_be_used_is_told_before_the_first_step(case: str, tmp_path: Path) -> None:
    text, code, word = _u008_cases(tmp_path)[case]
    ini = write_problem(tmp_path, text)
    if case == "unreadable" and os.access(tmp_path / "closed.dat", os.R_OK):
        pytest.skip("this user may read every file")
    before = _files(tmp_path) if case != "unreadable" else {}
    began = time.monotonic()
    done = process("train", ini)
    seconds = time.monotonic() - began
    assert done.code == code, done.err
    assert word in done.err
    assert "Traceback" not in done.err
    if case != "none":
        line = text[: text.index("[train_set]")].count("\n") + 3
        assert done.err.startswith(f"{ini}:{line}: [train_set] path: ")
    assert seconds < 2 or os.getloadavg()[0] > 2, f"took {seconds:.1f} s"
    if case != "unreadable":
        assert _files(tmp_path) == before
    assert not (tmp_path / "runs").exists()


def test_all_faults_come_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        MODEL.replace("train.dat", "nowhere.dat").replace("unit = 8", "unit = none").replace("epochs = 3", "epochs = 0")
    )
    ini = write_problem(tmp_path, text)
    (tmp_path / "taken").mkdir()
    done = command(capsys, "train", ini, "--out", tmp_path / "taken", "--valid", tmp_path / "nix.csv")
    assert done.code == 2
    for word in ("epochs", "[hidden] unit", "nowhere.dat", "nix.csv", "--out"):
        assert word in done.err, word


def test_plugins_that_fail_are_told_with_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two plugins, one with a slip in its third line, the description and the data: one run tells all of it."""
    (tmp_path / "slip.py").write_text("import math\n\nmath.nothing()\n", encoding="utf-8")
    (tmp_path / "torn.py").write_text("def f(:\n", encoding="utf-8")
    text = MODEL.replace("unit = 8", "unit = none").replace("train.dat", "nowhere.dat")
    ini = write_problem(tmp_path, text)
    plugins = ["--plugin", tmp_path / "slip.py", "--plugin", tmp_path / "torn.py"]
    for verb in ("train", "inspect"):
        done = command(capsys, verb, ini, *plugins)
        assert done.code == 2
        for word in ("slip.py:3: AttributeError", "torn.py:1: ", "[hidden] unit: "):
            assert word in done.err, (verb, word)
        assert ("nowhere.dat" in done.err) == (verb == "train")
    # the description alone is right: the plugins' faults alone are told
    done = command(capsys, "train", write_problem(tmp_path), *plugins)
    assert done.code == 2
    assert len(done.err.splitlines()) == 2


def test_data_and_weight_paths_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    text = MODEL.replace("train.dat", "a.dat").replace("valid.dat", "b.dat")
    ini = write_problem(tmp_path, text.replace("epochs = 3", "save_path = file/w.bin\nsave_best_path = ."))
    done = command(capsys, "train", ini)
    assert done.code == 2
    for word in ("a.dat", "b.dat", "[Model] save_path", "[Model] save_best_path"):
        assert word in done.err, word


def test_a_model_without_loss_or_optimizer_does_not_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(
        tmp_path, MODEL.replace("loss = cross\n", "").replace("[Optimizer]\ntype = adam\nlearning_rate = 0.02\n", "")
    )
    done = command(capsys, "train", ini)
    assert done.code == 2
    assert "needs a loss" in done.err
    assert "needs an optimizer" in done.err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--epochs", "0"], "--epochs"),
        (["--epoch", "1"], "did you mean '--epochs'?"),
        (["--epocs", "3"], "unknown argument: --epocs; did you mean '--epochs'?"),
        (["--bogus"], "unknown argument: --bogus\n"),
        (["--overwrite"], "--overwrite needs --out DIR"),
        (["--seed", "-1"], "--seed"),
        (["--memory-budget", "lots"], "amount of memory"),
        (["--set", "hidden.unitt=3"], "did you mean 'unit'?"),
        (["--set", "hiden.unit=3"], "did you mean 'hidden'?"),
        (["--set", "nonsense"], "section.key=value"),
        (["--plugin", "nowhere.py"], "nowhere.py"),
        (["--monitor", "valid_los"], "did you mean 'valid_loss'?"),
    ],
)
def test_wrong_options(options: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    done = command(capsys, "train", ini, *options)
    assert done.code == 2
    assert word in done.err
    assert not (tmp_path / "runs").exists()


def test_a_fault_of_the_shapes_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training, validation and evaluation meet the same one."""
    window = MODEL.replace(
        "[hidden]\ntype = fully_connected\nunit = 8", "[hidden]\ntype = conv2d\nfilters = 2\nkernel_size = 3,3"
    )
    ini = write_problem(tmp_path, window)
    told = "a window of 3 does not fit"
    checked, ran = command(capsys, "train", "--check", ini), command(capsys, "train", ini)
    assert (checked.code, ran.code) == (2, 2)
    assert checked.err.count(told) == ran.err.count(told) == 1
    assert checked.err == ran.err


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("unit = 8", "units = 8", "units: unknown property of fully_connected; did you mean 'unit'?"),
        ("unit = 8", 'unit = "8', "unit: expected a closing"),
        ("type = adam", "type = 'adam", "type: expected a closing"),
        ("[hidden]\ntype = fully_connected", "[hidden]\ntype = 'fully_connected", "type: expected a closing"),
        ("[train_set]\ntype = file", "[train_set]\ntype = 'file", "type: expected a closing"),
        ("path = train.dat", "paht = train.dat", "paht: unknown property of file; did you mean 'path'?"),
        ("path = train.dat", "path = 'train.dat", "path: expected a closing"),
        (
            "[hidden]\ntype = fully_connected\nunit = 8",
            "[hidden]\ntype = conv2d\nfilter = 2\nkernel_size = 1,1",
            "filter: obsolete; today it is filters",
        ),
    ],
)
def test_one_fault_is_told_once(
    right: str, wrong: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is misspelled or unreadable is not said to be missing, too."""
    text = MODEL.replace(right, wrong)
    assert text != MODEL
    done = command(capsys, "train", "--check", write_problem(tmp_path, text))
    assert done.code == 2
    assert told in done.err
    assert done.err.count("\n") == 1
    missing = "\n".join(line for line in text.splitlines() if line != wrong.splitlines()[-1])
    if wrong.count("\n") == 0 and right != "type = adam":
        assert "required" in command(capsys, "train", "--check", write_problem(tmp_path, missing)).err


def test_a_model_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "train", tmp_path / "nowhere.ini").code == 2
    assert command(capsys, "train", tmp_path).code == 2
    (tmp_path / "wide.ini").write_text(MODEL, encoding="utf-16")
    done = command(capsys, "train", tmp_path / "wide.ini")
    assert done.code == 2
    assert "UTF-16" in done.err


NAMES = {
    "hangul": unicodedata.normalize("NFC", "한글 모델"),
    "hangul apart": unicodedata.normalize("NFD", "한글 모델"),
    "accent": "Überprüfung d'été",
    "emoji": 'net 🧠 "quoted"',
    "250 bytes with the ending": "ü" * 123,
}


@pytest.mark.parametrize("case", NAMES)
def test_u061_names_of_every_script(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = NAMES[case]
    folder = tmp_path / name
    ini = write_problem(folder, MODEL.replace("train.dat", f"{name}.dat"), name=f"{name}.ini")
    (folder / "train.dat").rename(folder / f"{name}.dat")
    out = folder / f"run {name}"[:100]
    assert command(capsys, "train", ini, "--check").code == 0
    done = command(capsys, "train", ini, "--out", out, "--epochs", 1)
    assert done.code == 0, done.err
    assert str(out) in done.out
    assert command(capsys, "train", ini, "--epochs", 1, "--quiet").code == 0
    done = command(capsys, "infer", ini, "--weights", out / "model.bin", "--data", folder / f"{name}.dat")
    assert done.code == 0, done.err
    assert command(capsys, "inspect", ini, "--plot", folder / f"{name}.svg").code == 0
    done = command(capsys, "report", out)
    assert done.code == 0, done.err
    assert str(out) in done.out
    done = command(capsys, "train", ini, "--train", folder / f"{name[:50]}?.dat")
    assert done.code == 3
    assert f"{name[:50]}?.dat" in done.err


def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    ini = write_problem(tmp_path, name="모델.ini")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = process("train", ini, "--epochs", 1, env=env)
    assert done.code == 0, done.err
    assert "\\ubaa8\\ub378-1" in done.out


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    import subprocess

    words = [*program("train"), str(write_problem(tmp_path)), "--check"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""


def test_an_error_of_ours_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("wires\ncrossed")

    monkeypatch.setattr("nntrainer_py.cli.check.check", broken)
    ini = write_problem(tmp_path)
    done = command(capsys, "train", ini, "--check")
    assert done.code == 1
    assert "internal error: RuntimeError: wires\\ncrossed; this is a bug" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in command(capsys, "train", ini, "--check", "--debug").err


def test_an_unknown_keyword_may_need_a_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for good, bad in (("type = fully_connected", "type = my_dense"), ("type = adam", "type = my_adam")):
        ini = write_problem(tmp_path, MODEL.replace(good, bad, 1))
        done = command(capsys, "train", "--check", ini)
        assert done.code == 2
        assert f"'{bad.split()[-1]}'" in done.err
        assert done.err.splitlines()[-1].endswith("--plugin FILE.py")
    done = command(capsys, "train", "--check", write_problem(tmp_path, MODEL.replace("unit = 8", "unitt = 8")))
    assert "--plugin" not in done.err


def test_a_plugin_that_takes_a_keyword_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from nntrainer_py.layers.base import Layer\nfrom nntrainer_py.registry import register_layer\n\n\n"
        "@register_layer('conv2d')\nclass Mine(Layer):\n    pass\n",
        encoding="utf-8",
    )
    done = command(capsys, "train", "--check", write_problem(tmp_path), "--plugin", plugin)
    assert done.code == 2
    assert done.err == f"{plugin}:5: the layer 'conv2d' exists already; choose another keyword\n"


def test_only_the_first_of_many_faults_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "".join(f"wrong_{k} = 1\n" for k in range(33))
    done = command(
        capsys, "train", "--check", write_problem(tmp_path, MODEL.replace("unit = 8\n", "unit = 8\n" + wrong))
    )
    assert done.code == 2
    lines = done.err.splitlines()
    assert len(lines) == 21
    assert ": [hidden] wrong_19: " in lines[19]
    assert lines[20] == "... and 13 more"
