"""grucell: one step of gated recurrent units."""

from __future__ import annotations

from nntrainer_py.layers.gated import GruMath
from nntrainer_py.layers.recurrent import Cell


class GruCell(GruMath, Cell):
    """One step of `gru`; inputs x ``(N, 1, 1, F)`` and h' ``(N, 1, 1, unit)``, output h."""

    keyword = "grucell"
