"""rnn: a plain recurrent layer."""

from __future__ import annotations

from nntrainer_py.layers.recurrent import Sequential


class Rnn(Sequential):
    """``h = act(x W_ih + b_ih + h' W_hh + b_hh)`` over a sequence, the initial state zero.

    Shapes: ``(N, 1, T, F)`` to ``(N, 1, T, unit)``, or ``(N, 1, 1, unit)`` without ``return_sequences``; weight_ih
    ``F x unit``, weight_hh ``unit x unit``, then the biases. Dropout acts on the stored state, which the next step
    sees.
    """

    keyword = "rnn"
    operation = "rnn"
