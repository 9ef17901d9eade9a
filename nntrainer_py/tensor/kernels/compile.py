"""The one place that compiles: ``kernel`` turns a Python function over arrays into machine code, lazily and cached.

Numba alone watches only the file of the function it caches, so an edited helper in another file would leave old machine
code in use.  Here the name of the cache folder holds a hash of every kernel file, the package, Numba and LLVM
versions and the CPU, so anything that could change the code changes the folder.  Compiled code is looked for in every
known folder and written to the first one that can be written:

1. ``NNTRAINER_CACHE_DIR`` if it is set,
2. ``__pycache__`` beside the kernels (a package installed for its own user, or an image warmed while it was built),
3. the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``),
4. a folder private to the user in the system's temporary folder.

Nothing is set for the process as a whole: a program's own use of Numba keeps its own settings.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import stat
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

import llvmlite
import llvmlite.binding
import numba
from numba import extending

from nntrainer_py.tensor.kernels.numba_parts import require_parts
from nntrainer_py.version import __version__

require_parts()

# Numba types these parts differently from version to version.
caching: Any = importlib.import_module("numba.core.caching")
config: Any = importlib.import_module("numba.core.config")
compiler: Any = importlib.import_module("numba.core.compiler")
types: Any = importlib.import_module("numba.core.types")
launcher: Any = importlib.import_module("numba.np.ufunc.parallel")

P = ParamSpec("P")
R = TypeVar("R")

# NaN and infinity must travel through every kernel, so "nnan" and "ninf" are left out.
_FASTMATH = {"contract", "nsz", "arcp", "reassoc"}

_SPINS = "3000"  # about 75 microseconds, longer than the pause between two parallel kernels of a step

KERNELS: dict[str, Kernel[..., Any]] = {}
"""Every kernel of the modules imported so far, by ``module.name``."""


@functools.cache
def cpu() -> tuple[str, str]:
    """Name and feature list of the processor that code is generated for."""
    name = config.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    features = config.CPU_FEATURES
    if features is None:
        try:
            features = llvmlite.binding.get_host_cpu_features().flatten()
        except RuntimeError:  # LLVM knows no feature detection for this processor
            features = ""
    return str(name), str(features)


@functools.cache
def fingerprint() -> str:
    """Hash of everything that decides what machine code a kernel becomes."""
    digest = hashlib.sha256()
    here = Path(__file__).resolve().parent
    for path in sorted((*here.glob("*.py"), *here.glob("[!_]*/**/*.py"))):  # not among the compiled ones
        digest.update(path.relative_to(here).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    if not here.is_dir():  # imported from a zip archive, which is watched as a whole
        archive = next((path for path in here.parents if path.is_file()), None)
        if archive is not None:
            digest.update(hashlib.sha256(archive.read_bytes()).digest())
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    parts = (
        __version__,
        numba.__version__,
        llvmlite.__version__,
        llvm,
        sys.version,
        llvmlite.binding.get_process_triple(),
        *cpu(),
    )
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:20]


def _user_folder() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "nntrainer_py"
    try:
        return Path.home() / ".cache" / "nntrainer_py"
    except RuntimeError:  # no HOME and no entry in the user database
        return None


def _private_temporary() -> Path | None:
    """A folder only this user can have written to, or None where that cannot be had."""
    if not hasattr(os, "getuid"):
        return Path(tempfile.gettempdir()) / "nntrainer_py"
    path = Path(tempfile.gettempdir()) / f"nntrainer_py-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return None  # somebody else prepared it: its contents would be run as ours
    return path


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def cache_bases() -> list[Path]:
    """Where folders of compiled kernels may lie, the most wanted first."""
    chosen = os.environ.get("NNTRAINER_CACHE_DIR")
    found = [Path(chosen).expanduser()] if chosen else []
    found.append(Path(__file__).resolve().parent / "__pycache__")
    for folder in (_user_folder(), _private_temporary()):
        if folder is not None:
            found.append(folder)
    return found


_only: Path | None = None


def use_only(folder: Path) -> None:
    """From here on keep compiled kernels in ``folder`` and look for them nowhere else (``nntrainer warm --to``)."""
    global _only
    _only = folder
    cache_folders.cache_clear()


@functools.cache
def cache_folders() -> tuple[tuple[Path, ...], Path | None]:
    """Folders that compiled kernels are read from, and the one they are written to (None: nowhere)."""
    if _only is not None:
        chosen_folder = _only / f"kernels-{fingerprint()}"
        return ((chosen_folder,), chosen_folder) if _writable(chosen_folder) else ((), None)
    candidates = [base / f"kernels-{fingerprint()}" for base in cache_bases()]
    target = next((folder for folder in candidates if _writable(folder)), None)
    chosen = os.environ.get("NNTRAINER_CACHE_DIR")
    if chosen and target != candidates[0] and not candidates[0].is_dir():
        warnings.warn(
            f"NNTRAINER_CACHE_DIR: cannot write to '{chosen}', compiled kernels go to '{target}'", stacklevel=2
        )
    return tuple(folder for folder in candidates if folder.is_dir()), target


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


def start_threads() -> None:
    """Start the pool of parallel kernels, once per process.

    Prefers the layer with the cheapest fork and join (3 against 55 us), unless the user decided.
    """
    if launcher._is_initialized:
        return
    if "NUMBA_THREADING_LAYER" not in os.environ and "NUMBA_THREADING_LAYER_PRIORITY" not in os.environ:
        config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    with _short_spin():
        launcher._launch_threads()


@contextmanager
def _short_spin() -> Iterator[None]:
    """While libgomp is loaded, let it read how long a waiting thread spins, unless the user decided.

    By default it spins for milliseconds: on a busy machine the spinning thread keeps the working one from the
    processor, and a step on two threads takes up to ten times as long as on one. The variable is gone again
    afterwards, so that other programs started from here keep their own defaults.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


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


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
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
            start_threads()  # the machine code names functions of the pool
        return super().load_overload(sig, target_context)


