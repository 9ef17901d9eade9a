"""A Numba without a part that kernels build on is refused at the import, with its version and the part."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from numba.core import caching, codegen, cpu, types

from nntrainer_py.errors import LibraryVersionError
from nntrainer_py.tensor.kernels.numba_parts import missing_parts, require_parts

Patch = pytest.MonkeyPatch


def without_step(patch: Patch) -> None:
    patch.delattr(codegen.CPUCodeLibrary, "_optimize_final_module")


def without_call_of_the_step(patch: Patch) -> None:
    patch.setattr(codegen.CPUCodeLibrary, "finalize", lambda self: self._optimize_functions())


def without_module(patch: Patch) -> None:
    patch.setattr(codegen.CPUCodeLibrary, "_optimize_final_module", lambda self: self._final)


def without_option(patch: Patch) -> None:
    owner = next(base for base in cpu.CPUTargetOptions.__mro__ if "_nrt" in vars(base))
    patch.delattr(owner, "_nrt")


def without_call_type(patch: Patch) -> None:
    owner = next(base for base in types.Dispatcher.__mro__ if "get_call_type" in vars(base))
    patch.delattr(owner, "get_call_type")
    if hasattr(types.Dispatcher, "get_call_type"):  # that of a base class
        patch.setattr(types.Dispatcher, "get_call_type", None)


def without_cache_class(patch: Patch) -> None:
    patch.delattr(caching.FunctionCache, "_impl_class")
    if getattr(caching.FunctionCache, "_impl_class", None) is not None:
        patch.setattr(caching.FunctionCache, "_impl_class", None)


def without_key(patch: Patch) -> None:
    patch.setattr(caching.FunctionCache, "_save_overload", lambda self, sig, data: self._cache_file.save(sig, data))


@pytest.mark.parametrize(
    ("remove", "part"),
    [
        (without_step, "_optimize_final_module"),
        (without_call_of_the_step, "_optimize_final_module"),
        (without_module, "_final_module"),
        (without_option, "_nrt"),
        (without_call_type, "get_call_type"),
        (without_cache_class, "_impl_class"),
        (without_key, "_index_key"),
    ],
)
def test_each_part_is_missed(monkeypatch: Patch, remove: Callable[[Patch], None], part: str) -> None:
    assert missing_parts() == []
    require_parts()
    with monkeypatch.context() as patch:
        remove(patch)
        assert any(part in name for name in missing_parts())
        with pytest.raises(LibraryVersionError, match=rf"^numba [0-9.]+.* does not do: it lacks .*{part}.*pip install"):
            require_parts()
    assert missing_parts() == []


BROKEN = """
from numba.core import codegen
del codegen.CPUCodeLibrary._optimize_final_module
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BROKEN + code], capture_output=True, check=False, encoding="utf-8")


def test_the_import_fails() -> None:
    code = "try:\n import nntrainer_py.model\nexcept ImportError as error:\n print(type(error).__name__, error)"
    done = _run(code)
    assert done.stdout.startswith("LibraryVersionError numba "), done.stderr


def test_a_command_says_so() -> None:
    done = _run("from nntrainer_py.cli.main import main\nraise SystemExit(main(['inspect', 'nix.ini']))")
    assert done.returncode == 2
    assert "does not do: it lacks the step CPUCodeLibrary._optimize_final_module" in done.stderr
    assert "Traceback" not in done.stderr
