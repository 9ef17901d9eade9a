"""huber: squared for small differences, absolute for large ones."""

from __future__ import annotations

from nntrainer_py.losses.base import ElementLoss
from nntrainer_py.properties import number


class Huber(ElementLoss):
    """The mean over all elements of ``d**2 / 2`` for ``|d| <= delta``, else ``delta * (|d| - delta / 2)``."""

    keyword = "huber"

    delta = number(default=1.0, above=0.0, doc="Difference from which the loss grows linearly.")

    def parameter(self) -> float | None:
        return self.delta
