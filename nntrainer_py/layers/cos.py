"""cos: the cosine of every element."""

from __future__ import annotations

from nntrainer_py.layers.elementwise import UnaryLayer


class Cos(UnaryLayer):
    """``y = cos(x)``; derivative ``-g sin(x)``."""

    keyword = "cos"
    function = "cos"
