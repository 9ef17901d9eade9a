"""What a model is: its settings, its layers with their connections, its optimizer, its data; everything checked.

The INI reader, the Python interface and the importers all build a `ModelSpec`, and saving writes one. It holds what was
said and nothing that follows from it: connections left out stay left out, an activation written as a key stays a key.
Nothing changes a spec or a layer of it later; the passes work on copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nntrainer_py.errors import Faults, Notice, Origin, UsageError
from nntrainer_py.graph.model_section import KNN, LOSS_OF_TYPE, ModelSection
from nntrainer_py.graph.names import Names
from nntrainer_py.layers.base import Layer
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import Configurable, Connection
from nntrainer_py.properties.kinds import NameKind
from nntrainer_py.registry import LAYERS, LOSSES, OPTIMIZERS, SCHEDULERS, Registry, lookup

#: the data sections and what each is used for
DATASET_USES = {"train_set": "train", "valid_set": "valid", "test_set": "test"}


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer: a unique name, the layer with its properties, what it reads, and where it was written.

    ``inputs`` None means that nothing was said: the layer before it, unless this one is an input of the model. Where a
    pass made this layer for one that the user wrote, ``section`` is the name of that one. ``places`` are of keys.
    """

    name: str
    layer: Layer
    inputs: tuple[Connection, ...] | None = None
    origin: Origin | None = None
    section: str = ""
    places: Mapping[str, Origin] = field(default_factory=dict)

    def at(self, key: str) -> Origin | None:
        """Where a key stands, or else the section."""
        return self.places.get(key, self.origin)

    @property
    def user_name(self) -> str:
        """The name of the section that this layer comes from."""
        return self.section or self.name


