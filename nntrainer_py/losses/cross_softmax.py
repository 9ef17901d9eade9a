"""cross_softmax: softmax along the width and the cross entropy with the label."""

from __future__ import annotations

from typing import Any

from nntrainer_py.losses.base import CrossEntropy
from nntrainer_py.properties import number


class CrossSoftmax(CrossEntropy):
    """``-sum(t * ln(softmax(x)))`` per sample, the mean over the samples; passes the probabilities on.

    With class weights the target of class j is ``class_weights[j] * t[j]``, and the mean is still over the samples.
    With label smoothing s the label is ``(1 - s) * t + s / classes``.
    """

    keyword = "cross_softmax"

    label_smoothing = number(default=0.0, minimum=0.0, below=1.0, doc="Part of each label spread over all classes.")

    def attributes(self) -> dict[str, Any]:
        return {**super().attributes(), "smoothing": self.label_smoothing}
