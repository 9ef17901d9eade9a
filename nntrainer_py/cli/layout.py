"""What a model is before it runs: the table of its layers and the memory that it will take, as plain values.

``nntrainer-train --check`` prints it, a run keeps it (``layout.json``), ``nntrainer-inspect`` and ``nntrainer-report``
show it with the picture of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nntrainer_py.cli.quantities import amount, shape, table

if TYPE_CHECKING:
    from nntrainer_py.graph.lower import Lowered
    from nntrainer_py.graph.order import Graph
    from nntrainer_py.memory.plan import MemoryPlan
    from nntrainer_py.model import Model
    from nntrainer_py.tensor.operations.record import Value


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer: shapes are (channel, height, width), one for each output; ``memory`` is where its output lies.

    ``memory`` is ``in place`` when the output takes the place of an input, ``view`` when it is the same numbers in
    another shape, ``fused`` when it never lies in memory, being computed in one with what follows; ``own`` otherwise.
    ``trainable`` are those of the ``parameters`` that learn.
    """

    name: str
    type: str
    outputs: tuple[tuple[int, ...], ...]
    parameters: int
    trainable: int
    memory: str


@dataclass(frozen=True, slots=True)
class Memory:
    """Planned memory in bytes. ``arena`` holds what lives within a step; validation shares it.

    ``tables`` are computed once, such as positional encodings; ``copies`` are the weights of the best epoch, where they
    wait in memory. ``lower_bound`` is the most that is alive at one moment; ``without_reuse`` what the arena would take
    if nothing were used twice.
    """

    weights: int
    state: int
    optimizer: int
    gradients: int
    arena: int
    lower_bound: int
    without_reuse: int
    data: int
    tables: int = 0
    copies: int = 0

    @property
    def persistent(self) -> int:
        """What lives from step to step."""
        return self.weights + self.state + self.optimizer + self.gradients + self.tables

    @property
    def total(self) -> int:
        """Everything together."""
        return self.persistent + self.arena + self.data + self.copies


@dataclass(frozen=True, slots=True)
class Picture:
    """The arena: boxes are (name, bytes, first operation, last operation, address)."""

    operations: int
    phases: tuple[tuple[str, int], ...]
    boxes: tuple[tuple[str, int, int, int, int], ...]
    arena: int
    lower_bound: int
    method: str


@dataclass(frozen=True, slots=True)
class Layout:
    """See the module's text. ``piece`` are the samples computed at once where a batch is computed in pieces.

    ``inputs`` and ``labels`` are the layers that these belong to, in the order of the data.

    ``choices`` say how the plan came about: order, what is recomputed, swapped, the budget.
    """

    model: str
    mode: str
    batch_size: int
    threads: int
    layers: tuple[LayerRow, ...]
    memory: Memory
    picture: Picture
    optimizer: str = ""
    losses: tuple[str, ...] = ()
    piece: int | None = None
    choices: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())
    inputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        """Numbers in the weights, each counted once."""
        return sum(row.parameters for row in self.layers)

    @property
    def trainable(self) -> int:
        """Those that learn."""
        return sum(row.trainable for row in self.layers)

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Layout:
        """What `as_record` gave."""
        values = dict(record)
        values["layers"] = tuple(
            LayerRow(**{**row, "outputs": tuple(map(tuple, row["outputs"]))}) for row in record["layers"]
        )
        values["memory"] = Memory(**record["memory"])
        picture = record["picture"]
        values["picture"] = Picture(
            **{**picture, "phases": tuple(map(tuple, picture["phases"])), "boxes": tuple(map(tuple, picture["boxes"]))}
        )
        return cls(
            **{
                **values,
                "losses": tuple(record["losses"]),
                "choices": tuple(record["choices"]),
                "notes": tuple(record["notes"]),
                "inputs": tuple(record.get("inputs", ())),  # not in what earlier versions wrote
                "labels": tuple(record.get("labels", ())),
            }
        )


