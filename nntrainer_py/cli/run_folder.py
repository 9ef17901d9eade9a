"""The folder of a run: which it is, whether it may be used, and that nobody else is using it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Self

from nntrainer_py.cli.quantities import amount
from nntrainer_py.errors import UsageError, printable
from nntrainer_py.formats.event_file import PATTERN as EVENT_FILES

if TYPE_CHECKING:
    from nntrainer_py.training.run_lock import RunLock

#: files of a run
WEIGHTS, MODEL, BEST, CHECKPOINT = "model.bin", "model.safetensors", "best.safetensors", "checkpoint.safetensors"
HISTORY, HISTORY_LINES, RESULT, LOG = "history.csv", "history.jsonl", "result.json", "run.log"
LAYOUT, EVALUATION, CURVES, CONFUSION = "layout.json", "evaluation.json", "curves.png", "confusion.png"
DESCRIPTION, REPORT = "model.ini", "report.html"
#: folder of the event files, inside that of the run
TENSORBOARD = "tensorboard"
FILES = (
    WEIGHTS, MODEL, BEST, CHECKPOINT, HISTORY, HISTORY_LINES, RESULT, LOG, LAYOUT, EVALUATION, CURVES, CONFUSION,
    DESCRIPTION, REPORT,
)  # fmt: skip

#: how the log of a run begins: the time, then who writes
_LOG_BEGIN = re.compile(rb"[0-9-]{10} [0-9:]{8} nntrainer_py ")


class RunFolder:
    """One run's folder. `plan` looks, `open` makes and locks it; nothing is touched before `open`."""

    def __init__(self, path: Path, *, resume: bool = False, fresh: bool = True, numbered: bool = False) -> None:
        self.path = path
        self.resume = resume
        self._fresh = fresh
        self._numbered = numbered
        self._lock: RunLock | None = None
        self._used = False

    @classmethod
    def plan(cls, ini: Path, out: str | None, *, overwrite: bool, resume: bool) -> Self:
        """The folder that a run of ``ini`` will use; UsageError when it may not be used.

        ``out`` is what the user asked for: it must not exist, unless a run is resumed in it or its files may be
        replaced. Otherwise it is ``runs/<name>-<number>`` beside the INI file: the next free number, or, to resume,
        the last one that has a checkpoint.
        """
        if out is None and resume:
            folder = cls(_last_run(ini), resume=True, fresh=False)
            folder._require_own_files()
            return folder
        if out is None:
            runs = ini.parent / "runs"
            folder = cls(runs / f"{ini.stem}-{_next_number(runs, ini.stem)}", numbered=True)
            require_place(folder.path, hint="; choose another place with --out DIR")
            return folder
        path = Path(out)
        exists = os.path.lexists(path)
        if exists and not path.is_dir():
            raise UsageError(f"{printable(out)} exists and is no folder", key="--out")
        if resume and not (path / CHECKPOINT).is_file():
            raise UsageError(f"{printable(out)} has no {CHECKPOINT} to resume from", key="--out")
        if exists and not (resume or overwrite):
            raise UsageError(
                f"{printable(out)} exists; --resume goes on with the run in it, --overwrite replaces it", key="--out"
            )
        folder = cls(path, resume=resume, fresh=not exists)
        require_place(folder.path)
        if exists and not resume:
            folder._require_run()
        folder._require_own_files()
        return folder

    def _require_own_files(self) -> None:
        """Nothing in a folder that somebody else may have made leads out of it: files to append to, files to remove."""
        if (self.path / TENSORBOARD).is_symlink():
            raise UsageError(f"{printable(str(self.path / TENSORBOARD))} is a link, a folder of the run was expected")
        for name in FILES if self.resume else ():
            path = self.path / name
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise UsageError(f"{printable(str(path))} is not a regular file, as those of a run are")

    def _require_run(self) -> None:
        """What is to be replaced must be a run: files of the same names that somebody put there are no run."""
        theirs = [name for name in FILES if os.path.lexists(self.path / name)]
        if theirs and not _holds_run(self.path):
            raise UsageError(
                f"{printable(str(self.path))} holds no run, but files that a run would replace ({', '.join(theirs)}); "
                "move them away, or choose another folder",
                key="--out",
            )

    def written_over(self, path: str | os.PathLike[str]) -> bool:
        """Whether the run writes a file of its own in the place of the one at ``path``, or of the link there."""
        folder = os.path.realpath(self.path)
        whole = os.path.realpath(path)
        link = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
        return any(os.path.dirname(place) == folder and os.path.basename(place) in FILES for place in (whole, link))

    def require_space(self, size: int) -> None:
        """UsageError when the disk has less than ``size`` bytes left."""
        parent = _existing(self.path)
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(parent).free
            if free < size:
                raise UsageError(
                    f"the run needs about {amount(size)} on the disk of {printable(str(parent))}, "
                    f"{amount(free)} are free"
                )

    def open(self) -> Self:
        """Make the folder where there is none, and take its lock."""
        try:
            if self._numbered:
                self._make_numbered()
            else:
                self.path.mkdir(parents=True, exist_ok=True)
            from nntrainer_py.training.run_lock import RunLock

            self._lock = RunLock(self.path)
            self._lock.__enter__()
        except OSError as error:
            raise UsageError(f"{printable(str(self.path))}: {error.strerror or error}") from None
        return self

    def clear(self, written: Path | None = None) -> None:
        """The run begins: remove the files of that which it replaces, but not one that it has ``written`` already."""
        self._used = True
        if not self.resume and not self._fresh:
            for name in FILES:
                if self.path / name != written:
                    (self.path / name).unlink(missing_ok=True)
            for path in (self.path / TENSORBOARD).glob(EVENT_FILES):
                path.unlink()

    def close(self) -> None:
        """Give the lock back; a folder that was made for a run that never began goes away again."""
        if self._lock is not None:
            self._lock.__exit__(None, None, None)
            self._lock = None
        if self._fresh and not self._used:
            with contextlib.suppress(OSError):
                self.path.rmdir()
                if self._numbered:
                    self.path.parent.rmdir()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def _make_numbered(self) -> None:
        """Another run may have taken the number since `plan`."""
        stem, _, number = self.path.name.rpartition("-")
        for candidate in range(int(number), int(number) + 10_000):
            self.path = self.path.with_name(f"{stem}-{candidate}")
            try:
                self.path.mkdir(parents=True)  # one that ends may have removed an empty folder of runs just now
            except FileExistsError:
                continue
            return
        raise UsageError(f"{printable(str(self.path.parent))} has no free number for a run")


