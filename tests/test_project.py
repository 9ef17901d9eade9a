"""The project itself: who imports whom, root links, no traces of one machine, and the wheel."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import imports
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "nntrainer_py"
LINKS = ("layers", "losses", "optimizers", "tensor")


def test_imports_only_fall() -> None:
    found = imports.imports_of_package(PACKAGE)
    assert found, "no import was read at all"
    assert "\n".join(imports.faults(found)) == ""


def test_every_room_has_a_floor() -> None:
    rooms = {imports.room_of(path, PACKAGE) for path in PACKAGE.rglob("*.py")}
    assert rooms - set(imports.FLOOR_OF) == set()


def test_every_folder_of_the_package_is_a_package() -> None:
    """A folder without ``__init__.py`` works in a checkout and is missing from the wheel."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("tensor", "from nntrainer_py.layers.base import Layer"),
        ("layers", "import nntrainer_py.graph.spec"),
        ("graph", "def late():\n    from nntrainer_py.model import Model"),
        ("memory", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nntrainer_py.graph import spec"),
        ("training", "from nntrainer_py import Model"),
        ("training", "from nntrainer_py import cli"),
        ("training", "import nntrainer_py"),
        ("data", "import importlib\nimportlib.import_module('nntrainer_py.training.loop')"),
        ("layers", "from .base import Layer"),
        ("layers", "from nntrainer_py.helpers import anything"),
    ],
)
def test_a_fault_is_found(room: str, source: str) -> None:
    assert len(imports.faults(imports.imports_of(source, "example.py", room))) == 1


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("layers", "from nntrainer_py.tensor.dim import TensorDim"),
        ("layers", "from nntrainer_py.layers.base import Layer"),
        ("cli", "from nntrainer_py import Model"),
        ("registry", "from nntrainer_py.errors import NNTrainerError"),
        ("formats", "def save():\n    import onnx"),
    ],
)
def test_a_falling_import_is_no_fault(room: str, source: str) -> None:
    assert imports.faults(imports.imports_of(source, "example.py", room)) == []


def test_a_circle_on_one_floor_is_found() -> None:
    there = imports.imports_of("from nntrainer_py.formats import bin", "a.py", "data")
    back = imports.imports_of("from nntrainer_py.data import file", "b.py", "formats")
    assert imports.faults(there) == []
    assert len(imports.faults(there + back)) == 1


@pytest.mark.parametrize("name", LINKS)
def test_root_link_leads_into_the_package(name: str) -> None:
    link = ROOT / name
    if not link.is_symlink():
        pytest.skip("this checkout was made without symbolic links")
    assert os.readlink(link) == f"nntrainer_py/{name}"
    assert (link / "__init__.py").is_file()


@pytest.mark.parametrize("name", LINKS)
def test_import_through_a_root_link_is_refused(name: str) -> None:
    if not (ROOT / name).is_symlink():
        pytest.skip("this checkout was made without symbolic links")
    child = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert child.returncode != 0
    assert f"nntrainer_py.{name}" in child.stderr.splitlines()[-1]


def _own_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("no git checkout: which files belong to the project is not known")
    paths = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def test_no_file_names_a_path_of_one_machine() -> None:
    # The brackets keep this file from being its own first find.
    pattern = re.compile(r"(?<![\w.\-/])/(?:roo[t]|wor[k]|tm[p]|hom[e])/[\w.]")
    registry = re.compile(r"index[-]url|PIP[_]INDEX|trusted[-]host|file:[/]{3}")
    found = []
    for path in _own_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
            if pattern.search(line) or registry.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def _setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def _entry_points() -> dict[str, str]:
    lines = _setup()["options.entry_points"]["console_scripts"].split("\n")
    return dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines if line)


def test_core_dependencies_are_few() -> None:
    lines = _setup()["options"]["install_requires"].split("\n")
    names = {re.split(r"[<>=!~ ]", line, maxsplit=1)[0] for line in lines if line}
    assert names == {"numpy", "numba", "scipy", "threadpoolctl", "tqdm"}


@pytest.mark.parametrize("command", sorted(_entry_points()))
def test_entry_point_exists(command: str) -> None:
    module, _, function = _entry_points()[command].partition(":")
    code = f"import importlib; assert callable(importlib.import_module({module!r}).{function})"
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr.splitlines()[-1]


def _run(*command: str | Path, cwd: Path) -> str:
    """Run a command away from the source tree, so that nothing but the installed package can be found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_wheel_installs_elsewhere_and_runs(tmp_path: Path) -> None:
    """Build the wheel from a copy of the tree, install it in a new environment without network, run the command.

    The new environment sees the dependencies of the one that runs this test through a .pth file behind its own
    packages; the package itself must come from the wheel.
    """
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("nntrainer_py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        _run("cp", "-R", ROOT / name, copy / name, cwd=tmp_path)
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, copy, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    (record,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    assert {name.split("/")[0] for name in names} == {"nntrainer_py", record}
    assert "nntrainer_py/py.typed" in names
    assert any(name.startswith(f"{record}/") and name.endswith("LICENSE") for name in names)

    _run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    _run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel, cwd=tmp_path)
    here = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (site / "dependencies.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
    origin = _run(python, "-c", "import nntrainer_py; print(nntrainer_py.__file__)", cwd=tmp_path).strip()
    assert Path(origin).is_relative_to(site)
    for command in _entry_points():
        assert "usage" in _run(tmp_path / "env" / "bin" / command, "--help", cwd=tmp_path).lower()


def test_the_linter_leaves_nothing_out() -> None:
    """A pattern for a root link would leave out the folder of that name inside the package, too."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        ruff = tomllib.load(file)["tool"]["ruff"]
    assert not {"exclude", "extend-exclude"} & (set(ruff) | set(ruff["lint"]))
