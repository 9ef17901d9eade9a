"""What a Python caller should know although it is no error: through the `warnings` module, at the caller's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from nntrainer_py.errors import DataWarning

_PACKAGE = __name__.partition(".")[0]


def warn(notices: Iterable[str], told: set[str]) -> None:
    """Give each notice that is not among ``told`` as a `DataWarning`, and add it there."""
    for text in notices:
        if text not in told:
            told.add(text)
            warnings.warn(text.removeprefix("warning: "), DataWarning, stacklevel=_depth_of_caller())


def _depth_of_caller() -> int:
    """The ``stacklevel`` for `warn` with which a warning points at the line outside of this package."""
    depth = 1
    frame = sys._getframe(1)  # that of `warn`
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
        depth += 1
    return depth
