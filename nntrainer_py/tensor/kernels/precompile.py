"""Compiling kernels in processes of their own, side by side, so that compiling takes no memory of the training process.

``missing`` finds what the calls of a program need and no cache folder has; ``precompile`` has it compiled into the
cache, from where the kernels load it. Run as a program, this file is the other process: it takes jobs as JSON lines.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import numba

from nntrainer_py.tensor.kernels.cache_location import cache_folders, use_only
from nntrainer_py.tensor.kernels.compile import KERNELS, Kernel, types

Job = tuple[Kernel[..., Any], tuple[Any, ...]]

_PACKAGE = "nntrainer_py.tensor.kernels"  # this module is called __main__ in the other process


class _Announcer:
    """Who is told that kernels are compiled; by default standard error where somebody watches it."""

    tell: Callable[[str], None] | None = None


def announce_to(tell: Callable[[str], None] | None) -> None:
    """Give the progress line to ``tell``; None: standard error, if it is a terminal."""
    _Announcer.tell = tell


def _announce(text: str) -> None:
    if _Announcer.tell is not None:
        _Announcer.tell(text)
    elif sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def missing(calls: Iterable[tuple[Callable[..., Any], Sequence[Any]]]) -> list[Job]:
    """The kernels among ``calls`` (function, arguments) with the argument types that are neither loaded nor on file."""
    owners = {id(made.function): made for made in KERNELS.values() if made.module.startswith(f"{_PACKAGE}.")}
    found: dict[tuple[str, tuple[Any, ...]], Job] = {}
    for function, arguments in calls:
        made = owners.get(id(function))
        if made is None:
            continue
        signature = tuple(function.typeof_pyval(argument) for argument in arguments)  # type: ignore[attr-defined]
        key = (f"{made.module}.{made.name}", signature)
        if key not in found and not made.is_ready(signature):
            found[key] = (made, signature)
    return list(found.values())


def precompile(jobs: Sequence[Job], only: Path | None = None) -> None:
    """Compile ``jobs`` into the cache, in at most as many processes as there are processors.

    Without a folder that can be written nothing is done; what fails is left to the first call, which says why.
    ``only``: into this folder, and even if another one has it. An exception that is raised here meanwhile, such as a
    KeyboardInterrupt, ends the processes at once.
    """
    if not jobs or (only is None and cache_folders()[1] is None):
        return
    _announce(f"compiling {len(jobs)} kernel{'s'[: len(jobs) > 1]}, first run only")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # the large ones first, so that none is left to the end alone: compile time goes with the number of arguments
    waiting = iter(sorted(jobs, key=lambda job: -len(job[1])))
    workers = min(processors, len(jobs))
    running: list[subprocess.Popen[str]] = []
    stopped = Event()
    try:
        with ThreadPoolExecutor(workers) as pool:
            employed = [pool.submit(_employ, waiting, only, running, stopped) for _ in range(workers)]
            try:
                for done in employed:
                    done.result()
            except BaseException:
                stopped.set()
                for process in running:
                    process.kill()
                raise
    except OSError as error:  # no process may be started here: compiled at the first call instead
        warnings.warn(f"cannot compile in a process of its own: {error}", stacklevel=2)


def _employ(waiting: Iterable[Job], only: Path | None, running: list[subprocess.Popen[str]], stopped: Event) -> None:
    """One other process, given jobs as long as there are any. The iterator is shared by all employers."""
    # -P: not from the current folder, where something else may have our name
    command = [sys.executable, "-P", "-m", f"{_PACKAGE}.precompile", *([str(only)] if only is not None else [])]
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:  # fmt: skip
        running.append(process)
        if stopped.is_set():
            process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        for made, signature in waiting:
            job = [made.module, made.name, [encode(kind) for kind in signature]]
            try:
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                break
            if not process.stdout.readline():
                break
        with suppress(BrokenPipeError):
            process.stdin.close()


def encode(kind: Any) -> Any:
    """A Numba type of an argument as JSON."""
    if isinstance(kind, types.Array):
        return ["array", encode(kind.dtype), kind.ndim, kind.layout, not kind.mutable, kind.aligned]
    if isinstance(kind, types.BaseTuple):
        return ["tuple", [encode(part) for part in kind]]
    if isinstance(kind, (types.Number, types.Boolean, types.NoneType)):
        return str(kind)
    raise TypeError(f"no kernel takes a {kind}")


def decode(coded: Any) -> Any:
    """What ``encode`` was given."""
    if isinstance(coded, str):
        return getattr(types, coded)
    name, *rest = coded
    if name == "array":
        dtype, axes, layout, readonly, aligned = rest
        return types.Array(decode(dtype), axes, layout, readonly=readonly, aligned=aligned)
    return types.BaseTuple.from_types([decode(part) for part in rest[0]])


def _compile(module: str, name: str, coded: Sequence[Any]) -> str:
    if not module.startswith(f"{_PACKAGE}."):
        return f"{module} is no module of kernels"
    importlib.import_module(module)
    try:
        KERNELS[f"{module}.{name}"].compile(tuple(decode(kind) for kind in coded))
    except Exception as error:  # told by the first call in the process that needs it
        return str(error)
    return ""


def main() -> None:
    """Jobs from standard input until it ends; one line for each."""
    if len(sys.argv) > 1:
        use_only(Path(sys.argv[1]))
    numba.set_num_threads(1)
    for line in sys.stdin:
        module, name, coded = json.loads(line)
        print(json.dumps(_compile(module, name, coded)), flush=True)


if __name__ == "__main__":
    main()
