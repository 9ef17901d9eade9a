"""Where compiled kernels lie.

Numba alone watches only the file of the function it caches, so an edited helper in another file would leave old machine
code in use.  Here the name of the cache folder holds a hash of every kernel file, the package, Numba and LLVM
versions and the CPU, so anything that could change the code changes the folder.  Compiled code is looked for in every
known folder and written to the first one that can be written:

1. ``NNTRAINER_CACHE_DIR`` if it is set,
2. ``__pycache__`` beside the kernels (a package installed for its own user, or an image warmed while it was built),
3. the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``),
4. a folder private to the user in the system's temporary folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba

from nntrainer_py.version import __version__

config: Any = importlib.import_module("numba.core.config")  # typed in some versions of Numba only


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
