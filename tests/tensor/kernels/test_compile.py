"""The cache of compiled kernels: what decides its name, where it may lie, and the traps that Numba sets."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.tensor.kernels import compile as compiler
from nntrainer_py.tensor.kernels import fork_join, threads

PACKAGE = Path(compiler.__file__).resolve().parents[2]
HELPER = """from __future__ import annotations

from nntrainer_py.tensor.kernels.compile import kernel

FACTOR = {factor}


@kernel()
def helper(x: int) -> int:
    return x * FACTOR
"""
USER = """from __future__ import annotations

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.probe_helper import helper


@kernel()
def probe(x: int) -> int:
    return helper(x) + 1
"""
RUN = """
from nntrainer_py.tensor.kernels import compile as c
from nntrainer_py.tensor.kernels.probe import probe
value = probe(10)
print(value, dict(probe.function.stats.cache_hits) != {}, c.cache_folders()[1])
"""


@pytest.fixture
def copy(tmp_path):
    """A package of its own with the kernel compiler and two kernels, one in each of two files."""
    kernels = tmp_path / "site" / "nntrainer_py" / "tensor" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "version.py", "tensor/__init__.py", "tensor/kernels/__init__.py"):
        source, target = PACKAGE / name, tmp_path / "site" / "nntrainer_py" / name
        target.write_text(source.read_text() if name == "version.py" else "")
    shutil.copy(PACKAGE / "tensor" / "kernels" / "compile.py", kernels)
    (kernels / "probe.py").write_text(USER)
    (kernels / "probe_helper.py").write_text(HELPER.format(factor=2))
    return kernels


def run(copy, code=RUN, **environment):
    keep = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START")
    }
    keep.update(PYTHONPATH=str(copy.parents[2]), PYTHONDONTWRITEBYTECODE="1", **environment)
    done = subprocess.run([sys.executable, "-c", code], env=keep, cwd=copy, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_an_edit_in_another_file_is_seen(copy, tmp_path):
    chosen = {"NNTRAINER_CACHE_DIR": str(tmp_path / "cache")}
    assert run(copy, **chosen)[:2] == ["21", "False"]
    assert run(copy, **chosen)[:2] == ["21", "True"]
    (copy / "probe_helper.py").write_text(HELPER.format(factor=3))
    assert run(copy, **chosen)[:2] == ["31", "False"]


def test_beside_the_package_when_nothing_is_said(copy, tmp_path):
    value, hit, folder = run(copy, HOME=str(tmp_path / "home"))
    assert Path(folder).parent == copy / "__pycache__"
    assert (value, hit) == ("21", "False")
    assert run(copy, HOME=str(tmp_path / "home"))[1] == "True"


def read_only(copy):
    """No folder can be made there, even by root: its name is taken by a file."""
    (copy / "__pycache__").write_text("taken")


def test_read_only_install_uses_the_users_cache(copy, tmp_path):
    read_only(copy)
    home = tmp_path / "home"
    folder = Path(run(copy, HOME=str(home))[2])
    assert folder.is_relative_to(home / ".cache" / "nntrainer_py")
    assert run(copy, HOME=str(home))[1] == "True"
    folder = Path(run(copy, HOME=str(home), XDG_CACHE_HOME=str(tmp_path / "xdg"))[2])
    assert folder.is_relative_to(tmp_path / "xdg")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs user ids")
def test_read_only_install_without_home_uses_a_private_folder(copy, tmp_path):
    read_only(copy)
    (tmp_path / "blocked").write_text("taken")
    (tmp_path / "tmp").mkdir()
    environment = {"HOME": str(tmp_path / "blocked"), "TMPDIR": str(tmp_path / "tmp")}
    folder = Path(run(copy, **environment)[2])
    assert folder.parent.parent == tmp_path / "tmp"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert run(copy, **environment)[1] == "True"
    folder.parent.chmod(0o777)  # others could have written there: its contents are not run
    assert run(copy, **environment)[:2] == ["21", "False"]


def test_a_warmed_cache_that_cannot_be_written_is_used(copy, tmp_path):
    """An image is warmed as one user and run as another: found beside the package, new kernels go elsewhere."""
    folder = Path(run(copy, HOME=str(tmp_path))[2])
    code = f"""
import tempfile, os
from nntrainer_py.tensor.kernels import compile as c
original = c._writable
c._writable = lambda folder: "__pycache__" not in str(folder) and original(folder)
{RUN}
"""
    value, hit, target = run(copy, code, HOME=str(tmp_path))
    assert (value, hit) == ("21", "True")
    assert Path(target) != folder


def test_a_damaged_file_is_compiled_again(copy, tmp_path):
    chosen = {"NNTRAINER_CACHE_DIR": str(tmp_path / "cache")}
    folder = Path(run(copy, **chosen)[2])
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:20])
    assert run(copy, **chosen)[:2] == ["21", "False"]


def test_two_processes_at_once(copy, tmp_path):
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(copy.parents[2])}
    environment["NNTRAINER_CACHE_DIR"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", RUN]
    both = [subprocess.Popen(command, env=environment, cwd=copy, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert out.split()[0] == "21"
    assert run(copy, NNTRAINER_CACHE_DIR=str(tmp_path / "cache"))[1] == "True"


def test_the_programs_own_numba_settings_are_left_alone(copy, tmp_path):
    code = "import numba\nbefore = numba.config.CACHE_DIR\n" + RUN + "assert numba.config.CACHE_DIR == before"
    assert run(copy, code, NNTRAINER_CACHE_DIR=str(tmp_path / "cache"))[0] == "21"


def test_fingerprint_depends_on_the_processor(monkeypatch):
    before = compiler.fingerprint()
    monkeypatch.setattr(compiler, "cpu", lambda: ("another", "+feature"))
    assert compiler.fingerprint.__wrapped__() != before


def test_local_functions_are_refused():
    with pytest.raises(TypeError, match="module-level"):

        @compiler.kernel()
        def local(x: int) -> int:
            return x


def test_kernels_are_listed():
    found = compiler.KERNELS["nntrainer_py.tensor.kernels.fork_join.touch"]
    assert found is fork_join.touch
    assert found.parallel
    found(1)
    assert found.signatures


def test_threads():
    before = threads.set_threads(1)
    try:
        for count in (1, 3):
            fork_join.touch(count)
        if threads.limit() > 1:
            threads.set_threads(2)
            fork_join.touch(5)
        with pytest.raises(ValueError, match="threads"):
            threads.set_threads(0)
    finally:
        threads.set_threads(before)
    assert threads.layer() in ("omp", "tbb", "workqueue")
    assert threads.available() >= 1


def test_parts_are_each_done_once():
    from nntrainer_py.tensor.kernels import matmul

    # every column panel belongs to one part: a part done twice would add twice
    a, b = np.ones((1, 3, 5), np.float32), np.ones((1, 5, 100), np.float32)
    for parts in (1, 2, 3, 7, 50):
        c = np.zeros((1, 3, 100), np.float32)
        scratch = np.empty(matmul.matmul_scratch(5, 100, parts) // 4, np.float32)
        none, rate = np.empty(0, np.float32), np.empty(0)
        matmul.matmul(a, 0, b, 0, none, c, rate, 1, 0, scratch, parts)
        np.testing.assert_array_equal(c, np.full((1, 3, 100), 5, np.float32))
