"""Whether the derivatives and gradients of layers are those of their own forward pass."""

from __future__ import annotations

from nntrainer_py.training.gradient_check.check import check_gradients
from nntrainer_py.training.gradient_check.report import Element, GradientReport, TensorCheck, Verdict

__all__ = ["Element", "GradientReport", "TensorCheck", "Verdict", "check_gradients"]
