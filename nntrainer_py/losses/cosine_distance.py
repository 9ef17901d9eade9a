"""cosine_distance: the angle between output and label."""

from __future__ import annotations

from nntrainer_py.losses.base import ElementLoss


class CosineDistance(ElementLoss):
    """``1 - y.t / (|y| |t|)`` along the width, the mean over all rows; lengths below 1e-8 count as that."""

    keyword = "cosine_distance"

    def parameter(self) -> float | None:
        return 1e-8
