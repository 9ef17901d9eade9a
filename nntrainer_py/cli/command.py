"""What every command has in common: its frame of exit codes and messages, and the options that several share."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, NoReturn

from nntrainer_py.cli.process import command_begins
from nntrainer_py.errors import InterruptedRun, NNTrainerError, Notice, UsageError, printable
from nntrainer_py.version import __version__

EXIT_CODES = """exit codes:
  0    done (also when nothing was left to do)
  2    wrong usage, or a fault in the description of the model
  3    data or a weight file that is missing, unreadable or does not fit
  4    the loss, or a weight, is not finite
  5    a derivative or gradient is wrong (nntrainer-inspect --check-gradients)
  130  interrupted by Ctrl-C; 143 by a termination request"""

#: faults of one file that are shown
_MOST_FAULTS = 20

_REPORT_TO = "this is a bug in nntrainer_py; please report it with the command and, if you can, the model file"


class SeveralErrors(NNTrainerError):
    """Errors that were found one beside the other, told together."""

    def __init__(self, errors: Sequence[NNTrainerError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = list(errors)
        codes = {error.exit_code for error in errors}
        self.exit_code = 2 if 2 in codes else max(codes, default=2)  # type: ignore[misc]  # that of its causes

    def __str__(self) -> str:
        return self.message

    @classmethod
    def raise_if_any(cls, errors: Sequence[NNTrainerError]) -> None:
        """Raise one error as it is, several as one, none not at all; each only once, however often it was met."""
        different = list({(str(error), error.exit_code): error for error in errors}.values())
        if len(different) == 1:
            raise different[0]
        if different:
            raise cls(different)


def message_of(error: NNTrainerError) -> str:
    """The text of an error; of the faults of one file only the first are shown, and how many more there are."""
    if isinstance(error, SeveralErrors):
        return "\n".join(map(message_of, error.errors))
    lines: list[str] = []
    faults = error.faults
    for file in dict.fromkeys(fault.file for fault in faults):
        own = [str(fault) for fault in faults if fault.file == file]
        lines += own[:_MOST_FAULTS]
        if len(own) > _MOST_FAULTS:
            lines.append(f"... and {len(own) - _MOST_FAULTS} more")
    return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """An argument parser that shows an example and the exit codes, and names the nearest option for an unknown one."""

    def __init__(self, prog: str, description: str, example: str, **more: Any) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"example:\n  {example}\n\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **more,
        )
        self.add_argument("--version", action="version", version=f"nntrainer_py {__version__}")
        self.add_argument("--debug", action="store_true", help="show the Python traceback of an error")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # the base class has overloads
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            from nntrainer_py.errors import did_you_mean

            known = [text for action in self._actions for text in action.option_strings]
            self.error(f"unknown argument: {printable(rest[0])}{did_you_mean(rest[0].partition('=')[0], known)}")
        return found

    def error(self, message: str) -> NoReturn:
        say(f"{self.prog}: {message}\n(see {self.prog} --help)")
        raise SystemExit(2)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The INI file and what changes its meaning."""
    parser.add_argument("model", metavar="MODEL.ini", help="the description of the model")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE",
        help="take another value than the file's; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--plugin", dest="plugins", action="append", default=[], metavar="FILE.py",
        help="Python file with layers of your own; may be given several times (it runs as code)",
    )  # fmt: skip
    parser.add_argument("--seed", type=number(0, 2**32 - 1), metavar="N", help="seed of every random number")
    parser.add_argument("--threads", type=number(1, 4096), metavar="N", help="threads to compute with")
    parser.add_argument("--batch-size", type=number(1, 2**31 - 1), metavar="N", help="samples in a batch")
    parser.add_argument(
        "--memory-budget",
        type=_size,
        metavar="SIZE",
        help="all memory of the run, such as 64MB; the plan is made to fit",
    )


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """How much is said, and to whom."""
    parser.add_argument("--quiet", action="store_true", help="say nothing but warnings and errors")
    parser.add_argument("--json", action="store_true", help="print JSON (one object a line) for programs")


def number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that takes an integer."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected an integer from {least} to {most}, got '{printable(text)}'")
        return value

    return parse


def _size(text: str) -> str:
    from nntrainer_py.graph.model_section import ModelSection

    try:
        ModelSection.properties()["memory_budget"].parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return text