def _make_own(module: Any) -> None:
    """Keep the machine code of a kernel to itself: copies of the functions it calls, not whatever has their name.

    As Numba leaves it, a call goes to the first of all copies in the process: that of the function's own library if
    it was compiled here, else that of the first kernel loaded from the cache. They are optimized in different
    surroundings, so a first run could round otherwise than a second one.
    """
    for function in module.functions:
        if not function.is_declaration and function.linkage == llvmlite.binding.Linkage.linkonce_odr:
            function.linkage = "internal"


class _KernelCompiler(compiler.Compiler):  # type: ignore[misc]
    """Compiles into a library that is independent of others."""

    def __init__(self, typing_context: Any, context: Any, library: Any, *rest: Any) -> None:
        if library is None:
            library = context.codegen().create_library("kernel")
            library.enable_object_caching()
            library._optimize_final_module = functools.partial(self._optimize, weakref.proxy(library))
        super().__init__(typing_context, context, library, *rest)

    @staticmethod
    def _optimize(library: Any) -> None:
        _make_own(library._final_module)
        library.__class__._optimize_final_module(library)


class _BodyCompiler(_KernelCompiler):
    """Leaves the optimizer to the kernel that a body becomes part of.

    Sums and products that the optimizer may reorder would else be ordered twice, in ways that differ between the
    versions of one body; and it would take twice the time.
    """

    @staticmethod
    def _optimize(library: Any) -> None:
        pass


