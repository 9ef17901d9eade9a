"""kld: the Kullback-Leibler divergence of the output from the label."""

from __future__ import annotations

from nntrainer_py.losses.base import ElementLoss


class KullbackLeibler(ElementLoss):
    """``sum(t * ln(t / y))`` per sample, the mean over the samples.

    Output and label are probabilities (softmax before it). Outputs below 1e-20 count as that; the output is passed on.
    """

    keyword = "kld"

    def label_kind(self) -> str:
        return "distribution"

    def parameter(self) -> float | None:
        return 1e-20
