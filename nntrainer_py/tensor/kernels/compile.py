"""The one place that compiles: ``kernel`` turns a Python function over arrays into machine code, lazily and cached.

Nothing is set for the process as a whole: a program's own use of Numba keeps its own settings.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import llvmlite.binding
import numba
from numba import extending

from nntrainer_py.tensor.kernels.cache import KernelCache

# Numba types these parts differently from version to version.
compiler: Any = importlib.import_module("numba.core.compiler")
types: Any = importlib.import_module("numba.core.types")

P = ParamSpec("P")
R = TypeVar("R")

# NaN and infinity must travel through every kernel, so "nnan" and "ninf" are left out.
_FASTMATH = {"contract", "nsz", "arcp", "reassoc"}

KERNELS: dict[str, Kernel[..., Any]] = {}
"""Every kernel of the modules imported so far, by ``module.name``."""


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
        self.function._cache = KernelCache(body, forks)
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
