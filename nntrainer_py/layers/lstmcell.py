"""lstmcell: one step of a long short-term memory."""

from __future__ import annotations

from nntrainer_py.layers.gated import LstmMath
from nntrainer_py.layers.recurrent import Cell


class LstmCell(LstmMath, Cell):
    """One step of `lstm`; inputs x ``(N, 1, 1, F)``, h' and c' ``(N, 1, 1, unit)``, outputs h and c."""

    keyword = "lstmcell"
    states = ("hidden0", "cell0")
