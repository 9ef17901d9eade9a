"""Whether a run that goes on is of the same model as when it began, beyond the shapes of its weights.

What is compared is what the numbers follow from: layers, their connections and properties, the loss, the optimizer, how
the training samples are ordered and scaled. Epochs, paths, threads and everything about memory may change, and so may
the numbers of a schedule (its kind may not). Seed, batch size and the number of samples are compared elsewhere, with
what the checkpoint says of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nntrainer_py.errors import NNTrainerError, Origin, UsageError, printable
from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.ini import read
from nntrainer_py.graph.model_section import KNN, LOSS_OF_TYPE
from nntrainer_py.graph.save import to_text
from nntrainer_py.graph.sections import is_path
from nntrainer_py.graph.spec import ModelSpec, keyword_of
from nntrainer_py.properties import Configurable

#: keys of ``[Model]`` that change no number, or none beyond rounding; those that are compared elsewhere, with the run;
#: loss and type, which say the same in several ways
_FREE_OF_MODEL = {
    "epochs", "save_path", "save_best_path", "continue_train", "memory_optimization", "fsu", "fsu_path",
    "fsu_lookahead", "model_tensor_type", "threads", "memory_budget", "convolution", "micro_batches",
    "seed", "batch_size", "gradient_accumulation", "loss", "type",
}  # fmt: skip
#: keys of layers that have no effect; connections are compared as they come out
_FREE_OF_LAYERS = {"engine", "weight_dtype", "packed", "input_layers"}
#: the end of keys that only matter before the first step
_INITIAL = "_initializer"
#: how training samples are scaled; the file, its type and how it is read may change
_SCALING = ("normalization", "normalization_scope")
_TRAIN = "train_set"


@dataclass(frozen=True, slots=True)
class _Difference:
    """A key that changed, and both values as INI text; ``key`` is empty where it is the whole section."""

    section: str
    key: str
    before: str
    now: str


def require_same_model(path: str, stored: str, spec: ModelSpec) -> None:
    """Compare the description in a checkpoint with that of the model that is to go on from it.

    Args:
        path: the checkpoint, for messages.
        stored: its INI text; empty where the run had a layer that no INI can name, and then nothing is compared.

    Raises:
        UsageError: something differs that the numbers follow from; located at the key.
    """
    text = to_text(spec) if stored else ""
    if text == stored:
        return
    where = printable(path)
    try:
        before = load_text(stored, spec.folder)
    except NNTrainerError as error:
        raise UsageError(f"{where}: the model of the run to go on cannot be described here: {error}") from None
    found = next(_differences(before, load_text(text, spec.folder)), None)
    if found is not None:
        raise UsageError(
            f"{where}: the run to go on had {printable(found.before)}, this one has {printable(found.now)}; "
            "it can only go on as it began",
            origin=_place(spec, found), key=found.key,
        )  # fmt: skip


def _differences(before: ModelSpec, now: ModelSpec) -> Iterator[_Difference]:
    for key, old, new in (("type", _type(before), _type(now)), ("loss", before.loss, now.loss)):
        if old != new:
            yield _Difference("Model", key, old or "unset", new or "unset")
    yield from _changed("Model", before.model, now.model, _FREE_OF_MODEL)
    yield from _of_layers(before, now)
    if before.optimizer is not None and now.optimizer is not None:
        yield from _changed("Optimizer", before.optimizer, now.optimizer)
    yield from _of_samples(before, now)


def _of_layers(before: ModelSpec, now: ModelSpec) -> Iterator[_Difference]:
    earlier = {spec.name: spec.layer for spec in before.layers}
    later = {spec.name: spec.layer for spec in now.layers}
    for name in earlier:
        if name not in later:
            yield _Difference(name, "", "such a layer", "none")
    for name in later:
        if name not in earlier:
            yield _Difference(name, "", "no such layer", "one")
    inputs_before, inputs_now = _inputs(before), _inputs(now)
    for name in later:
        old, new = keyword_of(earlier[name]), keyword_of(later[name])
        if old != new:
            yield _Difference(name, "type", old, new)
        else:
            yield from _changed(name, earlier[name], later[name], _FREE_OF_LAYERS)
        if inputs_before[name] != inputs_now[name]:
            yield _Difference(name, "input_layers", inputs_before[name] or "unset", inputs_now[name] or "unset")


def _of_samples(before: ModelSpec, now: ModelSpec) -> Iterator[_Difference]:
    """Order and scaling of the training samples, where both models say something of them."""
    if _TRAIN not in before.sections or _TRAIN not in now.sections:
        return
    old, new = before.sections[_TRAIN].settings, now.sections[_TRAIN].settings
    shuffled = [settings.shuffled("train") for settings in (old, new)]
    if shuffled[0] != shuffled[1]:
        yield _Difference(_TRAIN, "shuffle", *(str(value).lower() for value in shuffled))
    if all(shuffled) and old.shuffle_kind != new.shuffle_kind:
        yield _Difference(_TRAIN, "shuffle_kind", old.shuffle_kind, new.shuffle_kind)
    for key in _SCALING if {old.normalization, new.normalization} != {"none"} else ():
        if getattr(old, key) != getattr(new, key):
            yield _Difference(_TRAIN, key, getattr(old, key), getattr(new, key))


def _changed(
    section: str, before: Configurable, now: Configurable, free: Collection[str] = ()
) -> Iterator[_Difference]:
    """What differs between two of one class; a default that is spelled out is the same as one that is not."""
    declared = type(now).properties()
    for key, declaration in declared.items():
        if key in free or key.endswith(_INITIAL) or is_path(declared, key):
            continue
        old, new = getattr(before, key), getattr(now, key)
        if old != new:
            yield _Difference(section, key, *("unset" if v is None else declaration.format(v) for v in (old, new)))


def _inputs(spec: ModelSpec) -> dict[str, str]:
    """What each layer reads: where nothing is said, the layer before it."""
    found: dict[str, str] = {}
    last = ""
    for layer in spec.layers:
        found[layer.name] = last if layer.inputs is None else ", ".join(map(str, layer.inputs))
        last = layer.name
    return found


def _type(spec: ModelSpec) -> str | None:
    """The type of a model where it means anything."""
    word = spec.model.type
    return word if word == KNN or word in LOSS_OF_TYPE else None


def _place(spec: ModelSpec, difference: _Difference) -> Origin:
    """Where a key stands now, or else its section, or else the file."""
    for layer in spec.layers:
        if layer.name == difference.section:
            spellings = _spellings(layer.layer, difference.key)
            there = [layer.places[key] for key in spellings if key in layer.places]
            return (there or [layer.origin or Origin(spec.path, section=layer.name)])[0]
    nowhere = Origin(spec.path, section=difference.section)
    if difference.section == "Model":
        return spec.at(difference.key)
    if difference.section == _TRAIN:
        entries = spec.sections[_TRAIN].entries
        return next((place for key, _, place in entries if key == difference.key), nowhere)
    try:
        ini = read(spec.path) if spec.path else None
    except NNTrainerError:
        return nowhere  # the file is gone meanwhile, which the caller's message need not tell
    section = ini.get(difference.section) if ini is not None else None
    if ini is None or section is None or spec.optimizer is None:
        return nowhere
    found = [entry for entry in section.entries if entry.key in _spellings(spec.optimizer, difference.key)]
    return ini.origin(section, found[0] if found else None)


def _spellings(described: Configurable, key: str) -> tuple[str, ...]:
    found = described.find_property(key)
    return (key,) if found is None else tuple(spelling.lower() for spelling in found.keys)
