"""An independent check of plans: a canvas of cache lines by moments, on which no cell may be painted twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nntrainer_py.memory.planner import Placement, Request


def painted_twice(requests: Sequence[Request], placement: Placement, unit: int) -> int:
    """How many cells (``unit`` bytes at one moment) belong to more than one buffer."""
    if not requests:
        return 0
    moments = 1 + max(request.last for request in requests)
    canvas = np.zeros((moments, -(-placement.arena // unit)), np.int32)
    for request, offset in zip(requests, placement.offsets, strict=True):
        canvas[request.first : request.last + 1, offset // unit : -(-(offset + request.size) // unit)] += 1
    return int(np.maximum(canvas - 1, 0).sum())


def fullest_moment(requests: Sequence[Request], unit: int) -> int:
    """Largest sum of rounded sizes alive at one moment, counted moment by moment."""
    moments = 1 + max((request.last for request in requests), default=-1)
    return max(
        (
            sum(-(-request.size // unit) * unit for request in requests if request.first <= moment <= request.last)
            for moment in range(moments)
        ),
        default=0,
    )
