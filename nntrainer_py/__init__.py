"""Train, fine-tune and personalise neural networks on the device that holds the data.

The public names are listed below and loaded on first use, so that importing the package is cheap::

    from nntrainer_py import Model

    model = Model.from_ini("model.ini").compile()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nntrainer_py.version import __version__

if TYPE_CHECKING:
    from nntrainer_py.errors import (
        DataError,
        DataWarning,
        DescriptionError,
        NNTrainerError,
        NumericalError,
        UsageError,
    )
    from nntrainer_py.estimators import NNClassifier, NNRegressor
    from nntrainer_py.layers.base import Layer
    from nntrainer_py.layers.context import FinalizeContext, RunContext
    from nntrainer_py.layers.functions import register_activation
    from nntrainer_py.model import Model
    from nntrainer_py.optimizers.base import Optimizer
    from nntrainer_py.optimizers.schedule import Schedule
    from nntrainer_py.registry import register_layer, register_loss, register_optimizer, register_scheduler
    from nntrainer_py.tensor.dim import TensorDim
    from nntrainer_py.tensor.tensor import Tensor
    from nntrainer_py.training.gradient_check import check_gradients

_WHERE = {
    "DataError": "errors",
    "DataWarning": "errors",
    "DescriptionError": "errors",
    "FinalizeContext": "layers.context",
    "Layer": "layers.base",
    "Model": "model",
    "NNClassifier": "estimators",
    "NNRegressor": "estimators",
    "NNTrainerError": "errors",
    "NumericalError": "errors",
    "Optimizer": "optimizers.base",
    "RunContext": "layers.context",
    "Schedule": "optimizers.schedule",
    "Tensor": "tensor.tensor",
    "TensorDim": "tensor.dim",
    "UsageError": "errors",
    "check_gradients": "training.gradient_check",
    "register_activation": "layers.functions",
    "register_layer": "registry",
    "register_loss": "registry",
    "register_optimizer": "registry",
    "register_scheduler": "registry",
}

__all__ = [
    "DataError",
    "DataWarning",
    "DescriptionError",
    "FinalizeContext",
    "Layer",
    "Model",
    "NNClassifier",
    "NNRegressor",
    "NNTrainerError",
    "NumericalError",
    "Optimizer",
    "RunContext",
    "Schedule",
    "Tensor",
    "TensorDim",
    "UsageError",
    "__version__",
    "check_gradients",
    "register_activation",
    "register_layer",
    "register_loss",
    "register_optimizer",
    "register_scheduler",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