def _holds_run(path: Path) -> bool:
    """Whether a run left its traces in a folder; one that was killed early has its log and no more."""
    if any(os.path.lexists(path / name) for name in (CHECKPOINT, LAYOUT)):
        return True
    with contextlib.suppress(OSError):
        if (path / LOG).is_file():  # a pipe would never end
            with open(path / LOG, "rb") as file:
                return _LOG_BEGIN.match(file.read(100)) is not None
    return False


def require_place(path: Path, hint: str = "") -> None:
    """UsageError when ``path`` is no folder that can be written to, and none can be made there."""
    parent = _existing(path)
    if not parent.is_dir():
        raise UsageError(f"{printable(str(path))} cannot be made: {printable(str(parent))} is no folder{hint}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"{printable(str(path))} cannot be made: {printable(str(parent))} is not writable{hint}")


def _existing(path: Path) -> Path:
    """The nearest part of a path that exists."""
    current = Path(os.path.abspath(path))
    while not os.path.lexists(current) and current != current.parent:
        current = current.parent
    return current


def _numbers(runs: Path, stem: str) -> list[int]:
    pattern = re.compile(rf"{re.escape(stem)}-([0-9]{{1,9}})")
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))


def _next_number(runs: Path, stem: str) -> int:
    return max(_numbers(runs, stem), default=0) + 1


def _last_run(ini: Path) -> Path:
    runs = ini.parent / "runs"
    for number in reversed(_numbers(runs, ini.stem)):
        path = runs / f"{ini.stem}-{number}"
        if (path / CHECKPOINT).is_file():
            return path
    raise UsageError(
        f"there is no run of {printable(ini.name)} with a {CHECKPOINT} in {printable(str(runs))}", key="--resume"
    )
