"""An INI file to a `ModelSpec`: every word looked up, every value checked, every fault reported at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from nntrainer_py.errors import Faults, Origin, UsageError, nearest
from nntrainer_py.graph.backbone import Collector, Draft, Scope
from nntrainer_py.graph.ini import IniFile, Section, parse, read
from nntrainer_py.graph.model_section import ModelSection
from nntrainer_py.graph.names import hint
from nntrainer_py.graph.obsolete import LAYER_KEYS, TYPES, modern_sections, obsolete
from nntrainer_py.graph.order import arrange
from nntrainer_py.graph.overrides import apply_overrides
from nntrainer_py.graph.paths import folder_of, inside
from nntrainer_py.graph.sections import MODEL, Specials, is_path, section_names
from nntrainer_py.graph.spec import LayerSpec, ModelSpec, layer_class
from nntrainer_py.layers.base import Layer
from nntrainer_py.properties import Connection
from nntrainer_py.registry import LAYERS

#: keys of every layer of which one value is used whatever is written
_IN_FORCE = {"engine": "cpu", "weight_dtype": "FP32"}


def load_ini(path: str | os.PathLike[str], overrides: Iterable[str] | str = ()) -> ModelSpec:
    """The spec of an INI file, with ``section.key=value`` overrides; `DescriptionError` with all its faults."""
    faults = Faults()
    return describe(apply_overrides(read(path, faults), overrides, faults), faults=faults)


def load_text(text: str, folder: str | os.PathLike[str] | None = None, name: str = "") -> ModelSpec:
    """The spec of an INI text, whose relative paths start from ``folder`` (the working folder by default)."""
    faults = Faults()
    return describe(parse(text, name, faults), Path.cwd() if folder is None else Path(folder), faults)


def describe(ini: IniFile, folder: Path | None = None, faults: Faults | None = None) -> ModelSpec:
    """The spec of a file that was read; ``faults`` may hold what was found wrong before. Raises like `load_ini`."""
    gathered = faults if faults is not None else Faults()
    if faults is None:
        gathered.notices.extend(ini.notices)
    home = folder or (folder_of(ini.path) if ini.path else Path.cwd())
    ini = modern_sections(ini, gathered)
    specials = Specials(ini, home, gathered)
    specials.read()
    layers, whole = _layers(ini, home, gathered)
    spec = ModelSpec(
        model=specials.model or ModelSection(),
        layers=layers,
        optimizer=specials.optimizer,
        scheduler=specials.scheduler,
        sections=specials.sections,
        path=ini.path,
        folder=home,
        places=_places(ini, ini.get(MODEL)),
    )
    if whole:
        arrange(spec, training=True, faults=gathered)
    gathered.raise_if_any()
    return replace(spec, notices=tuple(gathered.notices))


@dataclass(frozen=True, slots=True)
class _Reference:
    """A layer that another one names, and where."""

    name: str
    key: str
    origin: Origin


def _layers(ini: IniFile, folder: Path, faults: Faults) -> tuple[tuple[LayerSpec, ...], bool]:
    """The layers that could be made, and whether these are all of them."""
    before = len(faults)
    collector = Collector(folder, faults)
    collector.collect(ini, Scope())
    if not collector.drafts and len(faults) == before:
        faults.add("the model has no layers", Origin(ini.path))
    found = [_layer(draft, folder, faults) for draft in collector.drafts]
    whole = bool(found) and all(spec is not None for spec in found) and len(faults) == before
    if not whole:
        _check_references(collector.drafts, faults)
    return tuple(spec for spec in found if spec is not None), whole


def _layer(draft: Draft, folder: Path, faults: Faults) -> LayerSpec | None:
    """One layer section. Its connections and ``shared_from`` get the final names."""
    cls = _class(draft, faults)
    if cls is None:
        return None
    entries = []
    for key, text, where in draft.ini.items(draft.section):
        if key == "name" and cls.find_property(key) is None:
            if text.strip().lower() != draft.section.name:
                faults.warn("has no effect; the name of the section is the name of the layer", where, key)
        elif key in LAYER_KEYS and cls.find_property(key) is None:
            faults.add(obsolete(LAYER_KEYS[key]), where, key)
        elif key != "type":
            entries.append((key, text, where))
    layer = cls.from_texts(entries, faults, draft.origin)
    if layer is None:
        return None
    if draft.scope.parent is not None:
        for key, text in _paths(layer).items():
            with faults.gather(draft.origin, key):
                inside(text, folder)
    if draft.trainable is not None:
        layer.trainable = draft.trainable
    if layer.shared_from is not None:
        layer.shared_from = draft.scope.resolve(layer.shared_from)
    for key, used in _IN_FORCE.items():
        if str(getattr(layer, key) or used).lower() != used.lower():
            faults.warn(f"has no effect; {used} is in force", _places(draft.ini, draft.section).get(key), key)
    if layer.distribute and layer.flatten:
        faults.warn("has no effect on a distributed layer; add a flatten section", draft.origin, "flatten")
    inputs = layer.input_layers
    if inputs is not None:
        inputs = tuple(Connection(draft.scope.resolve(c.name), c.output) for c in inputs)
    return LayerSpec(draft.name, layer, inputs, draft.origin, places=_places(draft.ini, draft.section))


def _class(draft: Draft, faults: Faults) -> type[Layer] | None:
    entry = draft.section.get("type")
    if entry is None:
        if "type" not in faults.keys(draft.origin):
            faults.add(f"required, expected the keyword of a layer{_misspelled(draft)}", draft.origin, "type")
        return None
    found: type[Layer] | None = None
    with faults.gather(draft.ini.origin(draft.section, entry), "type"):
        word = entry.value.strip().lower()
        if word in TYPES and word not in LAYERS:
            raise UsageError(f"'{entry.value}' is {obsolete(TYPES[word])}")
        if word == "cross":
            raise UsageError("'cross' is a word of [Model] loss; a section is of type cross_softmax or cross_sigmoid")
        try:
            found = _old_output(draft) if word == "output" else layer_class(entry.value)
        except UsageError as error:
            raise UsageError(error.message + _misspelled(draft)) from None
    return found


def _places(ini: IniFile, section: Section | None) -> dict[str, Origin]:
    return {key: where for key, _, where in ini.items(section)} if section is not None else {}


def _paths(layer: Layer) -> dict[str, str]:
    declared = type(layer).properties()
    return {key: text for key, text in layer.texts().items() if is_path(declared, key)}


def _old_output(draft: Draft) -> type[Layer]:
    """``type = output`` of older files: what it reads is copied to as many outputs as are read."""
    several = "," in getattr(draft.section.get("input_layers"), "value", "")
    return layer_class("identity" if several else "multiout")


def _misspelled(draft: Draft) -> str:
    """A hint where a section that was taken for a layer is more likely one of the others, misspelled."""
    word = nearest(draft.section.name, section_names())
    return f"; if it is no layer, did you mean the section [{word}]?" if word else ""


def _check_references(drafts: list[Draft], faults: Faults) -> None:
    """Names of layers that do not exist, also where the layers themselves could not all be made."""
    names = {draft.name for draft in drafts}
    for draft in drafts:
        for reference in _references(draft):
            if draft.scope.resolve(reference.name) not in names:
                near = hint(reference.name, names, faults)
                faults.add(f"there is no layer '{reference.name}'{near}", reference.origin, reference.key)


def _references(draft: Draft) -> Iterable[_Reference]:
    properties = Layer.properties()
    silent = Faults()  # a value that is no name at all was reported when the layer was tried
    for key, text, where in draft.ini.items(draft.section):
        if key in ("input_layers", "shared_from"):
            with silent.gather():
                value = properties[key].parse(text, lambda _: None)
                named = [c.name for c in value] if key == "input_layers" else [value]
                yield from [_Reference(name, key, where) for name in named]
