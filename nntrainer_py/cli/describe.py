"""``nntrainer describe``: what a keyword means and which properties it has, from the declarations themselves.

``--write DIR`` makes the reference of the documentation from the same: ``nntrainer describe --write docs/reference``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nntrainer_py.cli.command import Parser, add_output_arguments, load_plugins, run
from nntrainer_py.errors import UsageError, did_you_mean, printable
from nntrainer_py.properties import Configurable, Property


@dataclass(frozen=True)
class Group:
    """Keywords of one kind: a page of the reference. ``shared`` has the properties that all of them have."""

    file: str
    title: str
    intro: str
    entries: dict[str, type[Configurable]]
    aliases: dict[str, str]
    shared: type[Configurable] | None


def groups() -> list[Group]:
    """Everything that has a keyword, plugins that were loaded included."""
    from nntrainer_py import registry
    from nntrainer_py.data.sections import DatasetSection, OldDatasetSection
    from nntrainer_py.graph.model_section import ModelSection
    from nntrainer_py.layers.base import Layer
    from nntrainer_py.losses.base import Loss
    from nntrainer_py.optimizers.base import Optimizer

    def group(file: str, title: str, intro: str, table: registry.Registry, shared: type[Configurable] | None) -> Group:
        return Group(file, title, intro, {word: table.load(word) for word in table.words()}, table.aliases(), shared)

    fixed: dict[str, type[Configurable]] = {"Model": ModelSection, "DataSet": OldDatasetSection}
    fixed |= {word: registry.SECTIONS.load(word) for word in registry.SECTIONS.words()}
    return [
        Group("sections", "Sections", "Sections that are no layers and have no `type`.", fixed, {}, None),
        group("layers", "Layers", "The `type` of a layer section.", registry.LAYERS, Layer),
        group(
            "losses", "Losses", "The word of `loss` in `[Model]`, or the `type` of a section of its own.",
            registry.LOSSES, Loss,
        ),
        group("optimizers", "Optimizers", "The `type` of `[Optimizer]`.", registry.OPTIMIZERS, Optimizer),
        group(
            "schedules", "Learning-rate schedules", "The `type` of `[LearningRateScheduler]`.", registry.SCHEDULERS,
            _common_base(registry.SCHEDULERS),
        ),
        group(
            "data", "Data", "The `type` of `[train_set]`, `[valid_set]` and `[test_set]`.", registry.DATASETS,
            DatasetSection,
        ),
    ]  # fmt: skip


def _common_base(table: Any) -> type[Configurable] | None:
    bases = [cls.__mro__ for cls in (table.load(word) for word in table.words())]
    common = [base for base in bases[0] if all(base in chain for chain in bases[1:])] if bases else []
    return next((base for base in common if issubclass(base, Configurable) and base is not Configurable), None)


def parser(prog: str = "nntrainer describe") -> Parser:
    """The options of the command."""
    made = Parser(
        prog,
        "Explain a word of model files: what a keyword does and which properties it has, or what a property means and "
        "what has it. Without a word: the list of keywords.",
        f"{prog} conv2d",
    )
    made.add_argument(
        "keyword",
        nargs="?",
        metavar="KEYWORD",
        help="a layer, loss, optimizer, schedule, data or section, or a key of one",
    )
    made.add_argument("--plugin", dest="plugins", action="append", default=[], metavar="FILE.py", help="a plugin, too")
    made.add_argument("--write", metavar="DIR", help="write the whole reference as Markdown")
    add_output_arguments(made)
    return made


def main(argv: Sequence[str] | None = None, prog: str = "nntrainer describe") -> int:
    """Run the command; returns its exit code."""
    return run(parser(prog), describe, argv)


def describe(arguments: argparse.Namespace) -> int:
    """The command itself."""
    load_plugins(arguments.plugins)
    if arguments.write is not None:
        return _write(Path(arguments.write))
    if arguments.keyword is None:
        print(json.dumps(_all_words()) if arguments.json else _overview())
        return 0
    found = list(_find(arguments.keyword))
    keys = [] if found else list(_find_key(arguments.keyword))
    if keys:
        print(json.dumps([_key_record(*key) for key in keys]) if arguments.json else _keys_text(keys))
        return 0
    if not found:
        known = [word for group in groups() for word in (*group.entries, *group.aliases)]
        known += [key for _, _, properties in _key_owners() for one in properties.values() for key in one.keys]
        hint = did_you_mean(arguments.keyword, known)
        raise UsageError(f"unknown keyword: {printable(arguments.keyword)}{hint}")
    if arguments.json:
        print(json.dumps([_entry_record(group, word) for group, word in found]))
    else:
        print("\n\n".join(_entry_text(group, word) for group, word in found))
    return 0


def _find(word: str) -> Iterator[tuple[Group, str]]:
    """Every group that has the keyword: `cosine` is a schedule, and an alias of a layer."""
    for group in groups():
        keywords = {keyword.lower(): keyword for keyword in group.entries}
        lowered = word.strip().lower()
        lowered = lowered if lowered in keywords else group.aliases.get(lowered, lowered)
        if lowered in keywords:
            yield group, keywords[lowered]


def _key_owners() -> Iterator[tuple[Group, str | None, dict[str, Property[Any]]]]:
    """Every group and keyword with its own properties; without a keyword those that a whole group has."""
    for group in groups():
        if group.shared is not None:
            yield group, None, dict(group.shared.properties())
        for word, cls in group.entries.items():
            yield group, word, own_properties(cls, group.shared)


def _find_key(key: str) -> Iterator[tuple[Group, str | None, str, Property[Any]]]:
    """Every place that has a property of this name or with this other spelling."""
    wanted = key.strip().lower()
    for group, word, properties in _key_owners():
        for name, found in properties.items():
            if wanted in found.keys:
                yield group, word, name, found


def _keys_text(keys: Sequence[tuple[Group, str | None, str, Property[Any]]]) -> str:
    """Alike properties together, below the list of those that have them."""
    owners: dict[str, list[str]] = {}
    for group, word, name, found in keys:
        if word is None:
            owner = f"all {group.title.lower()}"
        else:
            owner = f"[{word}]" if group.file == "sections" else word
        owners.setdefault("\n".join(_property_lines({name: found})), []).append(owner)
    return "\n\n".join(f"key of {', '.join(having)}\n{text}" for text, having in owners.items())


def _key_record(group: Group, word: str | None, name: str, found: Property[Any]) -> dict[str, Any]:
    return {"keyword": word, "group": group.file, **_property_record(name, found)}


def _property_record(name: str, found: Property[Any]) -> dict[str, Any]:
    return {
        "key": name,
        "aliases": list(found.aliases),
        "value": _syntax(found),
        "default": found.describe_default(),
        "required": found.required,
        "meaning": found.doc,
    }


def _all_words() -> dict[str, list[str]]:
    return {group.file: list(group.entries) for group in groups()}


def _overview() -> str:
    parts = []
    for group in groups():
        width = max(map(len, group.entries), default=0)
        lines = [f"  {word.ljust(width)}  {_plain(summary(cls))}" for word, cls in group.entries.items()]
        parts.append("\n".join([f"{group.title}: {_plain(group.intro)}", *lines]))
    return "\n\n".join(parts)


def summary(cls: type) -> str:
    """The first sentence of a class's text."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split())


