"""``nntrainer-inspect``: layers, planned memory, what is alive at the peak, a picture of the plan."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli import gradients
from nntrainer_py.cli.buffers import DataBuffers, count_buffers
from nntrainer_py.cli.command import Parser, add_model_arguments, add_output_arguments, notify, run
from nntrainer_py.cli.layout import layer_table, layout_of, memory_lines
from nntrainer_py.cli.opening import open_model
from nntrainer_py.cli.quantities import amount, table
from nntrainer_py.errors import printable

if TYPE_CHECKING:
    from nntrainer_py.cli.layout import Layout
    from nntrainer_py.memory.plan import MemoryPlan
    from nntrainer_py.model import Model


def parser(prog: str = "nntrainer-inspect") -> Parser:
    """The options of the command."""
    made = Parser(
        prog,
        "Show the layers of a model, the memory that it will take, and which tensors are alive at the peak. Nothing is "
        "trained, and no data is needed. Or, with --check-gradients, whether each layer's derivatives are right.",
        f"{prog} model.ini --plot plan.png",
    )
    add_model_arguments(made)
    made.add_argument("--plot", metavar="FILE", help="draw the plan: png, svg or pdf (needs the extra plot)")
    made.add_argument("--inference", action="store_true", help="plan for inference, also a model that can be trained")
    made.add_argument("--planners", action="store_true", help="compare with NNTrainer's planners on the same tensors")
    gradients.add_arguments(made)
    add_output_arguments(made)
    return made


def main(argv: Sequence[str] | None = None, prog: str = "nntrainer-inspect") -> int:
    """Run the command; returns its exit code."""
    return run(parser(prog), inspect, argv)


def inspect(arguments: argparse.Namespace) -> int:
    """The command itself."""
    gradients.require_fitting(arguments)
    model = open_model(arguments)
    if arguments.check_gradients:
        return gradients.check(model, arguments)
    name = Path(arguments.model).name
    training = model.trainable and not arguments.inference
    buffers = count_buffers(model, {}) if training else DataBuffers(None)
    layout = buffers.noted(layout_of(model, name, buffers.size, training=training))
    plan = model.compiled.plan("train" if training else "predict", layout.piece or model.batch_size)
    found = _Peak(plan)
    others = _planners(plan) if arguments.planners else {}
    if others:
        others |= _theirs(model, layout.piece or model.batch_size, training)
    if arguments.json:
        print(json.dumps(_record(layout, found, others)))
    elif not arguments.quiet:
        _show(layout, found, others)
        for note in buffers.notes:
            print(f"\nnote: {note}")
    if arguments.plot is not None:
        from nntrainer_py.cli.pictures import every_script
        from nntrainer_py.memory.picture import draw

        with every_script():
            draw(plan.requests, plan.placement, arguments.plot, title=printable(name), phases=layout.picture.phases)
        if not (arguments.quiet or arguments.json):
            print(f"\nplan drawn: {printable(arguments.plot)}")
    if not arguments.quiet:
        notify(note for note in layout.notes if note not in buffers.notes)
    return 0


class _Peak:
    """The operation at which most is alive, and what that is, the largest first."""

    def __init__(self, plan: MemoryPlan) -> None:
        from nntrainer_py.memory.planner import peak

        self.moment, self.size = peak(plan.requests)
        self.alive = sorted(
            (request for request in plan.requests if request.first <= self.moment <= request.last and request.size),
            key=lambda request: (-request.size, request.name),
        )
        self.operation = ""
        if plan.operations:
            operation = plan.operations[min(self.moment, len(plan.operations) - 1)]
            self.operation = f"{operation.kind.name} of {operation.layer} ({operation.phase.value})"


def _planners(plan: MemoryPlan) -> dict[str, int]:
    """Arena by planner on the same requests; ours is called search."""
    from nntrainer_py.memory.nntrainer_planners import PLANNERS

    return {name: planner(plan.requests).arena for name, planner in PLANNERS.items()}


def _theirs(model: Model, batch: int, training: bool) -> dict[str, int]:
    """Arena by planner for what NNTrainer itself would ask for: its order and lifetimes, no scratch, no temporaries."""
    from nntrainer_py.graph.nntrainer_stages import stages
    from nntrainer_py.memory.nntrainer_lifetimes import requests
    from nntrainer_py.memory.nntrainer_planners import PLANNERS

    nodes = model.compiled.graph("train" if training else "predict").nodes
    asked = requests(stages(nodes, batch, training), training=training)
    names = ("optimized_v1", "optimized_v3")
    return {f"{name}, NNTrainer's lifetimes, no scratch": PLANNERS[name](asked).arena for name in names}


def _record(layout: Layout, found: _Peak, others: dict[str, int]) -> dict[str, Any]:
    record = layout.as_record()
    record["memory"]["total"] = layout.memory.total
    record |= {"parameters": layout.parameters, "trainable_parameters": layout.trainable}
    record["peak"] = {
        "operation": found.moment,
        "what": found.operation,
        "bytes": found.size,
        "alive": [
            {"name": request.name, "bytes": request.size, "first": request.first, "last": request.last}
            for request in found.alive
        ],
    }
    if others:
        record["planners"] = others
    return record


def _show(layout: Layout, found: _Peak, others: dict[str, int]) -> None:
    print(layer_table(layout), end="\n\n")
    print(memory_lines(layout, detailed=True), end="\n\n")
    count = layout.picture.operations
    print(f"peak of a step  {amount(found.size)} at operation {found.moment} of {count}: {found.operation}")
    rows = [[amount(r.size), f"{r.first}-{r.last}", r.name] for r in found.alive]
    print(table(["alive then", "operations", "tensor"], rows, right=(0, 1)))
    if others:
        print("\n" + table(["planner", "arena"], [[name, amount(size)] for name, size in others.items()], right=(1,)))