class _KernelType(types.Dispatcher):  # type: ignore[misc]
    """Type of a kernel inside kernels: one compiled version, whatever constants it is called with.

    Numba would compile a function again for each combination of literal arguments and for unsigned integers.
    """

    def __init__(self, dispatcher: Any, integers: frozenset[int]) -> None:
        self._integers = integers
        super().__init__(dispatcher)

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        plain = [types.unliteral(kind) for kind in args]
        for i, kind in enumerate(plain):
            if i in self._integers and isinstance(kind, types.Integer):
                plain[i] = types.int64
        return super().get_call_type(context, tuple(plain), kws)


extending.register_model(_KernelType)(extending.models.OpaqueModel)


class Kernel(Generic[P, R]):
    """A compiled function: call it, hand ``function`` to a replay loop, or call it from another kernel.

    Attributes:
        name, module: where it is defined.
        function: Numba's dispatcher; calling it costs nothing more than calling the machine code.
        forks: whether it shares its parts among threads.
    """

    def __init__(self, body: Callable[P, R], forks: bool) -> None:
        self.name = body.__name__
        self.module = body.__module__
        self.forks = forks
        self.__doc__ = body.__doc__
        names = [name for name in body.__annotations__ if name != "return"]
        # a body is run by `fork_join` alone, as part of another kernel
        pipeline = _BodyCompiler if names[:2] == ["part", "parts"] else _KernelCompiler
        # Without Numba's runtime a kernel can neither allocate nor count references: the atomic counters of shared
        # arrays cost more than the arithmetic of short rows, and kept two threads from being faster than one.
        self.function: Any = cast(Any, numba.njit)(
            nogil=True, fastmath=_FASTMATH, error_model="numpy", boundscheck=False, _nrt=False, pipeline_class=pipeline
        )(body)
        self.function._cache = _KernelCache(body, forks)
        integers = frozenset(i for i, name in enumerate(names) if body.__annotations__[name] in ("int", int))
        self._numba_type_ = _KernelType(self.function, integers)  # lets other kernels call this object

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    @property
    def signatures(self) -> list[Any]:
        """Argument types compiled or loaded so far."""
        return list(self.function.signatures)

    def is_ready(self, signature: Any) -> bool:
        """The machine code for these argument types is here or on file."""
        if tuple(signature) in self.function.overloads:
            return True
        context = self.function.targetdescr.target_context
        return bool(self.function._cache.holds(tuple(signature), context))

    def compile(self, signature: Any) -> None:
        """Compile (or load from the cache) for argument types, without calling."""
        self.function.compile(signature)

    def __repr__(self) -> str:
        return f"<kernel {self.module}.{self.name}>"


def kernel(*, forks: bool = False) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Decorator for module-level functions: arrays in, arrays filled, no allocation, no objects.

    ``forks`` is for kernels that call ``fork_join``.
    """

    def wrap(body: Callable[P, R]) -> Kernel[P, R]:
        if body.__closure__ is not None or "<locals>" in body.__qualname__:
            raise TypeError(
                f"{body.__qualname__}: a kernel is a module-level function (variants would share a cache entry)"
            )
        made = Kernel(body, forks)
        KERNELS[f"{made.module}.{made.name}"] = made
        return made

    return wrap


def inlined(body: Callable[P, R]) -> Callable[P, R]:
    """Decorator for formulas: each is written into the kernels that call it, as if it stood there, and never called."""
    return cast(Callable[P, R], cast(Any, numba.njit)(inline="always")(body))


def variant(body: Callable[..., None], formula: Callable[..., Any], name: str, forks: bool = False) -> Kernel[..., Any]:
    """A kernel from a local function around a formula of this package: ``name``, in the module of the formula.

    That is what the cache files it under, so that variants of one body do not share an entry.
    """
    body.__module__, body.__name__, body.__qualname__ = formula.__module__, name, name
    body.__doc__ = formula.__doc__
    made = Kernel(body, forks)
    KERNELS[f"{made.module}.{name}"] = made
    return made


def intrinsic(build: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for functions that emit LLVM IR themselves (``numba.extending.intrinsic``); module globals only."""
    return cast(Callable[..., Any], extending.intrinsic(build))
