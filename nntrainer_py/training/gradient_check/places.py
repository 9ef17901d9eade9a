"""Where the method that made a number is written."""

from __future__ import annotations

import inspect
import os
from typing import Any

from nntrainer_py.errors import printable
from nntrainer_py.layers.base import BuiltinLayer, Layer
from nntrainer_py.tensor.operations.user_functions import USER_FUNCTIONS


def innermost(layer: Layer) -> Layer:
    """The layer itself, or of one that is applied to every step that which is applied."""
    inner = getattr(layer, "inner", None)
    return inner if isinstance(inner, Layer) else layer


def writes(layer: Layer, method: str) -> bool:
    """Whether the class of a layer has the method, instead of that of the base class."""
    own = getattr(type(innermost(layer)), method)
    return own not in (getattr(Layer, method), getattr(BuiltinLayer, method))


def place_of(layer: Layer, method: str) -> str:
    """``file.py:12 in Scale.calc_derivative``; of a user's activation, its slopes; empty where nobody knows."""
    layer = innermost(layer)
    if layer.keyword == "activation" and layer.activation in USER_FUNCTIONS and method == "calc_derivative":
        return _described(USER_FUNCTIONS[layer.activation][1], f"the derivative of {layer.activation}")
    if not writes(layer, method):
        return _described(type(layer), f"{type(layer).__name__}, which has no {method}")
    return _described(getattr(type(layer), method), f"{type(layer).__name__}.{method}")


def _described(written: Any, name: str) -> str:
    try:
        made = inspect.unwrap(written)
        file = inspect.getsourcefile(made)
        code = getattr(made, "__code__", None)
        line = code.co_firstlineno if code is not None else inspect.getsourcelines(made)[1]
    except (TypeError, OSError):
        return f"in {name}"  # compiled, or typed at a prompt
    if file is None:
        return f"in {name}"
    short = os.path.relpath(file)
    return f"{printable(file if short.startswith('..') else short)}:{line} in {name}"
