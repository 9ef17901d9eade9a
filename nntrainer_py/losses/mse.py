"""mse: the mean of the squared differences."""

from __future__ import annotations

from nntrainer_py.losses.base import ElementLoss


class MeanSquaredError(ElementLoss):
    """``sum((y - t)**2) / S`` over all S elements of the batch."""

    keyword = "mse"
