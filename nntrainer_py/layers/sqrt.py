"""sqrt: the square root of every element."""

from __future__ import annotations

from nntrainer_py.layers.elementwise import UnaryLayer


class Sqrt(UnaryLayer):
    """``y = sqrt(x)``; derivative ``g / (2 y)``."""

    keyword = "sqrt"
    function = "sqrt"
