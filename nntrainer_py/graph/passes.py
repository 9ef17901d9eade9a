"""The realizers: what the description left out is written down, by small passes from a layer list to a layer list.

They run in NNTrainer's order (`PASSES`), on which the canonical order of layers and the names of the made ones depend.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nntrainer_py.errors import Faults, UsageError
from nntrainer_py.graph.circles import sort
from nntrainer_py.graph.loss_words import CROSS, CROSS_LOSSES
from nntrainer_py.graph.model_section import KNN, LOGISTIC_REGRESSION, ModelSection
from nntrainer_py.graph.names import hint
from nntrainer_py.graph.spec import LayerSpec, ModelSpec, layer_class, takes_label
from nntrainer_py.graph.unroll import names_made, unroll
from nntrainer_py.graph.variants import with_properties
from nntrainer_py.properties import Connection
from nntrainer_py.registry import LAYERS

#: layers that make their output from nothing and therefore do not read the layer before them
SOURCES = frozenset({"tensor", "weight"})

Layers = list[LayerSpec]


@dataclass(slots=True)
class Setting:
    """What a pass knows beside the layers: what else was described, whether it is for training, where faults go."""

    spec: ModelSpec
    training: bool
    faults: Faults

    @property
    def model(self) -> ModelSection:
        """The settings of the model."""
        return self.spec.model


Pass = Callable[[Layers, Setting], Layers]


def realize(
    spec: ModelSpec, training: bool, faults: Faults | None = None, passes: Sequence[Pass] | None = None
) -> Layers:
    """The complete layer list of a spec, every connection written down.

    ``training`` says whether the model's loss is part of it (validation uses that graph, too). `DescriptionError` with
    all faults, unless ``faults`` is given to collect them; then the passes after a fault are left out. ``passes`` are
    those to run, all by default.
    """
    gathered = Faults() if faults is None else faults
    before = len(gathered)
    layers = list(spec.layers)
    for step in PASSES if passes is None else passes:
        if step not in _CHECKS and len(gathered) > before:
            break
        layers = step(layers, Setting(spec, training, gathered))
    if faults is None:
        gathered.raise_if_any()
    return layers


def previous_input(layers: Layers, setting: Setting) -> Layers:
    """A layer that names no input and is none itself reads the layer before it in the list."""
    listed = {connection.name for connection in setting.model.input_layers or ()}
    found: Layers = []
    for position, spec in enumerate(layers):
        if spec.inputs is not None:
            found.append(spec)
        elif position == 0 or spec.layer.input_shape or spec.name in listed or spec.layer.keyword in SOURCES:
            found.append(replace(spec, inputs=()))
        else:
            found.append(replace(spec, inputs=(Connection(layers[position - 1].name),)))
    return found


def known_connections(layers: Layers, setting: Setting) -> Layers:
    """Every layer that is named exists, and every layer without input says its shape."""
    names = {spec.name for spec in layers} | names_made(layers)
    faults = setting.faults
    for position, spec in enumerate(layers):
        for connection in spec.inputs or ():
            if connection.name not in names:
                near = hint(connection.name, names, faults)
                faults.add(f"there is no layer '{connection.name}'{near}", spec.at("input_layers"), "input_layers")
        if not spec.inputs and not spec.layer.input_shape and spec.layer.keyword not in SOURCES:
            what = "required for a layer that reads no other layer"
            if position == 0:
                what = "the first layer must be an input: it needs input_shape"
            faults.add(what, spec.origin, "input_shape")
    return layers


def no_circle(layers: Layers, setting: Setting) -> Layers:
    """No layer reads, through others, itself; told before anything is said that follows from it."""
    with setting.faults.gather():
        sort(layers)
    return layers


def shared_weights(layers: Layers, setting: Setting) -> Layers:
    """``shared_from`` names the layer that owns the weights, also where that one was named through another."""
    owners = _owners(layers, setting.faults)
    found: Layers = []
    for spec in layers:
        owner = owners[spec.name]
        if owner.layer.keyword != spec.layer.keyword:
            message = f"'{owner.name}' is of type {owner.layer.keyword}, this layer {spec.layer.keyword}"
            setting.faults.add(message, spec.at("shared_from"), "shared_from")
        if spec.layer.shared_from not in (None, owner.name):
            spec = replace(spec, layer=with_properties(spec.layer, shared_from=owner.name))
        found.append(spec)
    return found


def _owners(layers: Layers, faults: Faults) -> dict[str, LayerSpec]:
    """For each layer the one whose weights it uses, often itself."""
    by_name = {spec.name: spec for spec in layers}
    owners: dict[str, LayerSpec] = {}
    for spec in layers:
        chain = {spec.name: spec}
        last = spec
        while last.name not in owners and last.layer.shared_from not in (None, last.name):
            name = str(last.layer.shared_from)
            if name in chain:
                faults.add(
                    f"'{spec.layer.shared_from}': leads back to this layer", spec.at("shared_from"), "shared_from"
                )
                break
            if name not in by_name:
                near = hint(name, by_name, faults)
                faults.add(f"there is no layer '{name}'{near}", last.at("shared_from"), "shared_from")
                break
            last = by_name[name]
            chain[name] = last
        owner = owners.get(last.name, last)
        owners |= dict.fromkeys(chain, owner)
    return owners


def model_type(layers: Layers, setting: Setting) -> Layers:
    """What ``[Model] type`` means and no section says: the activation of a logistic regression, the votes of a knn."""
    if setting.model.type not in (KNN, LOGISTIC_REGRESSION):
        _unused_keys(setting)
        return layers
    read = {connection.name for spec in layers for connection in spec.inputs or ()}
    if any(takes_label(spec.layer) for spec in layers):
        _unused_keys(setting)
        return layers
    found: Layers = []
    for spec in layers:
        found.append(spec)
        if spec.name in read:
            continue
        if setting.model.type == KNN:
            found.append(_votes(spec, setting))
        elif spec.layer.activation is None:
            word = "sigmoid" if getattr(spec.layer, "unit", 1) == 1 else "softmax"
            found[-1] = replace(spec, layer=with_properties(spec.layer, activation=word))
    return found


def _unused_keys(setting: Setting) -> None:
    for key in ("num_class", "neighbours"):
        if key in setting.model.explicit():
            setting.faults.warn("has no effect; it belongs to a knn without a layer for it", setting.spec.at(key), key)


def _votes(last: LayerSpec, setting: Setting) -> LayerSpec:
    """The layer behind ``last`` that learns the classes."""
    settings = setting.model
    properties: dict[str, object] = {"num_class": settings.num_class}
    keyword = "centroid_knn"
    if settings.neighbours is not None:
        keyword = "nearest_neighbours"
        properties["neighbours"] = settings.neighbours
    if settings.num_class is None:
        setting.faults.add("required for a knn, expected a positive integer", setting.spec.at("type"), "num_class")
        properties["num_class"] = 1
    return _generated(last, f"{last.name}/{KNN}", keyword, properties, (Connection(last.name),), setting, "type")


def multiout(layers: Layers, setting: Setting) -> Layers:
    """An output that is read more than once is read by a multiout layer, each reader taking one output of that."""
    readers = Counter(connection for spec in layers for connection in spec.inputs or ())
    shared = {connection for connection, count in readers.items() if count > 1}
    given: dict[Connection, Iterator[int]] = {connection: iter(range(readers[connection])) for connection in shared}
    made: defaultdict[str, Layers] = defaultdict(list)
    by_name = {spec.name: spec for spec in layers}
    for connection in sorted(shared, key=lambda c: c.output):
        producer = by_name[connection.name]
        name = f"{connection.name}/generated_out_{connection.output}"
        made[connection.name].append(_generated(producer, name, "multiout", {}, (connection,), setting, "input_layers"))
    found: Layers = []
    for spec in layers:
        inputs = tuple(
            Connection(f"{c.name}/generated_out_{c.output}", next(given[c])) if c in shared else c
            for c in spec.inputs or ()
        )
        found += [replace(spec, inputs=inputs), *made[spec.name]]
    return found


def flatten(layers: Layers, setting: Setting) -> Layers:
    """``flatten = true`` becomes a flatten layer behind; one that is distributed over time stays as it is."""
    wanted = [spec for spec in layers if spec.layer.flatten and not spec.layer.distribute]
    return _insert_behind(layers, {spec.name: ("flatten", {}) for spec in wanted}, "flatten_realized", setting)


def activation(layers: Layers, setting: Setting) -> Layers:
    """``activation = f`` becomes an activation layer behind; where a layer is flattened, too, between the two."""
    wanted = {
        spec.name: ("activation", {"activation": spec.layer.activation})
        for spec in layers
        if spec.layer.activation not in (None, "none") and spec.layer.keyword != "activation"
    }
    return _insert_behind(layers, wanted, "activation_realized", setting)


def distribute(layers: Layers, setting: Setting) -> Layers:
    """``distribute = true`` puts the layer into a time_dist layer of the same name, which applies it to every step."""
    found: Layers = []
    for spec in layers:
        if spec.layer.distribute:
            with setting.faults.gather(spec.at("distribute"), "distribute"):
                spec = replace(spec, layer=LAYERS.load("time_dist").wrap(spec.layer))
        found.append(spec)
    return found


def model_properties(layers: Layers, setting: Setting) -> Layers:
    """Clipping and loss scale of the model go to every layer that says nothing of its own."""
    values = {key: getattr(setting.model, key) for key in ("clip_grad_by_norm", "loss_scale")}
    explicit = setting.model.explicit()
    values = {key: value for key, value in values.items() if key in explicit}
    if not values:
        return layers
    found: Layers = []
    for spec in layers:
        missing = {key: value for key, value in values.items() if key not in spec.layer.explicit()}
        found.append(replace(spec, layer=with_properties(spec.layer, **missing)) if missing else spec)
    return found


def loss(layers: Layers, setting: Setting) -> Layers:
    """The model's loss behind every layer that nobody reads and that takes no label; only in training.

    ``cross`` takes the place of a last softmax or sigmoid. The loss is called ``<last section>/loss``.
    """
    word = setting.spec.loss
    if word is None or not setting.training:
        return layers
    read = {connection.name for spec in layers for connection in spec.inputs or ()}
    found, behind = list(layers), list[LayerSpec]()
    where = setting.spec.at("loss")
    for position, last in enumerate(layers):
        if last.name in read or takes_label(last.layer):
            continue
        name = f"{last.user_name}/loss"
        with setting.faults.gather(where, "loss"):
            if last.layer.keyword == "input":
                raise UsageError(f"no layer reads the input '{last.user_name}', so that nothing can be trained for it")
            if word == CROSS:
                keyword = _cross_loss(last)
                found[position] = _generated(last, name, keyword, {}, last.inputs or (), setting, "loss")
            else:
                behind.append(_generated(last, name, word, {}, (Connection(last.name),), setting, "loss"))
    if all(last.name in read or takes_label(last.layer) for last in layers):
        setting.faults.warn("has no effect; every output has a loss of its own", where, "loss")
    return found + behind


def unique_names(layers: Layers, setting: Setting) -> Layers:
    """No made layer took the name of another."""
    for name, count in Counter(spec.name for spec in layers).items():
        if count > 1:
            spec = next(spec for spec in layers if spec.name == name)
            setting.faults.add(f"the name '{name}' is needed for a layer that is inserted; choose another", spec.origin)
    return layers


#: the passes in the order in which they run
PASSES: tuple[Pass, ...] = (
    previous_input,
    known_connections,
    shared_weights,
    unroll,  # before the readers of each output are counted
    no_circle,  # behind what a recurrent group has to say of its own; before outputs are looked for, which may be none
    model_type,
    multiout,
    flatten,
    activation,
    distribute,
    model_properties,
    loss,
    unique_names,
)
#: passes that find all faults in what refers to what; the others rely on there being none
_CHECKS = (previous_input, known_connections, shared_weights)


def _cross_loss(last: LayerSpec) -> str:
    activation = last.layer.activation if last.layer.keyword == "activation" else None
    try:
        return CROSS_LOSSES[activation or ""]
    except KeyError:
        found = activation or f"a layer of type {last.layer.keyword}"
        raise UsageError(
            f"cross needs softmax or sigmoid as the last activation, but '{last.user_name}' ends with {found}"
        ) from None


def _generated(
    origin: LayerSpec,
    name: str,
    keyword: str,
    properties: Mapping[str, object],
    inputs: tuple[Connection, ...],
    setting: Setting,
    key: str,
) -> LayerSpec:
    """A layer made for another one because of its ``key``. Where the keyword is missing: a fault, and a stand-in."""
    layer = origin.layer
    with setting.faults.gather(origin.origin, key):
        layer = layer_class(keyword)(**properties)
    return LayerSpec(name, layer, inputs, origin.origin, origin.user_name)


def _insert_behind(
    layers: Layers, wanted: Mapping[str, tuple[str, Mapping[str, object]]], suffix: str, setting: Setting
) -> Layers:
    """Behind each layer named in ``wanted`` a layer of that keyword, whom its readers read from then on."""
    found: Layers = []
    for spec in layers:
        inputs = tuple(_redirected(c, wanted, suffix, spec, setting) for c in spec.inputs or ())
        found.append(replace(spec, inputs=inputs))
        if spec.name in wanted:
            keyword, properties = wanted[spec.name]
            behind = Connection(spec.name)
            found.append(_generated(spec, f"{spec.name}/{suffix}", keyword, properties, (behind,), setting, keyword))
    return found


def _redirected(
    connection: Connection, wanted: Collection[str], suffix: str, reader: LayerSpec, setting: Setting
) -> Connection:
    if connection.name not in wanted:
        return connection
    if connection.output:
        key = suffix.partition("_")[0]
        setting.faults.add(
            f"'{connection}' is read, but {key} of '{connection.name}' works on a single output; "
            f"give {key} a section of its own",
            reader.at("input_layers"),
            "input_layers",
        )
    return Connection(f"{connection.name}/{suffix}")
