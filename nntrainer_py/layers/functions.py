"""The words of the ``activation`` key, and how a user's plugin adds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import UsageError, quoted
from nntrainer_py.properties.kinds import EnumKind, Warn, warn_python
from nntrainer_py.tensor.operations.user_functions import USER_FUNCTIONS

#: README and source spellings; the second is the canonical word
ACTIVATION_ALIASES = {"quick_gelu": "sigmoid_gelu"}
ACTIVATIONS = (
    "tanh", "sigmoid", "relu", "swish", "gelu", "tanh_gelu", "sigmoid_gelu", "softmax", "softplus", "leaky_relu",
    "elu", "selu", "mish", "none",
)  # fmt: skip

Function = Callable[[NDArray[np.float32]], Any]


class ActivationKind(EnumKind):
    """A built-in function or one that a plugin registered, compared without case."""

    def __init__(self) -> None:
        super().__init__(ACTIVATIONS, ACTIVATION_ALIASES)

    def parse(self, text: str, warn: Warn = warn_python) -> str:
        word = text.strip().lower()
        return word if word in USER_FUNCTIONS else super().parse(text, warn)


def register_activation(name: str, forward: Function, derivative: Function) -> None:
    """Add an element-wise function under a word for the ``activation`` key.

    ``forward(x)`` gives the function's values and ``derivative(x)`` its slopes, both from an array that is read-only,
    as an array of the same shape. Raises UsageError for a word that exists, and for functions that cannot be right.
    """
    word = name.strip().lower()
    if not word or not word.isprintable() or any(c.isspace() or c in ",;#=|" for c in word):
        raise UsageError(f"an activation needs a word without blanks, got {quoted(name)}")
    if word in ACTIVATIONS or word in ACTIVATION_ALIASES:
        raise UsageError(f"the activation {quoted(word)} exists already; choose another word")
    for what, function in (("forward", forward), ("derivative", derivative)):
        _try(word, what, function)
    USER_FUNCTIONS[word] = (forward, derivative)


def _try(word: str, what: str, function: Function) -> None:
    """Call the function once, so that a slip shows where it is registered and not in the middle of a run."""
    x = np.array([[-1.0, 0.5, 2.0]], np.float32)
    x.flags.writeable = False
    made = np.asarray(function(x))
    if made.shape != x.shape:
        raise UsageError(f"activation {quoted(word)}: {what} makes {made.shape} of an array of {x.shape}")