def layout_of(
    model: Model, name: str, data: int | None = None, *, training: bool | None = None, keeps_best: bool = False
) -> Layout:
    """The layout of a model at its batch size; nothing is allocated.

    ``data`` are the bytes of the data buffers; None: those of the sections of the description, or of training data
    with one batch ready. ``training``: plan for it; None: where the model can be trained.
    ``keeps_best``: the weights of the best epoch are put back at the end.
    """
    compiled, batch = model.compiled, model.batch_size
    trains = model.trainable if training is None else training
    mode: Literal["train", "predict"] = "train" if trains else "predict"
    piece = compiled.options.micro_batch if trains else None
    size = min(batch, piece or batch)
    lowered = compiled.lowered(mode, size)
    made = compiled.memory(mode, size)
    plan, report = made.plan, made.report
    arena = plan.arena
    if report.budget is not None:  # kept for all that the model can do, whatever this run needs of it
        arena, data = report.total - report.resident, report.beside
    elif trains and {"valid", "test"} & set(model.spec.datasets):
        arena = max(arena, compiled.plan("evaluate", size).arena)
    counted = _persistent(lowered, made.on_file)
    memory = Memory(
        **counted,
        tables=report.resident - report.beside - sum(counted.values()),
        arena=arena,
        lower_bound=plan.placement.lower_bound,
        without_reuse=plan.without_reuse(),
        data=_data_bytes(model, lowered) if data is None else data,
        copies=counted["weights"] + counted["state"] if keeps_best and not compiled.limited else 0,
    )
    optimizer = model.spec.optimizer
    graph = compiled.graph(mode)
    return Layout(
        model=name,
        mode=mode,
        batch_size=batch,
        threads=compiled.options.threads,
        layers=_rows(graph, lowered, plan),
        memory=memory,
        picture=picture_of(lowered, plan),
        optimizer=optimizer.keyword if optimizer is not None and trains else "",
        losses=tuple(node.layer.keyword for node in graph.nodes if node.layer.is_loss),
        piece=piece if piece is not None and piece < batch else None,
        choices=tuple(made.report.lines()),
        notes=(*_notes(model), *_still(model, trains, size), *_too_much(memory.total), *_no_swap_file(model, mode)),
        inputs=graph.inputs,
        labels=tuple(name.removesuffix("/loss") for name in graph.labels),
    )


def _notes(model: Model) -> tuple[str, ...]:
    if model.trainable:
        return ()
    missing = [
        word
        for word, there in (("loss", model.spec.has_loss), ("optimizer", model.spec.optimizer is not None))
        if not there
    ]
    return (f"the model has no {' and no '.join(missing)}: planned for inference",)


def _still(model: Model, trains: bool, size: int) -> tuple[str, ...]:
    from nntrainer_py.training.frozen import nothing_trained

    told = nothing_trained(model, size) if trains else None
    return () if told is None else (told,)


def _no_swap_file(model: Model, mode: Literal["train", "predict"]) -> tuple[str, ...]:
    from nntrainer_py.errors import UsageError

    try:
        model.require_swap_file(mode)
    except UsageError as error:
        return (str(error),)
    return ()


def _too_much(total: int) -> tuple[str, ...]:
    from nntrainer_py.memory.machine import machine_memory

    there = machine_memory()
    if there is None or total <= there:
        return ()
    return (f"the planned memory, {amount(total)}, is more than this machine has ({amount(there)})",)


def _rows(graph: Graph, lowered: Lowered, plan: MemoryPlan) -> tuple[LayerRow, ...]:
    counted: set[str] = set()
    places = _places(graph, lowered, plan)
    rows = []
    for row, node in zip(lowered.table, graph.nodes, strict=True):
        fresh = [weight for weight in row.weights if weight.key not in counted]
        counted.update(weight.key for weight in fresh)
        outputs = tuple((dim.channel, dim.height, dim.width) for dim in row.outputs)
        parameters = sum(weight.dim.size for weight in fresh)
        learns = sum(weight.dim.size for weight in fresh if weight.trainable) if row.trainable else 0
        rows.append(LayerRow(row.name, row.keyword, outputs, parameters, learns, places[node.name]))
    return tuple(rows)


def _places(graph: Graph, lowered: Lowered, plan: MemoryPlan) -> dict[str, str]:
    """`LayerRow.memory` by name of the layer."""
    found: dict[str, str] = {}
    roots: list[list[Value]] = []  # by layer: what its readers read, through fused layers to what lies in memory
    for node in graph.nodes:
        outputs = [value.root for value in lowered.node_outputs.get(node.name, [])]
        inputs = [root for producer, _ in node.inputs for root in roots[producer]]
        there = [root for root in outputs if root in plan.where or root.persistent]
        if outputs and not there:
            found[node.name] = "fused"
            roots.append(inputs)
            continue
        buffers = {id(plan.where[root]) for root in inputs if root in plan.where}
        if any(root in inputs for root in there):
            found[node.name] = "view"
        elif any(root in plan.where and id(plan.where[root]) in buffers for root in there):
            found[node.name] = "in place"
        else:
            found[node.name] = "own"
        roots.append(there)
    return found


