"""How much memory this process may have at most."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory() -> int | None:
    """Bytes of the machine, or of the container where that has fewer; None where the system does not say."""
    found: list[int] = []
    with suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # "max" where there is no limit
            found.append(int(path.read_text(encoding="ascii")))
    return min((size for size in found if size > 0), default=None)
