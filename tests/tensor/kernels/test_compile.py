"""The cache of compiled kernels: what decides its name, where it may lie, and the traps that Numba sets."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pytest

from nntrainer_py.tensor.kernels import cache_location, fork_join, threads
from nntrainer_py.tensor.kernels import compile as compiler

Array = npt.NDArray[np.float32]
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
from nntrainer_py.tensor.kernels import cache_location as c
from nntrainer_py.tensor.kernels.probe import probe
value = probe(10)
print(value, dict(probe.function.stats.cache_hits) != {}, c.cache_folders()[1])
"""

VARIANTS = """from __future__ import annotations

from nntrainer_py.tensor.kernels.compile import inlined, variant


def twice(formula):
    of = inlined(formula)

    def body(x: int) -> int:
        return of(of(x))

    return variant(body, formula, formula.__name__)


@twice
def plus(x):
    return x + {term}


@twice
def times(x):
    return x * 3
"""
RUN_VARIANTS = """
from nntrainer_py.tensor.kernels.variants import plus, times
print(plus(10), times(10), *(bool(made.function.stats.cache_hits) for made in (plus, times)))
"""


def fill(folder):
    """A package of its own with the kernel compiler and two kernels, one in each of two files."""
    kernels = folder / "site" / "nntrainer_py" / "tensor" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "version.py", "errors.py", "tensor/__init__.py", "tensor/kernels/__init__.py"):
        source, target = PACKAGE / name, folder / "site" / "nntrainer_py" / name
        target.write_text("" if source.name == "__init__.py" else source.read_text())
    for name in ("cache.py", "cache_location.py", "compile.py", "numba_parts.py", "threads.py"):
        shutil.copy(PACKAGE / "tensor" / "kernels" / name, kernels)
    (kernels / "probe.py").write_text(USER)
    (kernels / "probe_helper.py").write_text(HELPER.format(factor=2))
    return kernels


@pytest.fixture
def copy(tmp_path):
    return fill(tmp_path)


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


def test_u059_an_edit_in_another_file_is_seen(copy, tmp_path):
    chosen = {"NNTRAINER_CACHE_DIR": str(tmp_path / "cache")}
    assert run(copy, **chosen)[:2] == ["21", "False"]
    assert run(copy, **chosen)[:2] == ["21", "True"]
    (copy / "probe_helper.py").write_text(HELPER.format(factor=3))
    assert run(copy, **chosen)[:2] == ["31", "False"]


def test_variants_of_one_body_do_not_load_each_others_code(copy, tmp_path):
    chosen = {"NNTRAINER_CACHE_DIR": str(tmp_path / "cache")}
    (copy / "variants.py").write_text(VARIANTS.format(term=2))
    assert run(copy, RUN_VARIANTS, **chosen) == ["14", "90", "False", "False"]
    assert run(copy, RUN_VARIANTS, **chosen) == ["14", "90", "True", "True"]
    (copy / "variants.py").write_text(VARIANTS.format(term=3))
    assert run(copy, RUN_VARIANTS, **chosen) == ["16", "90", "False", "False"]


def test_beside_the_package_when_nothing_is_said(copy, tmp_path):
    value, hit, folder = run(copy, HOME=str(tmp_path / "home"))
    assert Path(folder).parent == copy / "__pycache__"
    assert (value, hit) == ("21", "False")
    assert run(copy, HOME=str(tmp_path / "home"))[1] == "True"


def read_only(copy):
    """No folder can be made there, even by root: its name is taken by a file."""
    (copy / "__pycache__").write_text("taken")


def test_u058_read_only_install_uses_the_users_cache(copy, tmp_path):
    read_only(copy)
    home = tmp_path / "home"
    folder = Path(run(copy, HOME=str(home))[2])
    assert folder.is_relative_to(home / ".cache" / "nntrainer_py")
    assert run(copy, HOME=str(home))[1] == "True"
    folder = Path(run(copy, HOME=str(home), XDG_CACHE_HOME=str(tmp_path / "xdg"))[2])
    assert folder.is_relative_to(tmp_path / "xdg")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs user ids")
