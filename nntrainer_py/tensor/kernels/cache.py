"""Files of compiled kernels: the interface that Numba's cache asks for, over several folders (see `cache_location`)."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any, cast

from nntrainer_py.tensor.kernels.cache_location import cache_folders, fingerprint
from nntrainer_py.tensor.kernels.numba_parts import require_parts
from nntrainer_py.tensor.kernels.threads import start_threads

require_parts()

caching: Any = importlib.import_module("numba.core.caching")  # typed in some versions of Numba only


class _Files:
    """Index and data files of one kernel over several folders; has the interface of Numba's IndexDataCacheFile."""

    def __init__(self, base: str, stamp: str) -> None:
        self._base, self._stamp = base, stamp

    def _file(self, folder: Path) -> Any:
        return caching.IndexDataCacheFile(str(folder), self._base, self._stamp)

    def load(self, key: Any) -> Any:
        for folder in cache_folders()[0]:
            try:
                found = self._file(folder).load(key)
            except Exception:  # a truncated or foreign file is no reason to stop: compile again
                continue
            if found is not None:
                return found
        return None

    def holds(self, key: Any) -> bool:
        """Code for this key is in one of the folders (a damaged index counts as empty)."""
        for folder in cache_folders()[0]:
            try:
                if key in self._file(folder)._load_index():
                    return True
            except Exception:
                continue
        return False

    def save(self, key: Any, data: Any) -> None:
        folder = cache_folders()[1]
        if folder is None:
            return
        file = self._file(folder)
        try:
            try:
                file._load_index()
            except OSError:
                raise
            except Exception:  # whatever a damaged index leads to: begin a new one
                file.flush()
            file.save(key, data)
        except OSError as error:  # a full disk must not stop a training run
            warnings.warn(f"cannot keep a compiled kernel in '{folder}': {error}", stacklevel=2)

    def flush(self) -> None:
        folder = cache_folders()[1]
        if folder is not None:
            self._file(folder).flush()


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """Tells Numba's cache what it asks for; the folders themselves are chosen by ``_Files``."""

    def __init__(self, body: Any, path: str) -> None:
        self._py_file = path
        self._line = body.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)

    def ensure_cache_path(self) -> None:
        return

    def get_cache_path(self) -> str:
        return ""

    def get_source_stamp(self) -> str:
        return fingerprint()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _CacheImplementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel; ``forks``: its machine code names functions of the thread pool."""

    _impl_class = _CacheImplementation

    def __init__(self, body: Any, forks: bool) -> None:
        super().__init__(body)
        self._forks = forks
        base = f"{body.__module__.rpartition('.')[2]}.{self._impl.filename_base}"
        self._cache_file = _Files(base, fingerprint())

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        if self._py_func.__closure__ is None:
            return super()._index_key(sig, codegen)
        # a `variant`: what it closes over is told by its name, and the fingerprint stands for the text
        return sig, codegen.magic_tuple()

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Code for these argument types is on file."""
        return self._cache_file.holds(self._index_key(sig, target_context.codegen()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _leave_scipy_alone()
        if self._forks:
            start_threads()
        return super().load_overload(sig, target_context)


@functools.cache
def _leave_scipy_alone() -> None:
    """Let Numba find out whether there is SciPy without importing its linear algebra, which no kernel of ours uses.

    Numba does it once, when it loads its functions for arrays; it takes a quarter of the time to a first step. A
    program's own kernels that need BLAS import it when they are compiled, as ever.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    linear = importlib.import_module("numba.np.linalg")
    thorough = getattr(linear, "ensure_blas", None)
    if thorough is None:  # another version of Numba, which does otherwise
        return

    def look_only() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("no SciPy")

    cast(Any, linear).ensure_blas = look_only
    try:
        arrays = importlib.import_module("numba.np.arraymath")
    finally:
        cast(Any, linear).ensure_blas = thorough
    cast(Any, arrays).ensure_blas = thorough
