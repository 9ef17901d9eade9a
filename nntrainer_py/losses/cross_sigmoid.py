"""cross_sigmoid: the logistic function and the cross entropy of each element with its label."""

from __future__ import annotations

from typing import Any

from nntrainer_py.losses.base import CrossEntropy
from nntrainer_py.properties import number


class CrossSigmoid(CrossEntropy):
    """``max(x, 0) + ln(1 + exp(-|x|)) - t * x``, the mean over all elements; passes the probabilities on.

    Labels lie within 0 and 1. With label smoothing s the label is ``(1 - s) * t + s / 2``.
    """

    keyword = "cross_sigmoid"
    normalizer = ("activation", {"function": "sigmoid"})
    row_kind = "probability"

    label_smoothing = number(default=0.0, minimum=0.0, below=1.0, doc="Part of each label moved to one half.")

    def attributes(self) -> dict[str, Any]:
        return {**super().attributes(), "smoothing": self.label_smoothing}
