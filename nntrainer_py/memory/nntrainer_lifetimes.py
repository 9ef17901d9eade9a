"""NNTrainer's own order numbers and lifetimes (its network_graph.cpp and manager.cpp), beside ours for comparison.

Nothing here decides what runs: our lifetimes follow from what operations read and write. These are the moments at
which NNTrainer holds each tensor of the same network, so that its planners can be given its own requests and the
figures stand side by side. It keeps less than the mathematics needs in places (not the input of swish and gelu, for
one), so that its figures may be lower than an honest plan can be.

With n layers, forward of layer i is moment i. The way back counts on from n, from the last layer to the first:
gradient, derivative and update of a trainable layer are three moments; one with ``trainable = false`` has one for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nntrainer_py.memory.planner import Request

END = 4294967294
"""The moment behind the last one: a tensor that nothing of the way back releases."""

InPlace = Literal["no", "modifying", "view"]
"""Whether a layer may write where its input lies; ``view``: its output is the input, which nobody may then change."""

Span = Literal["forward", "forward and gradient", "forward and derivative"]
"""Moments of a layer at which it wants a tensor."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One layer as NNTrainer's memory manager sees it; sizes in bytes, connections (position of producer, output).

    ``weights`` are (name, bytes, has a gradient). ``group`` owns them, another layer's name where they are shared.
    ``input_span`` and ``output_span`` are how long the layer wants its inputs and outputs. ``in_place_input`` is the
    input whose memory a layer in place takes. ``label`` says that the gradient slot of the output is the label.
    """

    name: str
    inputs: tuple[tuple[int, int], ...] = ()
    outputs: tuple[int, ...] = ()
    weights: tuple[tuple[str, int, bool], ...] = ()
    trainable: bool = True
    group: str = ""
    in_place: InPlace = "no"
    in_place_input: int = 0
    copies_back: bool = False  # multiout: its outputs are views, but each has a gradient of its own
    input_span: Span = "forward and gradient"
    output_span: Span = "forward"
    derivative_with_gradient: bool = False  # grucell writes its derivative while it computes gradients
    label: bool = False
    delayed_update: bool = False  # clipping by global norm: gradients are kept to the end


@dataclass(frozen=True, slots=True)
class Moments:
    """The order numbers of a layer."""

    forward: int
    gradient: int
    derivative: int
    update: int

    def of(self, span: Span) -> set[int]:
        """Those at which a tensor with that span is wanted."""
        if span == "forward":
            return {self.forward}
        return {self.forward, self.gradient if span == "forward and gradient" else self.derivative}


def moments(stages: Sequence[Stage]) -> list[Moments]:
    """The order numbers of each layer, given in topological order."""
    found: list[Moments] = [Moments(i, 0, 0, 0) for i in range(len(stages))]
    following = len(stages)
    for position in reversed(range(len(stages))):
        step = 1 if stages[position].trainable else 0
        found[position] = Moments(position, following, following + step, following + 2 * step)
        following += 3 if stages[position].trainable else 1
    return found


def in_place(stages: Sequence[Stage]) -> list[InPlace]:
    """Which layers do run in place: nothing may be changed that is a view, and a view needs no rule of its own.

    A viewing layer stays one only behind another (or as a multiout); elsewhere its output counts as a fresh tensor.
    """
    decided: list[InPlace] = []
    for stage in stages:
        behind_view = any(decided[producer] == "view" for producer, _ in stage.inputs)
        if stage.copies_back:
            decided.append("view")
        elif stage.in_place == "view":
            decided.append("view" if behind_view else "modifying")
        else:
            decided.append("no" if behind_view else stage.in_place)
    return decided


def execution_orders(
    stages: Sequence[Stage], *, training: bool = True, reuse: bool = True
) -> dict[str, tuple[int, ...]]:
    """Tensor name -> the moments at which it is needed, ascending.

    Names are ``layer:weight``, ``layer:weight:grad``, ``layer:out0`` and ``layer:out0:grad``. Of a shared weight the
    moments of all users count. ``reuse`` False (memory_optimization=false): nothing is in place.
    """
    when = moments(stages)
    found = {**_weights(stages, when, training), **_outputs(stages, when, training)}
    for members in _shared_memory(stages, training, reuse):
        union = set().union(*(found[name] for name in members))
        found |= dict.fromkeys(members, union)
    for stage in stages:
        if training and stage.label:
            found |= {f"{stage.name}:out{index}:grad": set() for index in range(len(stage.outputs))}
    return {name: tuple(sorted(orders)) for name, orders in found.items()}


def requests(stages: Sequence[Stage], *, training: bool = True, reuse: bool = True) -> list[Request]:
    """What NNTrainer asks a planner for: outputs, derivatives and weight gradients, each piece of memory once.

    Weights live in a pool of their own. What a model is fed lies in the user's memory. Moments after the last layer
    that still has something to learn do not count.
    """
    orders = execution_orders(stages, training=training, reuse=reuse)
    end = _last_moment(stages) if training else len(stages) - 1
    sizes, gradients = _sizes(stages, training)
    merged: set[str] = set()
    made: list[Request] = []
    for members in _shared_memory(stages, training, reuse):
        merged |= set(members[1:])
        sizes[members[0]] = max(sizes[name] for name in members)
    fed = {name for stage in stages if not stage.inputs and stage.in_place != "no" for name in _names(stage)}
    for name, size in sizes.items():
        within = [moment for moment in orders[name] if moment <= end]
        if name in merged or not within or (reuse and name in fed):
            continue
        last = end if END in orders[name] else max(within)
        made.append(Request(size, min(within), last, name, name in gradients))
    return made


def _weights(stages: Sequence[Stage], when: Sequence[Moments], training: bool) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    learns = _learns_before(stages)
    for stage, at, before in zip(stages, when, learns, strict=True):
        for name, _, has_gradient in stage.weights:
            key = f"{stage.group or stage.name}:{name}"
            orders = found.setdefault(key, set())
            orders.add(at.forward)
            if not training:
                continue
            if stage.trainable:
                orders |= {at.gradient, at.derivative, at.update}
            else:
                orders.add(at.derivative if before else END)
            if stage.trainable and has_gradient:
                gradient = found.setdefault(f"{key}:grad", set())
                gradient |= {at.gradient, at.update} | ({END} if stage.delayed_update else set())
    return found


def _outputs(stages: Sequence[Stage], when: Sequence[Moments], training: bool) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    read = {connection for stage in stages for connection in stage.inputs}
    for position, (stage, at) in enumerate(zip(stages, when, strict=True)):
        for index, name in enumerate(_names(stage)):
            found[name] = at.of(stage.output_span if training else "forward")
            if (position, index) not in read:
                found[name].add(len(stages) - 1)
            if training:
                found[f"{name}:grad"] = {at.gradient, at.derivative}
    for stage, at in zip(stages, when, strict=True):
        for producer, index in stage.inputs:
            name = f"{stages[producer].name}:out{index}"
            span = stage.input_span
            if not training or (not stage.trainable and span == "forward and gradient"):
                span = "forward"
            found[name] |= at.of(span)
            if training:
                found[f"{name}:grad"] |= {at.derivative} | ({at.gradient} if stage.derivative_with_gradient else set())
    return found


def _names(stage: Stage) -> list[str]:
    return [f"{stage.name}:out{index}" for index in range(len(stage.outputs))]


def _learns_before(stages: Sequence[Stage]) -> list[bool]:
    """For each layer whether one before it, in the order, has weights to train."""
    found, learns = [], False
    for stage in stages:
        found.append(learns)
        learns = learns or _learns(stage)
    return found


def _learns(stage: Stage) -> bool:
    return stage.trainable and any(has_gradient for _, _, has_gradient in stage.weights)


def _last_moment(stages: Sequence[Stage]) -> int:
    """The update of the first layer that learns: there the way back ends."""
    for stage, at in zip(stages, moments(stages), strict=True):
        if _learns(stage):
            return at.update
    return len(stages) - 1


def _sizes(stages: Sequence[Stage], training: bool) -> tuple[dict[str, int], set[str]]:
    """Bytes of every tensor outside the pool of weights, and which of them are gradients of weights."""
    sizes: dict[str, int] = {}
    gradients: set[str] = set()
    for stage in stages:
        for name, size in zip(_names(stage), stage.outputs, strict=True):
            sizes[name] = size
            if training and not stage.label:
                sizes[f"{name}:grad"] = size
        if training and stage.trainable:
            names = {f"{stage.group or stage.name}:{name}:grad": size for name, size, has in stage.weights if has}
            sizes |= names
            gradients |= names.keys()
    return sizes, gradients


def _shared_memory(stages: Sequence[Stage], training: bool, reuse: bool) -> list[list[str]]:
    """Names of outputs, and of their gradients, that are one piece of memory, in the order of the layers."""
    if not reuse:
        return []
    group: dict[str, list[str]] = {}
    for stage, decided in zip(stages, in_place(stages), strict=True):
        if decided == "no" or not stage.inputs:
            continue
        for index, name in enumerate(_names(stage)):
            several = len(stage.inputs) > 1 and len(stage.inputs) == len(stage.outputs)
            producer, output = stage.inputs[index if several else stage.in_place_input]
            source = f"{stages[producer].name}:out{output}"
            _join(group, source, name)
            if training and not stage.copies_back:
                _join(group, f"{source}:grad", f"{name}:grad")
    return list({id(members): members for members in group.values()}.values())


def _join(group: dict[str, list[str]], source: str, name: str) -> None:
    members = group.setdefault(source, [source])
    members.append(name)
    group[name] = members
