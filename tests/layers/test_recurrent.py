"""rnn, lstm, gru and their cells through the harness, and against ONNX Runtime as a second oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.gru import Gru
from nntrainer_py.layers.grucell import GruCell
from nntrainer_py.layers.lstm import Lstm
from nntrainer_py.layers.lstmcell import LstmCell
from nntrainer_py.layers.rnn import Rnn
from nntrainer_py.layers.rnncell import RnnCell
from nntrainer_py.layers.zoneout_lstmcell import ZoneoutLstmCell

X = [(3, 1, 4, 7)]


def moderate(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Weights that neither blow up nor kill differences over many steps, as those of a trained layer."""
    return rng.standard_normal(shape) / np.sqrt(max(shape[2], 16))


#: too large for central differences
LARGE: dict[str, Any] = {"numeric": False, "weights": moderate}
SMOOTH = ("elu", "softplus", "sigmoid", "none")

CASES = [
    Case(lambda: Rnn(unit=5), X, "rnn"),
    Case(lambda: Rnn(unit=5, return_sequences=True), X, "rnn, sequences"),
    Case(lambda: Rnn(unit=5, integrate_bias=True), [(1, 1, 3, 2)], "rnn, one bias, batch 1"),
    Case(lambda: Rnn(unit=1, disable_bias=True, return_sequences=True), [(2, 1, 5, 1)], "rnn, no bias, one unit"),
    Case(lambda: Rnn(unit=6), [(3, 1, 1, 4)], "rnn, one step"),
    Case(lambda: Rnn(unit=6, dropout_rate=0.4, return_sequences=True), X, "rnn, dropout"),
    Case(lambda: Rnn(unit=6, dropout_rate=0.4), X, "rnn, dropout, last"),
    Case(lambda: Rnn(unit=3, dropout_rate=1.0, return_sequences=True), X, "rnn, all dropped"),
    *(Case(lambda f=f: Rnn(unit=4, hidden_state_activation=f), X, f"rnn, {f}") for f in SMOOTH),
    Case(lambda: Lstm(unit=5), X, "lstm"),
    Case(lambda: Lstm(unit=5, return_sequences=True), X, "lstm, sequences"),
    Case(lambda: Lstm(unit=5, integrate_bias=True, return_sequences=True), [(1, 1, 3, 2)], "lstm, one bias, batch 1"),
    Case(lambda: Lstm(unit=1, disable_bias=True), [(2, 1, 5, 1)], "lstm, no bias, one unit"),
    Case(lambda: Lstm(unit=6), [(3, 1, 1, 4)], "lstm, one step"),
    Case(lambda: Lstm(unit=6, dropout_rate=0.4, return_sequences=True), X, "lstm, dropout"),
    Case(lambda: Lstm(unit=7, dropout_rate=0.4), X, "lstm, dropout, last, odd"),
    Case(
        lambda: Lstm(unit=4, hidden_state_activation="sigmoid", recurrent_activation="tanh", return_sequences=True), X,
        "lstm, activations",
    ),
    Case(
        lambda: Lstm(unit=4, hidden_state_activation="softplus", recurrent_activation="elu"), X, "lstm, softplus, elu",
    ),
    Case(lambda: Lstm(unit=3, bidirectional=True), X, "lstm, both ways"),
    Case(lambda: Lstm(unit=3, bidirectional=True, return_sequences=True), X, "lstm, both ways, sequences"),
    Case(lambda: Lstm(unit=3, bidirectional=True, reverse_output="last_step"), X, "lstm, both ways, last step"),
    Case(
        lambda: Lstm(unit=3, bidirectional=True, dropout_rate=0.3, return_sequences=True, integrate_bias=True), X,
        "lstm, both ways, dropout",
    ),
    Case(lambda: Lstm(unit=3, max_timestep=6, return_sequences=True), X, "lstm, longer"),
    Case(lambda: Lstm(unit=3, max_timestep=2, bidirectional=True), X, "lstm, max_timestep below"),
    Case(lambda: Gru(unit=5), X, "gru"),
    Case(lambda: Gru(unit=5, return_sequences=True), X, "gru, sequences"),
    Case(lambda: Gru(unit=5, reset_after=False), X, "gru, reset before"),
    Case(lambda: Gru(unit=5, reset_after=False, return_sequences=True), X, "gru, reset before, sequences"),
    Case(lambda: Gru(unit=5, integrate_bias=True), [(1, 1, 3, 2)], "gru, one bias, batch 1"),
    Case(lambda: Gru(unit=4, integrate_bias=True, reset_after=False), X, "gru, one bias, reset before"),
    Case(lambda: Gru(unit=1, disable_bias=True, return_sequences=True), [(2, 1, 5, 1)], "gru, no bias, one unit"),
    Case(lambda: Gru(unit=2, disable_bias=True, reset_after=False), [(2, 1, 5, 1)], "gru, no bias, reset before"),
    Case(lambda: Gru(unit=6), [(3, 1, 1, 4)], "gru, one step"),
    Case(lambda: Gru(unit=6, reset_after=False), [(3, 1, 1, 4)], "gru, one step, reset before"),
    Case(lambda: Gru(unit=6, dropout_rate=0.4, return_sequences=True), X, "gru, dropout"),
    Case(lambda: Gru(unit=7, dropout_rate=0.4, reset_after=False), X, "gru, dropout, reset before, last, odd"),
    Case(
        lambda: Gru(unit=4, hidden_state_activation="sigmoid", recurrent_activation="tanh", return_sequences=True), X,
        "gru, activations",
    ),
    Case(lambda: RnnCell(unit=5), [(3, 1, 1, 7), (3, 1, 1, 5)], "rnncell"),
    Case(
        lambda: RnnCell(unit=5, integrate_bias=True, dropout_rate=0.4), [(3, 1, 1, 7), (3, 1, 1, 5)], "rnncell, dropout"
    ),
    Case(lambda: LstmCell(unit=5), [(3, 1, 1, 7), (3, 1, 1, 5), (3, 1, 1, 5)], "lstmcell", outputs=2),
    Case(
        lambda: LstmCell(unit=2, integrate_bias=True, dropout_rate=0.4), [(1, 1, 1, 3), (1, 1, 1, 2), (1, 1, 1, 2)],
        "lstmcell, dropout, batch 1", outputs=2,
    ),
    Case(lambda: GruCell(unit=5), [(3, 1, 1, 7), (3, 1, 1, 5)], "grucell"),
    Case(lambda: GruCell(unit=5, reset_after=False), [(3, 1, 1, 7), (3, 1, 1, 5)], "grucell, reset before"),
    Case(
        lambda: GruCell(unit=5, integrate_bias=True, dropout_rate=0.4), [(1, 1, 1, 7), (1, 1, 1, 5)],
        "grucell, one bias, dropout",
    ),
    Case(
        lambda: ZoneoutLstmCell(unit=5, hidden_state_zoneout_rate=0.5, cell_state_zoneout_rate=0.4),
        [(3, 1, 1, 7), (3, 1, 1, 5), (3, 1, 1, 5)], "zoneout_lstmcell", outputs=2,
    ),
    Case(
        lambda: ZoneoutLstmCell(unit=3, cell_state_zoneout_rate=1.0, integrate_bias=True),
        [(1, 1, 1, 2), (1, 1, 1, 3), (1, 1, 1, 3)], "zoneout_lstmcell, cell alone, batch 1", outputs=2,
    ),
    Case(
        lambda: ZoneoutLstmCell(unit=2, test=True, max_timestep=3, timestep=1),
        [(2, 1, 1, 3), (2, 1, 1, 2), (2, 1, 1, 2)], "zoneout_lstmcell, given masks", outputs=2,
    ),
    Case(lambda: RnnCell(unit=5), [(3, 1, 1, 7)], "rnncell, first step"),
    Case(lambda: LstmCell(unit=5), [(3, 1, 1, 7)], "lstmcell, first step", outputs=2),
    Case(lambda: GruCell(unit=5), [(3, 1, 1, 7)], "grucell, first step"),
    Case(lambda: GruCell(unit=5, reset_after=False), [(3, 1, 1, 7)], "grucell, first step, reset before"),
    Case(
        lambda: ZoneoutLstmCell(unit=3, cell_state_zoneout_rate=0.5), [(2, 1, 1, 2)], "zoneout_lstmcell, first step",
        outputs=2,
    ),
    # wide enough for whole and partial panels, several blocks of the inner sums, and threads
    Case(lambda: Lstm(unit=70, return_sequences=True), [(21, 1, 17, 33)], "lstm, large", **LARGE),
    Case(lambda: Gru(unit=75, return_sequences=True), [(21, 1, 17, 33)], "gru, large", **LARGE),
    Case(lambda: Gru(unit=75, reset_after=False), [(21, 1, 17, 33)], "gru, reset before, large", **LARGE),
    Case(lambda: Rnn(unit=140, return_sequences=True), [(21, 1, 17, 33)], "rnn, large", **LARGE),
    Case(lambda: Lstm(unit=130, dropout_rate=0.3), [(9, 1, 4, 300)], "lstm, wide", **LARGE),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)
