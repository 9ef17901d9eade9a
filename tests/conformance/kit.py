"""Runs the published cases of the shared folder: layer cases and model cases (see its README)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from harness import Projection
from shared import shared_folder

from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.graph.order import Graph, arrange
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.input import Input
from nntrainer_py.memory.plan import plan
from nntrainer_py.model import Model
from nntrainer_py.registry import LAYERS, LOSSES, lookup
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Phase, StepState, Value
from nntrainer_py.training.engine import Engine, Program, persistent, transient

Array = np.ndarray[Any, Any]
Case = dict[str, Any]


def cases(kind: str) -> list[Case]:
    """All cases of a kind; none where the shared folder is not named."""
    folder = shared_folder()
    if folder is None:
        return []
    found = json.loads((folder / "conformance" / "cases.json").read_text())
    return [case for case in found if case["kind"] == kind]


def arrays_of(case: Case) -> dict[str, Array]:
    folder = shared_folder()
    assert folder is not None
    with np.load(folder / "conformance" / case["data"]) as data:
        return {name: data[name].astype(np.float64) for name in data.files}


def ini_of(case: Case) -> Path:
    folder = shared_folder()
    assert folder is not None
    path: Path = folder / "conformance" / case["ini"]
    return path


def supported(case: Case) -> bool:
    """Every layer type of the case is in the registry."""
    words = case.get("layer_types") or [case.get("layer_type")]
    return all(word in LAYERS or word in LOSSES for word in words)


def compare(name: str, actual: Array, expected: Array, case: Case) -> None:
    """|actual - expected| <= atol + rtol * |expected|; where NaN is expected nothing is compared."""
    tolerance = case["tolerance"]
    actual = np.asarray(actual, np.float64).reshape(expected.shape)
    known = ~np.isnan(expected)
    with np.errstate(invalid="ignore"):
        excess = np.abs(actual - expected) - (tolerance["atol"] + tolerance["rtol"] * np.abs(expected))
        infinite = np.isinf(expected) & (actual == expected)
    wrong = known & ~infinite & ~(excess <= 0)
    assert not wrong.any(), (
        f"{name}: {wrong.sum()} of {wrong.size} values off, worst "
        f"{np.nanmax(np.abs(actual - expected)):.3g}, largest expected {np.nanmax(np.abs(expected)):.3g}"
    )


class Kept:
    """A lowering run with everything kept that a case may ask for."""

    def __init__(self, lowered: Lowered, keep: list[Value]) -> None:
        self.lowered = lowered
        self.loss_places: list[int] = list(range(len(lowered.losses)))  # of the case's losses among the plan's
        self.engine = Engine()
        external, pinned = transient(lowered)
        end = len(lowered.operations)
        pinned |= dict.fromkeys(keep, end)
        made = plan(lowered.operations, external=external, pinned=pinned)
        self.engine.store.ensure(persistent(lowered))
        self.program: Program = self.engine.program(lowered, made)
        self.engine.arena.fill_nan()
        self.engine.state.numbers[StepState.SAMPLES] = lowered.batch

    def change_state(self) -> None:
        """Running statistics and the like, which NNTrainer changes in forward and we at the beginning of backward."""
        for operation, (function, arguments) in zip(self.program.plan.operations, self.program.calls, strict=True):
            if operation.phase is Phase.STATE:
                function(*arguments)

    def __getitem__(self, value: Value) -> Array:
        return self.program.array(value)

    def __setitem__(self, value: Value, array: Array) -> None:
        target = self.program.array(value)
        target[...] = array.reshape(target.shape)


def kept_values(lowered: Lowered) -> list[Value]:
    keep = [value for values in lowered.node_outputs.values() for value in values]
    keep += list(lowered.gradients.values())
    keep += [value for values in lowered.derivatives.values() for value in values if value is not None]
    written = {value.root for operation in lowered.operations for value in operation.writes.values()}
    keep += lowered.predictions
    external = {value.root for value in lowered.inputs}
    return [value for value in keep if value.root in written or value.root in external]


def run_layer(case: Case) -> None:
    """One layer case."""
    arrays = arrays_of(case)
    nhwc = case["format"] == "nhwc"
    training = case["mode"] == "train" and not case["options"]["inference_mode"]
    layer = _layer(case)
    shapes = [_shape(shape, nhwc) for shape in case["inputs"]]
    nodes = [Node(f"in{i}", Input(), [], [TensorDim(*shape)]) for i, shape in enumerate(shapes)]
    nodes.append(Node("layer", layer, [(i, 0) for i in range(len(shapes))], outputs=len(case["outputs"])))
    if training:
        nodes += [Node(f"loss{k}", Projection(), [(len(shapes), k)]) for k in range(len(case["outputs"]))]
    lowered = lower(
        nodes, batch=shapes[0][0], training=training, labels=training, convolution="auto",
        input_derivatives=training and layer.supports_derivative, keep_gradients=True,
    )  # fmt: skip
    run = Kept(lowered, kept_values(lowered))
    weights = [weight for row in lowered.table if row.name == "layer" for weight in row.weights]
    for i, weight in enumerate(weights):
        assert weight.value is not None
        assert weight.dim.shape == tuple(case["weights"][i]["shape"]), weight.name
        run[weight.value] = arrays[f"weight_{i}"]
    for i, value in enumerate(lowered.inputs):
        run[value] = _axes(arrays[f"input_{i}"], nhwc)
    given = case["incoming_derivative"]
    for k, value in enumerate(lowered.labels):
        run[value] = np.full(value.shape, given) if isinstance(given, float) else arrays[f"incoming_{k}"]
    inputs = [run[value].copy() for value in lowered.inputs]
    for repeat in range(case["forward_repeats"]):
        if repeat:
            run.change_state()
        for value, array in zip(lowered.inputs, inputs, strict=True):
            run[value] = array
        run.engine.forward(run.program)
    if training:
        run.engine.backward(run.program)
    _compare_layer(case, arrays, run, weights, nhwc, training)


def _layer(case: Case) -> Layer:
    properties = dict(text.split("=", 1) for text in case["property_strings"])
    layer: Layer = lookup(case["layer_type"], LAYERS, LOSSES)(**properties)
    return layer


def _shape(shape: list[int], nhwc: bool) -> tuple[int, ...]:
    return (shape[0], shape[2], shape[3], shape[1]) if nhwc else tuple(shape)


def _axes(array: Array, nhwc: bool, back: bool = False) -> Array:
    """Channels last as the last axis, where a layer works on it; ``back`` the other way."""
    if not nhwc:
        return array
    return array.transpose(0, 3, 1, 2) if back else array.transpose(0, 2, 3, 1)


def _compare_layer(
    case: Case, arrays: dict[str, Array], run: Kept, weights: list[Any], nhwc: bool, training: bool
) -> None:
    options, never = case["options"], set(case.get("do_not_compare", []))
    lowered = run.lowered
    outputs = [_axes(run[value], nhwc, back=True) for value in lowered.node_outputs["layer"]]
    derivatives = lowered.derivatives.get("layer", [])
    verified = case.get("skipped_verified", False)
    if options["dropout_match"]:
        _compare_dropout(case, arrays, run, outputs[0])
        return
    for k, output in enumerate(outputs):
        compare(f"output_{k}", output, arrays[f"output_{k}"], case)
    if training and (verified or not options["skip_calc_grad"]):
        for i, weight in enumerate(weights):
            if f"gradient_{i}" in arrays and weight.trainable and f"gradient_{i}" not in never:
                compare(f"gradient_{i}", run[lowered.gradients[weight.key]], arrays[f"gradient_{i}"], case)
    if training and (verified or not options["skip_derivative"]):
        for i, value in enumerate(derivatives):
            if f"derivative_{i}" in arrays and value is not None and f"derivative_{i}" not in never:
                compare(f"derivative_{i}", _axes(run[value], nhwc, back=True), arrays[f"derivative_{i}"], case)
    for name in case.get("extra_required", []):
        if name not in never and name.startswith("weight_after_"):
            compare(name, run[weights[int(name.rsplit("_", 1)[1])].value], arrays[name], case)


def _compare_dropout(case: Case, arrays: dict[str, Array], run: Kept, output: Array) -> None:
    expected, given = arrays["output_0"], arrays["input_0"]
    fits = np.isclose(output, expected, **case["tolerance"]) | (output == 0) | (expected == 0)
    assert fits.all()
    derivative = run.lowered.derivatives["layer"][0]
    assert derivative is not None
    ratio = np.divide(output, given, out=np.full_like(given, np.nan), where=given != 0)
    compare("derivative_0", run[derivative], case["incoming_derivative"] * ratio, case)


def run_model(case: Case, *, fused: bool = False) -> int:
    """One model case; returns how many arrays were compared.

    ``fused``: the operations as a training runs them, of which only weights and losses can be seen. Otherwise every
    layer's operations by themselves, and all that was recorded is compared.
    """
    arrays = arrays_of(case)
    model = Model.from_ini(ini_of(case))
    graph = arrange(model.spec, True)
    lowered = lower(
        graph.nodes, batch=case["batch_size"], training=True, optimizer=model.spec.optimizer,
        keep_gradients=not fused, input_derivatives=not fused and "dx" in case["records"], fusion=fused,
    )  # fmt: skip
    run = Kept(lowered, list(lowered.predictions) if fused else kept_values(lowered))
    run.loss_places = [graph.label_order[_label_place(graph, described["layer"])] for described in case["labels"]]
    first_weights(case, arrays, run)
    compared = 0
    for step in range(case["iterations"]):
        feed(case, arrays, graph, run, step)
        run.engine.state.numbers[StepState.LEARNING_RATE] = model.learning_rate(step)
        run.engine.step(run.program)
        compared += _compare_step(case, arrays, run, step, case["required"] if fused else _all_arrays(case))
    compared_names = {name for name in case["required"] if not name.startswith("extra_")}
    assert compared >= len(compared_names), "nothing of what is required was compared"
    return compared


def weight_values(lowered: Lowered) -> dict[tuple[str, int], Value]:
    return {
        (row.name, i): weight.value
        for row in lowered.table
        for i, weight in enumerate(row.weights)
        if weight.value is not None
    }


def first_weights(case: Case, arrays: dict[str, Array], run: Kept) -> None:
    values = weight_values(run.lowered)
    for described in case["weights"]:
        value = values[described["layer"], described["index"]]
        assert value.shape == tuple(described["shape"]), described
        run[value] = arrays[f"init.{described['layer']}.{described['index']}"]


def feed(case: Case, arrays: dict[str, Array], graph: Graph, run: Kept, step: int) -> None:
    moving = case["data_per_iteration"]
    for k, described in enumerate(case["inputs"]):
        place = graph.input_order[graph.inputs.index(described["layer"])]
        array = arrays[f"input_{k}"]
        run[run.lowered.inputs[place]] = array[step] if moving else array
    for described in case["labels"]:
        place = graph.label_order[_label_place(graph, described["layer"])]
        array = arrays[described["array"]]
        run[run.lowered.labels[place]] = array[step] if moving else array


def _label_place(graph: Graph, name: str) -> int:
    if name in graph.labels:
        return graph.labels.index(name)
    assert len(graph.labels) == 1, (name, graph.labels)
    return 0


def _all_arrays(case: Case) -> list[str]:
    return [*case["required"], *case["optional"]]


def _compare_step(case: Case, arrays: dict[str, Array], run: Kept, step: int, wanted: list[str]) -> int:
    lowered, compared = run.lowered, 0
    values = weight_values(lowered)
    for name in wanted:
        expected = arrays.get(name)
        if expected is None or step >= len(expected):
            continue
        actual = _recorded(name, case, run, values)
        if actual is None:
            assert name in case["optional"], f"{name} is required and was not found"
            continue
        compare(f"{name}, iteration {step}", actual, expected[step], case)
        compared += 1
    return compared


def _recorded(name: str, case: Case, run: Kept, values: dict[tuple[str, int], Value]) -> Array | None:
    lowered = run.lowered
    what, _, rest = name.partition(".")
    layer, _, index = rest.rpartition(".")
    if what == "loss":
        return np.array([float(run[lowered.losses[place]][0]) for place in run.loss_places])
    if what.startswith("output_"):
        return (
            run[lowered.predictions[run.loss_places[int(what[7:])]]]
            if case["records"] == ["output", "weight"]
            else None
        )
    if what == "weight":
        return run[values[layer, int(index)]]
    if what == "out" and layer in lowered.node_outputs:
        return run[lowered.node_outputs[layer][int(index)]]
    if what == "grad" and (layer, int(index)) in values:
        gradient = lowered.gradients.get(values[layer, int(index)].name)
        return None if gradient is None else run[gradient]
    if what == "dx" and layer in lowered.derivatives:
        derivative = lowered.derivatives[layer][int(index)]
        return None if derivative is None else run[derivative]
    return None
