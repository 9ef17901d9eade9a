"""gru: gated recurrent units over a sequence."""

from __future__ import annotations

from nntrainer_py.layers.gated import GruMath
from nntrainer_py.layers.recurrent import Sequential


class Gru(GruMath, Sequential):
    """Gated recurrent units (Cho et al., 2014), the initial state zero; see `GruMath` for the formulas.

    Shapes: ``(N, 1, T, F)`` to ``(N, 1, T, unit)``, or ``(N, 1, 1, unit)`` without ``return_sequences``; weight_ih
    ``F x 3 unit``, weight_hh ``unit x 3 unit``, then the biases, columns in the order z, r, g.
    """

    keyword = "gru"