def own_properties(cls: type[Configurable], shared: type[Configurable] | None) -> dict[str, Property[Any]]:
    """The properties of a class that are not simply those that its whole group has."""
    common = {} if shared is None else shared.properties()
    return {name: found for name, found in cls.properties().items() if common.get(name) is not found}


def _syntax(found: Property[Any]) -> str:
    return found.describe()


def _entry_text(group: Group, word: str) -> str:
    cls = group.entries[word]
    others = [alias for alias, target in group.aliases.items() if target == word]
    one = {"data": "type of data", "losses": "loss"}.get(group.file) or group.title.lower().removesuffix("s")
    text = [f"{word} ({one})"]
    if others:
        text.append(f"also written {', '.join(others)}")
    text.append("")
    text.append(_plain(inspect.cleandoc(cls.__doc__ or "")))
    own = own_properties(cls, group.shared)
    text += ["", *(_property_lines(own) if own else ["no properties of its own"])]
    if group.shared is not None:
        names = [name for name in group.shared.properties() if name not in own and name in cls.properties()]
        if names:
            text += ["", f"and those of all {group.title.lower()}:", *_property_lines(
                {name: group.shared.properties()[name] for name in names})]  # fmt: skip
    return "\n".join(text)


def _property_lines(properties: dict[str, Property[Any]]) -> list[str]:
    lines = []
    for name, found in properties.items():
        also = f" (also {', '.join(found.aliases)})" if found.aliases else ""
        lines.append(f"  {name}{also}: {_plain(found.doc)}")
        lines.append(f"      {_syntax(found)}; {_default(found)}")
    return lines