@dataclass(frozen=True, slots=True)
class SectionSpec:
    """A section that is neither a layer nor of this room, such as ``[train_set]``.

    ``settings`` are its properties, an instance of the class that its room registered (of data: one for each type).
    ``entries`` are key, text and place as they were written. ``paths`` are those properties that are paths, resolved.
    """

    name: str
    settings: Any
    entries: tuple[tuple[str, str, Origin], ...] = ()
    origin: Origin | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model that was described; see the module's text.

    ``sections`` are the sections that are neither layers nor the model, its optimizer or schedule, by name. ``path`` is
    the INI file, empty where there is none; relative paths start from ``folder``. ``places`` says where the keys
    of ``[Model]`` stand, ``notices`` are the warnings about the file.
    """

    model: ModelSection
    layers: tuple[LayerSpec, ...]
    optimizer: Optimizer | None = None
    scheduler: Configurable | None = None
    sections: Mapping[str, SectionSpec] = field(default_factory=dict)
    path: str = ""
    folder: Path = field(default_factory=Path.cwd)
    places: Mapping[str, Origin] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    def at(self, key: str) -> Origin:
        """Where a key of ``[Model]`` stands, however it is spelled, or else the file."""
        found = self.model.find_property(key)
        spellings = (key,) if found is None else found.keys
        there = (self.places[spelling] for spelling in spellings if spelling in self.places)
        return next(there, Origin(self.path, section="Model"))

    @property
    def datasets(self) -> dict[str, SectionSpec]:
        """The data sections by their use: ``train``, ``valid``, ``test``."""
        return {use: self.sections[name] for name, use in DATASET_USES.items() if name in self.sections}

    @property
    def loss(self) -> str | None:
        """The word of the model's loss: what is said, or what a regression means where no layer takes a label."""
        if self.model.loss is not None or any(takes_label(spec.layer) for spec in self.layers):
            return self.model.loss
        return LOSS_OF_TYPE.get(self.model.type or "")

    @property
    def has_loss(self) -> bool:
        """Whether anything can be trained towards: a loss of the model, or a layer that is a loss or takes a label."""
        return self.loss is not None or self.model.type == KNN or any(takes_label(spec.layer) for spec in self.layers)

    @property
    def needs_optimizer(self) -> bool:
        """Whether training is a descent; the layers that only look at labels (k nearest) learn without."""
        return self.loss is not None or any(spec.layer.is_loss for spec in self.layers)

    def layer(self, name: str) -> LayerSpec:
        """The layer of a name; KeyError when there is none."""
        for spec in self.layers:
            if spec.name == name:
                return spec
        raise KeyError(name)

    @classmethod
    def build(
        cls,
        *,
        layers: Iterable[Layer | LayerSpec | tuple[str, Layer]],
        model: ModelSection | Mapping[str, object] | None = None,
        optimizer: Optimizer | str | None = None,
        scheduler: Configurable | str | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """The spec of Python objects; `DescriptionError` with all faults.

        A layer may come with a name (``("hidden", FullyConnected(unit=3))``); otherwise it is called after its keyword
        and a running number. Its connections are its ``input_layers``, as in an INI.
        """
        faults = Faults()
        with faults.gather(Origin(section="Model")):
            settings = model if isinstance(model, ModelSection) else ModelSection(**(model or {}))
        made, schedule = None, None
        with faults.gather(Origin(section="Optimizer")):
            made = _made(optimizer, OPTIMIZERS)
        with faults.gather(Origin(section="LearningRateScheduler")):
            schedule = _made(scheduler, SCHEDULERS)
        named = _named(list(layers), faults)
        if not named:
            faults.add("a model needs at least one layer")
        faults.raise_if_any()
        return cls(
            model=settings,
            layers=named,
            optimizer=made,
            scheduler=schedule,
            folder=Path.cwd() if folder is None else Path(folder),
        )


def takes_label(layer: Layer) -> bool:
    """Whether a layer is a loss or needs a label in training."""
    return layer.is_loss or bool(getattr(layer, "needs_label", False))


def keyword_of(described: Configurable) -> str:
    """The word of a layer, loss, optimizer or schedule in an INI; `UsageError` when its class was never registered."""
    if described.keyword:
        return described.keyword
    name = type(described).__name__
    if isinstance(described, Layer):
        decorator = "register_loss" if described.is_loss else "register_layer"
    else:
        decorator = "register_optimizer" if isinstance(described, Optimizer) else "register_scheduler"
    raise UsageError(
        f'{name} has no keyword, which a description needs; write @{decorator}("{name.lower()}") above the class'
    )


def layer_class(word: str) -> type[Layer]:
    """The class behind the ``type`` of a layer section; `UsageError` with the nearest keyword for an unknown one."""
    found: type[Layer] = lookup(word, LAYERS, LOSSES)
    return found


def _made(given: Any, registry: Registry) -> Any:
    return registry.load(given)() if isinstance(given, str) else given


def _named(layers: Sequence[Layer | LayerSpec | tuple[str, Layer]], faults: Faults) -> tuple[LayerSpec, ...]:
    names = Names()
    found: list[LayerSpec | None] = []
    waiting: list[tuple[int, Layer]] = []
    for position, item in enumerate(layers):
        found.append(None)
        name, layer = (item.name, item.layer) if isinstance(item, LayerSpec) else _name_and_layer(item)
        if not isinstance(layer, Layer):
            faults.add(f"layer {position + 1}: expected a layer or a pair of name and layer, got {item!r}")
        elif name is None:
            waiting.append((position, layer))
        else:
            with faults.gather(Origin(section=name)):
                name = NameKind().check(name)
                if name in names:
                    raise UsageError("the name is used twice")
                inputs = item.inputs if isinstance(item, LayerSpec) else layer.input_layers
                found[position] = LayerSpec(names.take(name), layer, inputs, Origin(section=name))
    # names that were given win; the rest are numbered around them
    for position, layer in waiting:
        with faults.gather():
            name = names.number(keyword_of(layer))
            found[position] = LayerSpec(name, layer, layer.input_layers, Origin(section=name))
    return tuple(spec for spec in found if spec is not None)


def _name_and_layer(item: object) -> tuple[Any, Any]:
    if isinstance(item, tuple) and len(item) == 2:
        return item
    return getattr(item, "name", None), item
