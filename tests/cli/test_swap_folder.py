"""A folder in which no swap file can be made is a fault of its line, for the check as for the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import MODEL, command, write_problem

#: enough layers and weights that something is swapped
DEEP = MODEL.replace(
    "[cloud]",
    "".join(f"[more{i}]\ntype = fully_connected\nunit = 400\nactivation = tanh\n" for i in range(3)) + "[cloud]",
)


@pytest.mark.parametrize("words", [("--check",), ()], ids=["check", "run"])
@pytest.mark.parametrize("key", ["fsu_path", "memory_swap_path"])
@pytest.mark.parametrize("place", ["missing", "train.dat", "/proc"])
def test_a_folder_for_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, key: str, words: tuple[str, ...]
) -> None:
    if place == "/proc" and not Path(place).is_dir():
        pytest.skip("this system has no such folder")
    text = DEEP.replace("[Model]\n", f"[Model]\nfsu = true\n{key} = {place}\n", 1)
    ini = write_problem(tmp_path, text)
    done = command(capsys, "train", *words, ini)
    assert done.code == 2
    assert "model.ini:3: [Model] fsu_path: cannot make a swap file of" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_not_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path, DEEP.replace("[Model]\n", "[Model]\nfsu_path = missing\n", 1))
    assert command(capsys, "train", "--check", ini).code == 0
    assert command(capsys, "train", ini).code == 0


def test_a_folder_of_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "swap").mkdir()
    ini = write_problem(tmp_path, DEEP.replace("[Model]\n", "[Model]\nfsu = true\nfsu_path = swap\n", 1))
    assert command(capsys, "train", "--check", ini).code == 0
    assert list((tmp_path / "swap").iterdir()) == []
    assert command(capsys, "train", ini).code == 0
