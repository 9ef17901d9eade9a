"""A `ModelSpec` as INI text. Reading it gives the same network, and writing that the same text.

What was said is written, defaults are not: a spec that came from an INI comes out much like it. Layers of backbones are
written as layers, schedules get their own section (NNTrainer's writer loses them), and the older forms of optimizer,
schedule and data come out in today's form.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from nntrainer_py.errors import UsageError, quoted
from nntrainer_py.graph.ini import Entry, Section, dump
from nntrainer_py.graph.passes import PASSES, distribute, model_properties, realize
from nntrainer_py.graph.paths import folder_of
from nntrainer_py.graph.sections import is_path
from nntrainer_py.graph.spec import LayerSpec, ModelSpec, SectionSpec, keyword_of
from nntrainer_py.properties import Configurable

#: properties that the realized form has turned into layers
_REALIZED = {"activation", "flatten"}
#: passes whose result is no longer what one can write: a layer inside another, values of the model in its layers
_NOT_WRITTEN = (distribute, model_properties)


def save_ini(spec: ModelSpec, path: str | os.PathLike[str], *, overwrite: bool = False, realized: bool = False) -> None:
    """Write the INI file of a spec; see `to_text`. `UsageError` when the file exists and ``overwrite`` is off.

    The file is written whole or not at all.
    """
    target = Path(path)
    text = to_text(spec, folder_of(target), realized=realized)
    # beside the target, so that the last step is a rename inside one file system
    made = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(made, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not overwrite:
            target.touch(exist_ok=False)  # takes the name, or fails where somebody has it
        os.replace(made, target)
    except FileExistsError:
        raise UsageError(f"{quoted(str(path))} exists; it is only overwritten when asked for") from None
    except OSError as error:
        raise UsageError(f"{quoted(str(path))} cannot be written: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)


def to_text(spec: ModelSpec, folder: Path | None = None, *, realized: bool = False) -> str:
    """The INI text of a spec, for a file in ``folder`` (the spec's own by default).

    Where that is another folder, relative paths are written out in full. ``realized`` writes the layers as the passes
    leave them: every connection, and activations and the like as layers; the model's loss stays a key.
    """
    moved = folder is not None and folder != spec.folder
    sections = [_section("Model", None, spec.model, spec.folder if moved else None)]
    if spec.optimizer is not None:
        entries = _section("Optimizer", keyword_of(spec.optimizer), spec.optimizer)
        if spec.scheduler is not None:
            # it would have no effect, and reading it would warn of that
            entries = replace(entries, entries=[entry for entry in entries.entries if entry.key != "learning_rate"])
        sections.append(entries)
    if spec.scheduler is not None:
        sections.append(_section("LearningRateScheduler", keyword_of(spec.scheduler), spec.scheduler))
    sections += [_other(section, moved) for section in spec.sections.values()]
    layers: Iterable[LayerSpec] = spec.layers
    if realized:
        layers = realize(spec, training=False, passes=[step for step in PASSES if step not in _NOT_WRITTEN])
    sections += [_layer(layer, spec.folder if moved else None, realized) for layer in layers]
    return dump(sections)


def _section(title: str, word: str | None, described: Configurable, folder: Path | None = None) -> Section:
    """A section of the values that were given; relative paths are written out, from ``folder``, where that is given."""
    entries = [Entry("type", word)] if word is not None else []
    declared = type(described).properties()
    for key, text in described.texts().items():
        whole = folder is not None and is_path(declared, key)
        entries.append(Entry(key, str(folder / text) if whole and folder is not None else text))
    if not entries:
        # a section without a key cannot be read back, so that one default is spelled out
        key, first = next(iter(declared.items()))
        entries.append(Entry(key, first.describe_default()))
    return Section(title.lower(), 0, entries, title)


def _other(section: SectionSpec, moved: bool) -> Section:
    entries = [
        Entry(key, str(section.paths[key].absolute()) if moved and key in section.paths else text)
        for key, text, _ in section.entries
    ]
    return Section(section.name, 0, entries, section.name)


def _layer(spec: LayerSpec, folder: Path | None, realized: bool) -> Section:
    section = _section(spec.name, keyword_of(spec.layer), spec.layer, folder)
    dropped = {"input_layers"}
    if realized and spec.layer.keyword != "activation":
        dropped |= _REALIZED
    entries = [entry for entry in section.entries if entry.key not in dropped]
    if spec.inputs:
        entries.insert(1, Entry("input_layers", ",".join(map(str, spec.inputs))))
    return replace(section, entries=entries)
