"""``section.key=value`` from a command line, put into a file that was read; only keys that its section can have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nntrainer_py.errors import Faults, Origin, UsageError, did_you_mean, quoted
from nntrainer_py.graph.ini import Entry, IniFile, Section
from nntrainer_py.graph.model_section import ModelSection
from nntrainer_py.graph.sections import MODEL, OLD_DATA, OLD_DATA_KEYS, OPTIMIZER, SCHEDULER, is_special
from nntrainer_py.graph.spec import DATASET_USES, layer_class
from nntrainer_py.properties import Configurable
from nntrainer_py.registry import DATASETS, OPTIMIZERS, SCHEDULERS, SECTIONS, Registry

_TYPED: dict[str, tuple[Registry, str | None]] = {
    OPTIMIZER: (OPTIMIZERS, "adam"),
    SCHEDULER: (SCHEDULERS, None),
    **dict.fromkeys(DATASET_USES, (DATASETS, "file")),
}


def apply_overrides(ini: IniFile, overrides: Iterable[str] | str, faults: Faults | None = None) -> IniFile:
    """The file with some values replaced or added: ``["model.epochs=3", "conv1.filters = 8"]``.

    The key is what follows the last point before the equals sign, for names of layers may hold points. A section that
    is not there is added when it is none of a layer. One text alone is one override.
    `DescriptionError` for an override that cannot be, or ``faults``.
    """
    gathered = Faults() if faults is None else faults
    sections = {section.name: section for section in ini.sections}
    texts = [overrides] if isinstance(overrides, str) else overrides
    wanted = [parsed for text in texts if (parsed := _parsed(text, gathered)) is not None]
    # the type decides which other keys there are
    for name, entry, text in sorted(wanted, key=lambda item: item[1].key != "type"):
        with gathered.gather(Origin(f"--set {text}")):
            section = sections.get(name)
            if section is None:
                if not is_special(name):
                    raise UsageError(f"there is no section [{name}]{did_you_mean(name, sections)}")
                section = Section(name, 0, [], name)
            _check_key(section, entry.key)
            kept = [old for old in section.entries if old.key not in _spellings(section, entry.key)]
            sections[name] = replace(section, entries=[*kept, entry])
    if faults is None:
        gathered.raise_if_any()
    return replace(ini, sections=list(sections.values()))


def _parsed(text: str, faults: Faults) -> tuple[str, Entry, str] | None:
    left, equals, value = text.partition("=")
    name, point, key = left.strip().rpartition(".")
    if not equals or not point or not key.strip() or not value.strip():
        faults.add(f"expected section.key=value, got {quoted(text)}", Origin("--set"))
        return None
    return name.strip().lower(), Entry(key.strip().lower(), value.strip(), 0, value.strip()), text


def _check_key(section: Section, key: str) -> None:
    if key == "type" and section.name != MODEL and section.name != OLD_DATA:
        return
    if section.get("backbone") is not None:
        known = ["backbone", "trainable"]
    elif section.name == OLD_DATA:
        known = [*OLD_DATA_KEYS, "buffer_size", "buffersize"]
    else:
        known = [word for declared in _class(section).properties().values() for word in declared.keys]
    if key not in map(str.lower, known):
        raise UsageError(f"[{section.title or section.name}] has no key '{key}'{did_you_mean(key, known)}")


def _spellings(section: Section, key: str) -> set[str]:
    """Every spelling of a key, so that an override also replaces an alias of it."""
    if key == "type" or section.get("backbone") is not None or section.name == OLD_DATA:
        return {"buffer_size", "buffersize"} if key in ("buffer_size", "buffersize") else {key}
    declared = _class(section).find_property(key)
    return {key} if declared is None else set(map(str.lower, declared.keys))


def _class(section: Section) -> type[Configurable]:
    if section.name == MODEL:
        return ModelSection
    entry = section.get("type")
    if section.name in _TYPED:
        registry, default = _TYPED[section.name]
        word = entry.value if entry is not None else default
        if word is None:
            raise UsageError(f"[{section.title or section.name}] needs a type first")
        return registry.load(word)
    if section.name in SECTIONS:
        return SECTIONS.load(section.name)
    if entry is None:
        raise UsageError(f"[{section.title or section.name}] has no type")
    return layer_class(entry.value)
