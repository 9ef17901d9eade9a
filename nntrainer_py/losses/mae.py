"""mae: the mean of the absolute differences."""

from __future__ import annotations

from nntrainer_py.losses.base import ElementLoss


class MeanAbsoluteError(ElementLoss):
    """``sum(|y - t|) / S`` over all S elements of the batch; the derivative at equality is zero."""

    keyword = "mae"
