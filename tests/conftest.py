"""What every test gets: the count of tests skipped for want of shared files, and the guard that refuses sockets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from offline import refuse
from shared import SKIP_REASON

_GUARD_FOLDER = Path(__file__).resolve().parent / "offline_guard"


class _Guard:
    """An audit hook cannot be taken away again, so it is installed once and switched on and off."""

    def __init__(self) -> None:
        self.installed = False
        self.active = False

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if self.active:
            refuse(event, args)


_guard = _Guard()


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse every socket that leaves the process, in this process and in the Python processes that the test starts."""
    if not _guard.installed:
        sys.addaudithook(_guard)
        _guard.installed = True
    inherited = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(_GUARD_FOLDER), *([inherited] if inherited else [])]))
    _guard.active = True
    yield
    _guard.active = False


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped because the shared files are not there: a silent skip reads like a pass."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    count = sum(SKIP_REASON in reason or "got empty parameter set" in reason for reason in reasons)
    if count:
        terminalreporter.write_line(f"{count} skipped: {SKIP_REASON}")
