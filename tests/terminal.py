"""A program on a terminal of its own (a pseudo-terminal), for tests of what a person sees."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Screen:
    """How it ended and everything that was sent to the terminal."""

    code: int
    text: str


def on_terminal(
    words: list[str], *, columns: int = 120, watch: Callable[[str, subprocess.Popen[bytes]], None] | None = None
) -> Screen:
    """Run a command with its streams on a terminal; ``watch`` sees what was shown so far, and may send signals."""
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm"}
    env.pop("COLUMNS", None)
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    ) as running:
        os.close(theirs)
        shown = b""
        limit = time.monotonic() + 120
        while time.monotonic() < limit:
            if not select.select([ours], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            shown += piece
            if watch is not None:
                watch(shown.decode("utf-8", "replace"), running)
        os.close(ours)
        code = running.wait(timeout=30)
    return Screen(code, shown.decode("utf-8", "replace"))
