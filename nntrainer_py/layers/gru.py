"""gru: gated recurrent units over a sequence."""

from __future__ import annotations

from nntrainer_py.layers.gated import GruMath
from nntrainer_py.layers.recurrent import Sequential


class Gru(GruMath, Sequential):
    """Gated recurrent units (Cho et al., 2014), the initial state zero.

    ``z, r = rec(x W + h' U + b)``, ``h = z h' + (1 - z) g``, with ``g = act(x W + b_ih + r (h' U + b_hh))``, or
    ``g = act(x W + b_ih + (r h') U + b_hh)`` with ``reset_after = false``. A single bias (``integrate_bias``) stands
    outside of the product with r.

    Shapes: ``(N, 1, T, F)`` to ``(N, 1, T, unit)``, or ``(N, 1, 1, unit)`` without ``return_sequences``; weight_ih
    ``F x 3 unit``, weight_hh ``unit x 3 unit``, then the biases, columns in the order z, r, g.
    """

    keyword = "gru"
