"""focal: cross entropy in which samples that are right already count less."""

from __future__ import annotations

from typing import Any

from nntrainer_py.losses.base import CrossEntropy
from nntrainer_py.properties import number


class Focal(CrossEntropy):
    """``-sum(t * (1 - p)**gamma * ln p)`` of ``p = softmax(x)``, the mean over the samples; passes ``p`` on.

    Lin et al., Focal Loss for Dense Object Detection (2017), for classes along the width.
    """

    keyword = "focal"

    gamma = number(default=2.0, minimum=0.0, doc="How much less right samples count; 0 is cross_softmax.")

    def attributes(self) -> dict[str, Any]:
        return {**super().attributes(), "gamma": self.gamma}
