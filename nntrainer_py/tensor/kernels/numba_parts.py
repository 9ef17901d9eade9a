"""The parts of Numba that `compile` and `cache` build on although they are not public.

Without one, kernels would still run, but slower, rounding in other ways on a first run than on later ones, or with
memory of Numba's own.

`require_parts` looks whether this Numba has them all, and works with them as the ones that were tried did.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numba

from nntrainer_py.errors import LibraryVersionError

TRIED = "0.62 to 0.68"


def require_parts() -> None:
    """LibraryVersionError, which is an ImportError too, with all that this Numba lacks."""
    missing = missing_parts()
    if missing:
        raise LibraryVersionError(
            f"numba {numba.__version__} does not do: it lacks {', '.join(missing)}, on which compiled kernels depend; "
            f"install another version (tried: {TRIED}), such as pip install 'numba<0.69'"
        )


def missing_parts() -> list[str]:
    """The parts that are not there, or that Numba no longer uses."""
    codegen, options, cpu, types, caching = map(_module, ("codegen", "options", "cpu", "types", "caching"))
    library = getattr(codegen, "CPUCodeLibrary", None)
    parts = {
        "the step CPUCodeLibrary._optimize_final_module": callable(_part(library, "_optimize_final_module"))
        and _uses(library, "finalize", "_optimize_final_module"),
        "CPUCodeLibrary._final_module": _uses(library, "_optimize_final_module", "_final_module"),
        "the compiler option _nrt": _is_option(options, cpu, "_nrt"),
        "types.Dispatcher.get_call_type": callable(_part(types, "Dispatcher.get_call_type")),
        "caching.FunctionCache._impl_class": _part(caching, "FunctionCache._impl_class") is not None
        and _uses(_part(caching, "FunctionCache"), "__init__", "_impl_class"),
        "caching.FunctionCache._index_key": all(
            _uses(_part(caching, "FunctionCache"), method, "_index_key")
            for method in ("_load_overload", "_save_overload")
        ),
    }
    return [name for name, there in parts.items() if not there]


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"numba.core.{name}")
    except ImportError:
        return None


def _part(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


def _uses(owner: Any, method: str, name: str) -> bool:
    """Whether the code of a method names an attribute."""
    code = getattr(getattr(owner, method, None), "__code__", None)
    return code is not None and name in code.co_names


def _is_option(options: Any, cpu: Any, name: str) -> bool:
    mapping = _part(options, "TargetOptions.Mapping")
    return isinstance(mapping, type) and isinstance(_part(cpu, f"CPUTargetOptions.{name}"), mapping)
