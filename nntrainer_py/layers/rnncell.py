"""rnncell: one step of a plain recurrent layer."""

from __future__ import annotations

from nntrainer_py.layers.recurrent import Cell


class RnnCell(Cell):
    """``h = act(x W_ih + b_ih + h' W_hh + b_hh)``; inputs x ``(N, 1, 1, F)`` and h' ``(N, 1, 1, unit)``, output h."""

    keyword = "rnncell"
    operation = "rnn"
