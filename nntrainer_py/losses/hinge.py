"""hinge: the margin of support vector machines."""

from __future__ import annotations

from nntrainer_py.losses.base import ElementLoss


class Hinge(ElementLoss):
    """``max(0, 1 - t * y)``, the mean over all elements; labels are 1 and -1, and 0 counts as -1."""

    keyword = "hinge"