def _persistent(lowered: Lowered, on_file: Mapping[Value, object]) -> dict[str, int]:
    """Bytes in memory of what lives from step to step; what lives in the swap file is not counted."""
    from nntrainer_py.memory.planner import aligned
    from nntrainer_py.tensor.operations.record import Role
    from nntrainer_py.training.engine import persistent

    names = {Role.WEIGHT: "weights", Role.STATE: "state", Role.OPTIMIZER: "optimizer", Role.GRADIENT: "gradients"}
    found = dict.fromkeys(names.values(), 0)
    for value in dict.fromkeys(persistent(lowered)):
        if value in on_file:
            continue
        found[names[value.role]] += aligned(value.nbytes)
    return found


def _data_bytes(model: Model, lowered: Lowered) -> int:
    """The buffers of the data that the description names, or of training data with one batch ready."""
    from nntrainer_py.data.loader import ring_bytes

    inputs = [value.shape[1:] for value in lowered.inputs]
    labels = [value.shape[1:] for value in lowered.labels]
    sizes = [section.settings.buffer_size for section in model.spec.datasets.values()]
    return sum(ring_bytes(inputs, labels, model.batch_size, size) for size in sizes or [1])


def picture_of(lowered: Lowered, plan: MemoryPlan) -> Picture:
    """The boxes of a plan."""
    placement = plan.placement
    phases = [("forward", 0)]
    backward = next((i for i, op in enumerate(plan.operations) if op.phase.backward), None)
    if backward is not None:
        phases.append(("backward", backward))
    boxes = tuple(
        (request.name, request.size, request.first, request.last, offset)
        for request, offset in zip(plan.requests, placement.offsets, strict=True)
    )
    return Picture(len(plan.operations), tuple(phases), boxes, placement.arena, placement.lower_bound, placement.method)


def layer_table(layout: Layout) -> str:
    """The layers as lines of text."""
    rows = [
        [
            row.name,
            row.type,
            ", ".join(map(shape, row.outputs)) or "-",
            f"{row.parameters:,}" if row.parameters else "-",
            {"own": "no", "in place": "yes"}.get(row.memory, row.memory),
        ]
        for row in layout.layers
    ]
    return table(["layer", "type", "output", "parameters", "in place"], rows, right=(3,))


def memory_lines(layout: Layout, *, detailed: bool = False) -> str:
    """Parameters and planned memory as lines of text; ``detailed``: with the orders that were tried for a step."""
    memory = layout.memory
    ratio = layout.picture.arena / memory.lower_bound if memory.lower_bound else 1.0
    lines = [("parameters", f"{layout.parameters:,} ({layout.trainable:,} trainable)")]
    for what, names in (("inputs", layout.inputs), ("labels", layout.labels)):
        if len(names) > 1:  # which comes first is not the order of the description, but that of NNTrainer's graph
            key = f"{what.removesuffix('s')}_layers"
            lines.append((what, f"{', '.join(names)} (the order of the data; {key} in [Model] fixes another)"))
    pieces = "" if layout.piece is None else f" in pieces of {layout.piece}"
    purpose = "training" if layout.mode == "train" else "inference"
    lines.append(("planned for", f"{purpose}, batch {layout.batch_size}{pieces}"))
    lines.append(("weights", amount(memory.weights + memory.state)))
    if layout.mode == "train":
        lines.append(("optimizer state", f"{amount(memory.optimizer)} ({layout.optimizer})"))
    if memory.gradients:
        lines.append(("kept gradients", amount(memory.gradients)))
    lines.append(
        (
            "arena of a step",
            f"{amount(memory.arena)} (lower bound {amount(memory.lower_bound)}, ratio {ratio:.3f}; "
            f"{amount(memory.without_reuse)} without reuse)",
        )
    )
    if memory.tables:
        lines.append(("tables", amount(memory.tables)))
    lines.append(("data buffers", amount(memory.data)))
    if memory.copies:
        lines.append(("weights of the best epoch", amount(memory.copies)))
    lines.append(("total", amount(memory.total)))
    choices = (choice.partition(": ") for choice in layout.choices)
    lines += [(word, text) for word, _, text in choices if detailed or word != "order"]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in lines)
