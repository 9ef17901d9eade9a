"""Random networks as training graphs: loaded as ONNX Runtime loads by default, and stepped beside the float64 twins.

Our own step is held to the same twins in test_random_graphs.py. The ordinary run tries a few dozen; the long search,
which takes ``NNTRAINER_FUZZ_SECONDS`` (default 600):

    NNTRAINER_FUZZ_SECONDS=600 python -m pytest tests/formats/onnx/test_random_networks.py -m fuzz -s
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np
import pytest
from onnx_runs import NEEDS_ONNX, Session
from random_graphs import BATCH, described, random_net
from reference import Interpreter
from test_random_graphs import Rounding, data

from nntrainer_py.formats.onnx import training_graph
from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.model import Model
from nntrainer_py.tensor.operations.record import Phase, StepState, Value

FUZZ_SECONDS = float(os.environ.get("NNTRAINER_FUZZ_SECONDS", "600"))
FIRST_SEED = int(os.environ.get("NNTRAINER_FUZZ_SEED", "1000"))
RATE = 0.001
#: networks whose graphs ONNX Runtime once refused: a frozen normalization took zeros from what it was given
REFUSED = (5142, 5154, 7065)

Arrays = dict[str, np.ndarray[Any, Any]]


def trains_alike(seed: int) -> None:
    """Two steps, each from what the one before left; each with gradients as outputs, and fused as our own is.

    The new weights are those that the twin of the optimizer makes of the gradients that ONNX Runtime found: where a
    gradient is zero but for rounding, Adam may go either way.

    One network in some hundreds has a gradient that is a small difference of large numbers, or an element at the kink
    of a relu: such a finding of the long search is to be looked at, not a fault at once. A refused graph is a fault.
    """
    net = random_net(seed)
    model = Model(described(net.text)).compile(BATCH, threads=1)
    compiled, rng = model.compiled, np.random.default_rng(seed)
    lowered = lower(
        compiled.graph("train").nodes, batch=BATCH, training=True, optimizer=compiled.optimizer,
        seed=compiled.options.seed, convolution=compiled.options.convolution, keep_gradients=True, metrics=True,
    )  # fmt: skip
    graph = training_graph(model)
    session, fused = Session(training_graph(model, gradients=True)), Session(graph)
    updates = json.loads({entry.key: entry.value for entry in graph.metadata_props}["nntrainer_py.updates"])
    held: Arrays = {}
    for step in range(2):
        start = {**compiled.weights(lowered), **compiled.optimizer_state(lowered), **held}
        inputs, labels = data(model, net.indices, BATCH, step)
        given = dict(zip((v.name for v in (*lowered.inputs, *lowered.labels)), (*inputs, *labels), strict=True))
        taken = {"learning_rate": np.array([RATE]), **held}
        results, plain = (
            one.run({**given, **{name: taken[name] for name in taken if name in one.optional}})
            for one in (session, fused)
        )
        exact = _float64(lowered, start, given, results, step, Interpreter(), None)
        nudged = [_float64(lowered, start, given, results, step, Interpreter(), rng) for _ in range(3)]
        nudged += [_float64(lowered, start, given, results, step, Rounding(k), None) for k in range(2)]
        assert np.isfinite(results["loss"]).all() == np.isfinite(exact["loss"]).all()
        if not np.isfinite(exact["loss"]).all():
            return  # too steep a network: both know
        wanted = {value.name for value in lowered.gradients.values()}
        assert {name for name in results if name.endswith(":grad")} == wanted
        assert not any(results.pop(name).any() for name in wanted - set(exact))  # of weights that no loss depends on
        _agree(results, exact, nudged, start)
        _agree(plain, _changes({name: results[name] for name in plain if name in exact}, start), nudged, start)
        held = {name: plain[made] for name, made in updates.items()}
        for counter in {"iteration", "step"} & set(held):
            assert held[counter] == step + 1


def _float64(
    lowered: Lowered, start: Arrays, given: Arrays, results: Arrays, step: int, machine: Interpreter,
    rng: np.random.Generator | None,
) -> Arrays:  # fmt: skip
    """A step of the twins: loss, predictions, gradients, and how what lasts has changed.

    With ``rng`` from a start a little beside. The updates are those of the gradients among ``results``.
    """
    state = machine.state
    state.numbers[StepState.LEARNING_RATE], state.numbers[StepState.SAMPLES] = RATE, BATCH
    state.counters[StepState.ITERATION] = state.counters[StepState.STEP] = step
    lasting = [*(w.value for w in lowered.weights if w.value is not None), *lowered.optimizer_state]
    before = {value: _nudged(start[value.name], rng) for value in lasting}
    for value, array in before.items():
        machine[value] = array
    for value in (*lowered.inputs, *lowered.labels):
        array = given[value.name]
        whole = value in lowered.labels or np.array_equal(array, np.round(array))
        machine[value] = array if whole else _nudged(array, rng)
    made = {value.root for operation in lowered.operations for value in operation.writes.values()}
    gradients = [value for value in lowered.gradients.values() if value in made]
    with np.errstate(all="ignore"):
        machine.run([operation for operation in lowered.operations if operation.phase is not Phase.UPDATE])
        own = {value.name: machine[value].copy() for value in gradients}
        for value in gradients:
            machine[value] = results[value.name]
        machine.run([operation for operation in lowered.operations if operation.phase is Phase.UPDATE])
    own["loss"] = np.array([sum(machine[value].item() for value in lowered.losses)])
    own |= {_prediction(lowered, value): machine[value].copy() for value in lowered.predictions}
    return own | {f"{value.name}/next": machine[value] - before[value] for value in lasting if value in made}


def _nudged(array: np.ndarray[Any, Any], rng: np.random.Generator | None) -> np.ndarray[Any, Any]:
    wide = array.astype(np.float64)
    return wide if rng is None else wide + 1e-6 * np.abs(wide) * rng.standard_normal(wide.shape)


def _prediction(lowered: Lowered, value: Value) -> str:
    return "prediction" if len(lowered.predictions) == 1 else f"prediction{lowered.predictions.index(value)}"


def _changes(results: Arrays, start: Arrays) -> Arrays:
    """Of what lasts the change, which float32 holds as exactly as the sum."""
    wide = {key: array.astype(np.float64) for key, array in results.items()}
    return {key: array - start[key[:-5]] if key.endswith("/next") else array for key, array in wide.items()}


def _agree(results: Arrays, exact: Arrays, nudged: list[Arrays], start: Arrays) -> None:
    """Within 1e-4 of the largest, or what a change of all numbers in their last bits does: as in test_random_graphs."""
    groups = {"/next": 0.0, ":grad": 0.0, "": 0.0}
    ending = {key: next(end for end in groups if key.endswith(end)) for key in exact}
    for key, array in exact.items():
        groups[ending[key]] = max(groups[ending[key]], np.abs(array).max(initial=0.0))
    changes = _changes({key: results[key] for key in exact}, start)
    for key, expected in exact.items():
        if not np.isfinite(expected).all():  # the twin of the focal loss overflows where a probability is 1e-318
            continue
        lasts = ending[key] == "/next"
        held = 2.0**-22 * max(np.abs(a).max(initial=0.0) for a in (start[key[:-5]], results[key])) if lasts else 0.0
        largest = np.abs(expected).max(initial=0.0)
        moved = max(float(np.abs(other[key] - expected).max(initial=0.0)) for other in nudged)
        error = np.abs(changes[key] - expected).max(initial=0.0)
        beside = 1e-5 if moved > 0.01 * largest else 1e-6
        vanishing = 0.0 if lasts else 1e-5 if largest < 1e-12 else 1e-6
        allowed = max(1e-4 * largest, 30.0 * moved, beside * groups[ending[key]], vanishing, held)
        assert error <= allowed, f"{key}: off by {error:.3g}, largest {largest:.3g}, allowed {allowed:.3g}"


@NEEDS_ONNX
@pytest.mark.parametrize("seed", [*REFUSED, *range(200, 230)])
def test_random_network_trains_in_onnx_runtime(seed: int) -> None:
    trains_alike(seed)


@NEEDS_ONNX
@pytest.mark.fuzz
def test_long_search_among_graphs_of_random_networks() -> None:
    """Failures are gathered, so that one does not hide the others."""
    end, seed, failures = time.monotonic() + FUZZ_SECONDS, FIRST_SEED, []
    while time.monotonic() < end:
        try:
            trains_alike(seed)
        except Exception as error:  # each of them is a finding
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}")
            print(failures[-1], flush=True)
        seed += 1
    print(f"{seed - FIRST_SEED} networks", flush=True)
    assert not failures, "\n".join(failures)