def _default(found: Property[Any]) -> str:
    text = found.describe_default()
    return text if text in ("required", "unset") else f"default {text}"


def _entry_record(group: Group, word: str) -> dict[str, Any]:
    cls = group.entries[word]
    return {
        "keyword": word,
        "group": group.file,
        "text": inspect.cleandoc(cls.__doc__ or ""),
        "properties": [_property_record(name, found) for name, found in cls.properties().items()],
    }


def _plain(text: str) -> str:
    """Docstring markup taken out for the terminal."""
    return re.sub(r":[a-z]+:`~?([^`]*)`", r"\1", text).replace("``", "").replace("`", "")


def pages() -> dict[str, str]:
    """The reference: file name to Markdown."""
    found = groups()
    made = {f"{group.file}.md": _page(group) for group in found}
    lines = ["# Reference", "", "Generated from the declarations by `nntrainer describe --write docs/reference`.", ""]
    for group in found:
        lines += [f"## [{group.title}]({group.file}.md)", "", group.intro, "", "| Word | Meaning |", "| --- | --- |"]
        lines += [
            f"| [{word}]({group.file}.md#{word.lower()}) | {_cell(summary(cls))} |"
            for word, cls in group.entries.items()
        ]
        lines.append("")
    made["README.md"] = "\n".join(lines)
    return made


def _page(group: Group) -> str:
    lines = [f"# {group.title}", "", f"{group.intro} Generated from the declarations; see [the list](README.md).", ""]
    shared = {} if group.shared is None else group.shared.properties()
    if shared:
        lines += [f"## Properties of all {group.title.lower()}", "", *_markdown_table(shared), ""]
    for word, cls in group.entries.items():
        lines += [f"## {word}", "", _markdown(inspect.cleandoc(cls.__doc__ or "")), ""]
        others = [alias for alias, target in group.aliases.items() if target == word]
        if others:
            lines += [f"Also written {', '.join(f'`{other}`' for other in others)}.", ""]
        own = own_properties(cls, group.shared)
        missing = [name for name in shared if name not in cls.properties()]
        lines += [*(_markdown_table(own) if own else ["No properties of its own."]), ""]
        if missing:
            lines += [f"Without {', '.join(f'`{name}`' for name in missing)}.", ""]
    return "\n".join(lines)


def _markdown_table(properties: dict[str, Property[Any]]) -> list[str]:
    lines = ["| Key | Value | Default | Meaning |", "| --- | --- | --- | --- |"]
    for found in properties.values():
        keys = ", ".join(f"`{key}`" for key in found.keys)
        default = found.describe_default()
        shown = default if default in ("required", "unset") else f"`{default}`"
        lines.append(f"| {keys} | {_cell(_syntax(found))} | {_cell(shown)} | {_cell(found.doc)} |")
    return lines


def _cell(text: str) -> str:
    return _markdown(text).replace("|", "\\|").replace("\n", " ")


def _markdown(text: str) -> str:
    """Docstring markup as Markdown."""
    return re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


def _write(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages().items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{printable(str(folder))}: {error.strerror or error}", key="--write") from None
    print(f"{len(pages())} pages are in {printable(str(folder))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
