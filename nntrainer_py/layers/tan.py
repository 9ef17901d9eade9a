"""tan: the tangent of every element."""

from __future__ import annotations

from nntrainer_py.layers.elementwise import UnaryLayer


class Tan(UnaryLayer):
    """``y = tan(x)``; derivative ``g (1 + y^2)``."""

    keyword = "tan"
    function = "tan"