def test_u058_read_only_install_without_home_uses_a_private_folder(copy, tmp_path):
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


def zipped(copy, target):
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(copy.parents[1].rglob("*.py")):
            archive.write(path, path.relative_to(copy.parents[2]))
    return target


def run_zip(archive, cwd, **environment):
    environment |= {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_u058_imported_from_a_zip_archive(copy, tmp_path):
    archive = zipped(copy, tmp_path / "package.zip")
    environment = {"HOME": str(tmp_path / "home")}
    value, hit, folder = run_zip(archive, tmp_path, **environment)
    assert (value, hit) == ("21", "False")
    assert Path(folder).is_relative_to(tmp_path / "home")
    # U059 holds for archives, too
    (copy / "probe_helper.py").write_text(HELPER.format(factor=3))
    zipped(copy, archive)
    assert run_zip(archive, tmp_path, **environment)[0] == "31"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs user ids")
def test_u058_an_ordinary_user_with_nothing_to_write_to():
    """No HOME, and an empty ``__pycache__`` beside the source that cannot be written; root becomes somebody else."""
    who = {"user": 65534} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)
        kernels = fill(root)
        (kernels / "__pycache__").mkdir()
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        folders = [path for path in (root / "site").rglob("*") if path.is_dir()]
        for path in folders:
            path.chmod(0o555)
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(kernels.parents[2])}
        environment["TMPDIR"] = str(root / "tmp")
        command = [sys.executable, "-c", RUN]
        try:
            for hit in ("False", "True"):
                done = subprocess.run(
                    command, env=environment, cwd=root, capture_output=True, text=True, timeout=120, **who
                )
                assert done.returncode == 0, done.stderr
                assert done.stdout.split()[:2] == ["21", hit]
                assert done.stderr.count("\n") <= 2
            assert not list((kernels / "__pycache__").iterdir())
        except PermissionError:
            pytest.skip("an ordinary user may not run this Python")
        finally:
            for path in folders:
                path.chmod(0o755)


def test_u059_another_version_does_not_use_the_old_cache(copy, tmp_path):
    chosen = {"NNTRAINER_CACHE_DIR": str(tmp_path / "cache")}
    assert run(copy, **chosen)[1] == "False"
    assert run(copy, **chosen)[1] == "True"
    version = copy.parents[1] / "version.py"
    version.write_text(version.read_text() + '\n__version__ += ".after"\n')
    assert run(copy, **chosen)[:2] == ["21", "False"]


def test_a_warmed_cache_that_cannot_be_written_is_used(copy, tmp_path):
    """An image is warmed as one user and run as another: found beside the package, new kernels go elsewhere."""
    folder = Path(run(copy, HOME=str(tmp_path))[2])
    code = f"""
import tempfile, os
from nntrainer_py.tensor.kernels import cache_location as c
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
    before = cache_location.fingerprint()
    monkeypatch.setattr(cache_location, "cpu", lambda: ("another", "+feature"))
    assert cache_location.fingerprint.__wrapped__() != before


def test_local_functions_are_refused():
    with pytest.raises(TypeError, match="module-level"):

        @compiler.kernel()
        def local(x: int) -> int:
            return x


def _allocates(x: Array) -> None:
    x[:] = np.zeros(x.size, np.float32)


def test_a_kernel_that_takes_memory_is_refused():
    made = compiler.Kernel(_allocates, forks=False)
    with pytest.raises(numba.TypingError, match="empty"):
        made(np.zeros(3, np.float32))


def test_kernels_count_no_references(tmp_path):
    """Atomic counters of arrays that threads share would cost more than the arithmetic of short rows."""
    code = (
        "import numpy as np\nfrom nntrainer_py.tensor.kernels import softmax\n"
        "x = np.ones((2, 3), np.float32)\nsoftmax.softmax(x, x.copy(), 1)\n"
        "print(any('NRT_' in text for text in softmax.softmax.function.inspect_llvm().values()))"
    )
    environment = os.environ | {"NNTRAINER_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_kernels_are_listed():
    found = compiler.KERNELS["nntrainer_py.tensor.kernels.fork_join.touch"]
    assert found is fork_join.touch
    assert found.forks
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
