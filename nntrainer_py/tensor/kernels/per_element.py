"""Kernels over flat float32 arrays from formulas of one element.

``out`` None means in place: the compiler then knows that it is the same memory, and still makes vector code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import Kernel, inlined, variant
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import CHUNK, share

Array = npt.NDArray[np.float32]


def function(formula: Callable[[Any], Any]) -> Kernel[[Array, Array | None, int], None]:
    """Decorator: the kernel ``(x, out, parts)`` that does ``out = formula(x)``."""
    of = inlined(formula)

    def body(part: int, parts: int, x: Array, out: Array | None) -> None:
        a, b = share(part, parts, x.size, CHUNK)
        source = x[a:b]
        result = source if out is None else out[a:b]
        for i in range(source.size):
            result[i] = of(source[i])

    one = variant(body, formula, f"{formula.__name__}_part")

    def whole(x: Array, out: Array | None, parts: int) -> None:
        fork_join(one, parts, (x, out))

    return variant(whole, formula, formula.__name__, forks=True)


def derivative(formula: Callable[[Any, Any], Any]) -> Kernel[[Array, Array, Array | None, int], None]:
    """Decorator: the kernel ``(known, g, out, parts)`` that does ``out = formula(known, g)``; None: in ``g``."""
    of = inlined(formula)

    def body(part: int, parts: int, known: Array, g: Array, out: Array | None) -> None:
        a, b = share(part, parts, g.size, CHUNK)
        source, incoming = known[a:b], g[a:b]
        result = incoming if out is None else out[a:b]
        for i in range(incoming.size):
            result[i] = of(source[i], incoming[i])

    one = variant(body, formula, f"{formula.__name__}_part")

    def whole(known: Array, g: Array, out: Array | None, parts: int) -> None:
        fork_join(one, parts, (known, g, out))

    return variant(whole, formula, formula.__name__, forks=True)
