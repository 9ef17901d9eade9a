"""What every measured process does: build, step once, then time steps whenever the driver asks. Standard library only.

Requests and answers are JSON lines on standard input and output. A worker hands ``serve`` a function that does one
step (and gives its loss, where it trains); everything else is the same for all of them, so that no peer is timed
differently.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def peak_mb() -> float:
    """Largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(**values: Any) -> None:
    """One line to the driver."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def timed(step: Callable[[], Any], seconds: float, least: int) -> dict[str, float]:
    """Median and smallest milliseconds of steps done for so long, and at least so many."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        found.append((time.perf_counter() - start) * 1e3)
    return {"median": statistics.median(found), "least": min(found), "steps": len(found)}


def serve(step: Callable[[], Any], *, born: float, losses: int = 0, **facts: Any) -> None:
    """The first step, then requests until the driver says quit.

    Args:
        step: one step; in training it gives the loss before the update.
        born: when the driver started this process, seconds since the epoch.
        losses: how many losses to report, of the first steps.
        facts: further things to tell the driver.
    """
    first = step()
    started = time.time() - born
    series = [float(first)] if losses else []
    series += [float(step()) for _ in range(losses - 1)]
    answer(first_step_s=started, losses=series, **facts)
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "quit":
            answer(peak_mb=peak_mb())
            return
        answer(**timed(step, request["seconds"], request["least"]))
