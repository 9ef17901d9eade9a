"""Loading a user's plugin file: ordinary Python that registers layers, losses, optimizers, schedules or activations.

A plugin runs as code. It is loaded only where the user names it (``--plugin FILE`` or `load_plugin`), never because a
model file does.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from nntrainer_py.errors import NNTrainerError, Origin, PropertyError, UsageError, printable
from nntrainer_py.registry import LAYERS, LOSSES, OPTIMIZERS, SCHEDULERS

#: plugins, by the absolute path of the file, that registered no layer, loss, optimizer or schedule as they ran
_SILENT: set[Path] = set()


def load_plugin(path: str | os.PathLike[str]) -> ModuleType:
    """Run a plugin file once and return its module.

    Raises UsageError for a file that is missing or is not Python, and for an exception while it runs, with the line of
    the plugin that raised it.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(
            f"{path}: {'a folder' if file.is_dir() else 'no such file'}; expected a Python file", key="plugin"
        )
    name = f"nntrainer_py_plugin_{file.stem}_{abs(hash(str(file))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: expected a Python file, named *.py", key="plugin")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before = _registrations()
    try:
        spec.loader.exec_module(module)
    except NNTrainerError as error:
        sys.modules.pop(name, None)
        frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        raise error.located(Origin(str(path), (frames[-1] if frames else None) or 0)) from None
    except SyntaxError as error:
        sys.modules.pop(name, None)
        raise UsageError(f"{path}:{error.lineno or 0}: {error.msg}", key="plugin") from error
    except Exception as error:
        sys.modules.pop(name, None)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        place = f"{path}:{lines[-1]}" if lines else str(path)
        raise UsageError(f"{place}: {type(error).__name__}: {error}", key="plugin") from error
    if _registrations() == before:
        _SILENT.add(file)
    return module


def registers_nothing(path: str | os.PathLike[str]) -> bool:
    """Whether a plugin that `load_plugin` ran made no keyword of a section known (it may have made an activation)."""
    return Path(path).resolve() in _SILENT


def _registrations() -> int:
    return sum(registry.registrations for registry in (LAYERS, LOSSES, OPTIMIZERS, SCHEDULERS))


@contextmanager
def users_code(what: str) -> Iterator[None]:
    """Turn what a user's code raises into a UsageError that names ``what`` it was, and its own file and line.

    Errors of ours pass; so do an interrupt and the like. A wrong value that it gave to us gets its place.
    """
    try:
        yield
    except PropertyError as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
        raise error.located(Origin(own[-1].filename, own[-1].lineno or 0) if own else None) from None
    except NNTrainerError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _is_users(frame.filename)]
        place = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
        raise UsageError(f"{place}{what}: {type(error).__name__}: {error}") from error


def place_of_class(written: type) -> str:
    """``gate.py:7: the class Gate``; without file and line where nobody knows them (typed at a prompt)."""
    try:
        file, line = inspect.getsourcefile(written), inspect.getsourcelines(written)[1]
    except (TypeError, OSError):
        return f"the class {written.__name__}"
    return f"{printable(str(file))}:{line}: the class {written.__name__}"


def _is_users(filename: str) -> bool:
    """Not of this package and not of an installed library (NumPy raises for many wrong calls)."""
    path = Path(filename)
    return path.exists() and Path(__file__).parent not in path.parents and "site-packages" not in path.parts
