"""Groups of layers written out over time: the pass behind ``type = recurrent`` (see docs/recurrent.md).

Step t of layer ``a`` in group ``g`` is called ``g/a/t`` and shares the weights of ``g/a/0``. What a layer outside
reads of ``a`` is ``g/a``: its output of the last step, or of all steps joined (``g/a/concat_0``), as NNTrainer's
realizer names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nntrainer_py.errors import UsageError, counted
from nntrainer_py.graph.names import hint
from nntrainer_py.graph.spec import LayerSpec, layer_class, takes_label
from nntrainer_py.graph.variants import with_properties
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.recurrent_group import RecurrentGroup
from nntrainer_py.properties import Connection

if TYPE_CHECKING:
    from nntrainer_py.graph.passes import Setting

#: properties of every layer that a group hands on to its last layer's result, and to its layers
_OF_RESULT = ("activation", "flatten")
_OF_MEMBERS = ("trainable", "clip_grad_by_norm", "loss_scale")


def unroll(layers: list[LayerSpec], setting: Setting) -> list[LayerSpec]:
    """Write out every group of the list, one after the other."""
    for spec in layers:
        if isinstance(spec.layer, RecurrentGroup):
            before = len(setting.faults)
            current = next(other for other in layers if other.name == spec.name)
            group = _Group.of(current, layers, setting)
            if group is not None and len(setting.faults) == before:
                layers = group.written_out(layers)
    return layers


def names_made(layers: Sequence[LayerSpec]) -> set[str]:
    """Names that groups make and that other layers may read: ``group/layer``."""
    return {
        f"{spec.name}/{member.name}"
        for spec in layers
        if isinstance(spec.layer, RecurrentGroup)
        for member in spec.layer.layers or ()
    }


@dataclass(slots=True)
class _Group:
    """One group: its own section, and those of its layers."""

    spec: LayerSpec
    layer: RecurrentGroup
    members: dict[str, LayerSpec]
    setting: Setting

    @classmethod
    def of(cls, spec: LayerSpec, layers: Sequence[LayerSpec], setting: Setting) -> _Group | None:
        """The checked group; None, and faults, where something in it is wrong."""
        assert isinstance(spec.layer, RecurrentGroup)
        by_name = {other.name: other for other in layers}
        group = cls(spec, spec.layer, {}, setting)
        named = spec.layer.layers or ()
        if not named:
            group.fault("required, expected the names of layers", "layers")
        for connection in named:
            member = by_name.get(connection.name)
            if member is None or member is spec or connection.output:
                near = hint(connection.name, by_name, setting.faults)
                group.fault(f"there is no layer '{connection}' to repeat{near}", "layers")
            elif connection.name in group.members:
                group.fault(f"'{connection.name}' stands twice", "layers")
            elif not _repeatable(member):
                group.fault(
                    f"'{connection.name}' of type {member.layer.keyword} cannot be repeated over time", "layers"
                )
            else:
                group.members[connection.name] = member
        if len(group.members) != len(named):
            return None
        group.check()
        return group

    @property
    def steps(self) -> int:
        return self.layer.unroll_for

    def fault(self, message: str, key: str) -> None:
        self.setting.faults.add(message, self.spec.at(key), key)

    def check(self) -> None:
        """What the section refers to exists."""
        for key in ("recurrent_input", "recurrent_output", "as_sequence"):
            for connection in getattr(self.layer, key) or ():
                if connection.name not in self.members:
                    near = hint(connection.name, self.members, self.setting.faults)
                    self.fault(f"'{connection.name}' is no layer of this group{near}", key)
        outside = {c.name for member in self.members.values() for c in member.inputs or ()} - set(self.members)
        for connection in self.layer.input_is_sequence or ():
            if connection.name not in outside:
                near = hint(connection.name, outside, self.setting.faults)
                self.fault(f"no layer of this group reads '{connection.name}'{near}", "input_is_sequence")
        if self.spec.name in outside:
            self.fault(f"a layer of the group reads '{self.spec.name}' itself; use recurrent_input", "layers")
        known = {*RecurrentGroup.properties()} - {*Layer.properties()} | {*_OF_RESULT, *_OF_MEMBERS, "input_layers"}
        for key in self.layer.explicit():
            if key not in known:
                self.setting.faults.warn("has no effect on a group of layers", self.spec.at(key), key)

    def written_out(self, layers: Sequence[LayerSpec]) -> list[LayerSpec]:
        """The list with the copies in place of the group's section."""
        others = [spec for spec in layers if spec.name not in self.members and spec.name != self.spec.name]
        read = self.results(others)
        made = [*self.splits(), *self.copies(), *self.ends(read)]
        found: list[LayerSpec] = []
        for spec in layers:
            if spec.name == self.spec.name:
                found.extend(made)
            elif spec.name not in self.members:
                found.append(self.redirected(spec, read))
        return found

    def results(self, others: Sequence[LayerSpec]) -> dict[str, list[int]]:
        """By member: the outputs that are handed on, in order."""
        read: dict[str, set[int]] = {}
        for spec in others:
            group = isinstance(spec.layer, RecurrentGroup)  # its section reads nothing itself
            for connection in _sequences_of(spec) if group else spec.inputs or ():
                target = self.target(connection)
                if target is not None:
                    read.setdefault(target.name, set()).add(target.output)
        if not read:  # nobody reads the group: its last layer is an output of the model
            read[list(self.members)[-1]] = {0}
        return {name: sorted(read[name]) for name in self.members if name in read}

    def target(self, connection: Connection) -> Connection | None:
        """The member whose output is meant by a layer outside: named alone, with the group, or by the group."""
        own = self.spec.name
        if connection.name == own:
            return Connection(list(self.members)[-1], connection.output)
        name = connection.name.removeprefix(f"{own}/")
        return Connection(name, connection.output) if name in self.members else None

    def redirected(self, spec: LayerSpec, read: Mapping[str, Sequence[int]]) -> LayerSpec:
        """A layer outside, reading results of the group and sharing weights of its first step."""

        def moved(connections: Sequence[Connection]) -> tuple[Connection, ...]:
            found = []
            for connection in connections:
                target = self.target(connection)
                if target is not None:
                    connection = Connection(self.name(target.name), read[target.name].index(target.output))
                found.append(connection)
            return tuple(found)

        if isinstance(spec.layer, RecurrentGroup):
            spec = replace(spec, inputs=())
        inputs = None if spec.inputs is None else moved(spec.inputs)
        values: dict[str, object] = {}
        if _sequences_of(spec):
            values["input_is_sequence"] = tuple(Connection(c.name) for c in moved(_sequences_of(spec)))
        if spec.layer.shared_from in self.members:
            values["shared_from"] = self.name(str(spec.layer.shared_from), 0)
        layer = with_properties(spec.layer, **values) if values else spec.layer
        return replace(spec, inputs=inputs, layer=layer)

    def name(self, member: str, step: int | None = None) -> str:
        return f"{self.spec.name}/{member}" if step is None else f"{self.spec.name}/{member}/{step}"

    def generated(self, name: str, keyword: str, inputs: Sequence[Connection], **properties: object) -> LayerSpec:
        layer = layer_class(keyword)(**properties)
        return LayerSpec(name, layer, tuple(inputs), self.spec.origin, self.spec.user_name)

    def splits(self) -> Iterator[LayerSpec]:
        """A split for each input that holds all steps."""
        for connection in self.layer.input_is_sequence or ():
            yield self.generated(
                f"{self.name(connection.name)}/split_realized", "split", [connection], axis=2, split_number=self.steps
            )

    def copies(self) -> Iterator[LayerSpec]:
        """Every layer of every step."""
        for step in range(self.steps):
            for name, member in self.members.items():
                owner = str(member.layer.shared_from or name)
                values: dict[str, object] = {
                    "shared_from": self.name(owner, 0) if owner in self.members else owner,
                    "input_layers": None,
                }
                if type(member.layer).find_property("timestep") is not None:
                    values |= {"timestep": step, "max_timestep": self.steps}
                explicit = member.layer.explicit()
                given = self.layer.explicit()
                values |= {key: given[key] for key in _OF_MEMBERS if key in given and key not in explicit}
                layer = with_properties(member.layer, **values)
                inputs = self.inputs(member, step)
                yield replace(member, name=self.name(name, step), layer=layer, inputs=inputs, section=member.user_name)

    def inputs(self, member: LayerSpec, step: int) -> tuple[Connection, ...]:
        """What a copy reads: the step before, its own step, a row of a sequence, or what it reads at every step."""
        sequences = {c.name for c in self.layer.input_is_sequence or ()}
        found = []
        for connection in member.inputs or ():
            if connection.name in self.members:
                connection = Connection(self.name(connection.name, step), connection.output)
            elif connection.name in sequences:
                connection = Connection(f"{self.name(connection.name)}/split_realized", step)
            found.append(connection)
        if step == 0:
            return tuple(found)
        pairs = zip(self.layer.recurrent_input or (), self.layer.recurrent_output or (), strict=True)
        for target, source in sorted(pairs, key=lambda pair: pair[0].output):
            if target.name != member.name:
                continue
            before = Connection(self.name(source.name, step - 1), source.output)
            if target.output < len(found):
                found[target.output] = before
            elif target.output == len(found):  # the first step has no such input
                found.append(before)
            else:
                self.fault(
                    f"'{member.name}' has {counted(len(found), 'input')}, none with number {target.output}",
                    "recurrent_input",
                )
        return tuple(found)

    def ends(self, read: Mapping[str, Sequence[int]]) -> Iterator[LayerSpec]:
        """For each member that is read outside an identity, and before it the joined steps."""
        sequences = set(self.layer.as_sequence or ())
        given = self.layer.explicit()
        for name, outputs in read.items():
            inputs = []
            for output in outputs:
                if Connection(name, output) in sequences:
                    joined = f"{self.name(name)}/concat_{output}"
                    every = [Connection(self.name(name, step), output) for step in range(self.steps)]
                    yield self.generated(joined, "concat", every, axis=self.layer.sequence_axis)
                    inputs.append(Connection(joined))
                else:
                    inputs.append(Connection(self.name(name, self.steps - 1), output))
            last = name == list(self.members)[-1]
            properties = {key: given[key] for key in _OF_RESULT if key in given and last}
            with self.setting.faults.gather(self.spec.origin):
                if properties and len(inputs) > 1:
                    raise UsageError(
                        f"{counted(len(inputs), 'output')} are read; {' and '.join(properties)} works on a single one"
                    )
            yield self.generated(self.name(name), "identity", inputs, **properties)


def _sequences_of(spec: LayerSpec) -> Sequence[Connection]:
    """Inputs that another group reads as sequences."""
    return (spec.layer.input_is_sequence or ()) if isinstance(spec.layer, RecurrentGroup) else ()


def _repeatable(member: LayerSpec) -> bool:
    """Inputs and losses stand outside of a group; groups do not nest."""
    inner = member.layer
    return not (
        takes_label(inner) or inner.keyword == "input" or inner.input_shape or isinstance(inner, RecurrentGroup)
    )
