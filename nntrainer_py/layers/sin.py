"""sin: the sine of every element."""

from __future__ import annotations

from nntrainer_py.layers.elementwise import UnaryLayer


class Sin(UnaryLayer):
    """``y = sin(x)``; derivative ``g cos(x)``."""

    keyword = "sin"
    function = "sin"