def overrides_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The options that stand for keys of ``[Model]``, and then those of ``--set``."""
    found = []
    for option in ("epochs", "batch_size", "seed", "threads", "memory_budget"):
        value = getattr(arguments, option, None)
        if value is not None:
            found.append(f"model.{option}={value}")
    return (*found, *arguments.overrides)


def load_plugins(paths: Iterable[str]) -> None:
    """Run the user's plugin files; all that fail are told."""
    from nntrainer_py.plugins import load_plugin

    errors: list[NNTrainerError] = []
    for path in paths:
        try:
            load_plugin(path)
        except NNTrainerError as error:
            errors.append(error)
    SeveralErrors.raise_if_any(errors)


def say(text: str) -> None:
    """A message to the person at the terminal, on the error stream."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def notify(notices: Iterable[Notice | str]) -> None:
    """Show warnings, each once."""
    for text in dict.fromkeys(map(str, notices)):
        say(text if text.startswith("warning: ") else f"warning: {text}")


def tell_of_compiling(quiet: bool) -> None:
    """Explain the wait of the first run on a machine, whose kernels must be compiled."""
    from nntrainer_py.tensor.kernels.precompile import announce_to

    announce_to((lambda text: None) if quiet else say)


def tell_of_signal(number: int) -> None:
    """Say what a Ctrl-C or termination request of a run brings about; to be called from a signal handler.

    Past the buffer of the stream, in whose midst the signal may have come; on a terminal below a bar.
    """
    with contextlib.suppress(OSError, ValueError):
        again = "; press Ctrl-C again to stop without" if number == signal.SIGINT else ""
        start = "\n" if os.isatty(2) else ""
        os.write(2, f"{start}interrupted: finishing the step, then saving{again}\n".encode("ascii"))


def run(parser: Parser, function: Callable[[argparse.Namespace], int], argv: Sequence[str] | None = None) -> int:
    """Parse, call, and turn whatever goes wrong into a message and an exit code."""
    _replace_closed_streams()
    _tolerate_every_name()
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        command_begins(words)
        arguments = parser.parse_args(words)
        arguments.words, arguments.prog = words, parser.prog
    except SystemExit as end:  # argparse ends the process for --help and wrong usage
        return _flushed(int(end.code or 0))
    before = _end_on_termination()
    try:
        return _flushed(function(arguments))
    except NNTrainerError as error:
        _traceback(arguments)
        text = message_of(error)
        say(text if ": " in text else f"error: {text}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        _traceback(arguments)
        place = "" if error.filename is None else f"{printable(str(error.filename))}: "
        say(f"error: {place}{error.strerror or error}")
        return 3
    except MemoryError:
        _traceback(arguments)
        say("error: there is not enough memory; a smaller batch_size or a memory_budget may help")
        return 2
    except UnicodeEncodeError as error:
        if error.encoding != sys.getfilesystemencoding():
            return _internal(error, arguments)
        _traceback(arguments)
        say(
            f"error: file names are {error.encoding} in this session and cannot hold {error.object!r}; set PYTHONUTF8=1"
        )
        return 2
    except Exception as error:
        return _internal(error, arguments)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _replace_closed_streams() -> None:
    """Streams that were closed before we came lead nowhere; their numbers must not go to the next file opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _tolerate_every_name() -> None:
    """A file name or message that the terminal's encoding lacks is shown escaped instead of ending the run."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _end_on_termination() -> Any:
    """Outside the training loop, which has a guard of its own, a termination request ends the command at once."""

    def end(number: int, frame: FrameType | None) -> None:
        raise InterruptedRun("ended by a termination request", signal=number)

    try:
        return signal.signal(signal.SIGTERM, end)
    except ValueError:  # not in the main thread
        return None


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _closed_pipe()
    return code


def _closed_pipe() -> int:
    """The reader of our output went away (``| head``): end quietly, as the shell expects."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    return 141


def _internal(error: Exception, arguments: argparse.Namespace) -> int:
    _traceback(arguments)
    say(f"internal error: {type(error).__name__}: {printable(str(error))}; {_REPORT_TO}")
    if not arguments.debug:
        say("(--debug shows where)")
    return 1


def _traceback(arguments: argparse.Namespace) -> None:
    if arguments.debug:
        import traceback

        say(traceback.format_exc().rstrip())
