"""Layer sections of a file and of the backbones that it names, in one list, with names that are unique in the model.

A backbone's layers keep their names. Where a name exists already the later layer is renamed by a running number, as in
NNTrainer, but here what refers to it is renamed, too: a reference means the layer of that name in the same file, else
one of a backbone named by that file, else one of the file that named this one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from nntrainer_py.errors import DescriptionError, Faults, Origin, UsageError, did_you_mean, quoted
from nntrainer_py.graph.ini import IniFile, Section, read
from nntrainer_py.graph.names import Names
from nntrainer_py.graph.paths import find, inside
from nntrainer_py.graph.sections import is_special
from nntrainer_py.properties.kinds import BooleanKind, NameKind

MOST_LAYERS = 100_000  # backbones that name each other's copies could otherwise fill the memory

#: keys of a backbone section that NNTrainer reads and ignores for an INI
_WITHOUT_EFFECT = ("input_shape", "inputlayer", "outputlayer", "preload", "scale_size")
_KNOWN = ("backbone", "trainable")


@dataclass(eq=False, slots=True)
class Scope:
    """What the names in one file mean: its own layers, those of its backbones, then what its parent knows."""

    parent: Scope | None = None
    own: dict[str, str] = field(default_factory=dict)
    inherited: dict[str, str] = field(default_factory=dict)  # of the file's backbones

    def resolve(self, name: str) -> str:
        """The final name; a name that nobody knows stays, for the check that will say so."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.own.get(name, scope.inherited.get(name))
            if found is not None:
                return found
            scope = scope.parent
        return name


@dataclass(frozen=True, slots=True)
class Draft:
    """A layer section: its file, its final name, what names mean in it, and what a backbone says of ``trainable``."""

    ini: IniFile
    section: Section
    name: str
    scope: Scope
    trainable: bool | None

    @property
    def origin(self) -> Origin:
        """Where the section stands."""
        return self.ini.origin(self.section)


class Collector:
    """Goes through a file and its backbones in order. ``folder`` is that of the top-level file."""

    def __init__(self, folder: Path, faults: Faults) -> None:
        self.folder = folder
        self.faults = faults
        self.drafts: list[Draft] = []
        self._names = Names()
        self._files: dict[str, IniFile | None] = {}
        self._open: list[str] = []

    def collect(self, ini: IniFile, scope: Scope, *, top: bool = True, trainable: bool | None = None) -> None:
        """Add the layers of a file; ``trainable`` is what the backbone section that named it says."""
        self._open.append(os.path.realpath(ini.path) if ini.path else "")
        for section in ini.sections:
            if is_special(section.name):
                continue
            if len(self.drafts) >= MOST_LAYERS:
                self.faults.add(f"more than {MOST_LAYERS} layers", ini.origin(section))
                break
            if section.get("backbone") is not None:
                self._backbone(ini, section, scope, top, trainable)
            else:
                self._layer(ini, section, scope, trainable)
        self._open.pop()

    def _layer(self, ini: IniFile, section: Section, scope: Scope, trainable: bool | None) -> None:
        origin = ini.origin(section)
        with self.faults.gather(origin):
            wanted = NameKind().check(section.name)
            name = self._names.take(wanted)
            if name != wanted:
                self.faults.warn(f"a layer of this name exists already; this one is called {name}", origin)
            scope.own[wanted] = name
            self.drafts.append(Draft(ini, section, name, scope, trainable))

    def _backbone(self, ini: IniFile, section: Section, scope: Scope, top: bool, trainable: bool | None) -> None:
        for key, text, where in ini.items(section):
            if key in _WITHOUT_EFFECT:
                self.faults.warn("has no effect; the layers of the backbone say it", where, key)
            elif key == "trainable":
                with self.faults.gather(where, key):
                    said = BooleanKind().parse(text)
                    trainable = said if trainable is None else trainable  # the outermost section wins
            elif key != "backbone":
                hint = did_you_mean(key, (*_KNOWN, *_WITHOUT_EFFECT))
                self.faults.add(f"unknown property of a backbone section{hint}", where, key)
        entry = section.get("backbone")
        assert entry is not None
        origin = ini.origin(section, entry)
        with self.faults.gather(origin, "backbone"):
            inner = self._load(self._path(entry.value, top), entry.value, origin)
            if inner is not None:
                nested = Scope(scope)
                self.collect(inner, nested, top=False, trainable=trainable)
                for names in (nested.own, nested.inherited):
                    for wanted, name in names.items():
                        scope.inherited.setdefault(wanted, name)

    def _path(self, text: str, top: bool) -> Path:
        if not text.endswith(".ini"):
            raise UsageError(f"expected a file that ends in .ini (other kinds are not supported), got {quoted(text)}")
        return find(text, self.folder) if top else inside(text, self.folder)

    def _load(self, path: Path, text: str, origin: Origin) -> IniFile | None:
        """The file, read once however often it is named; None when it is faulty, which was said the first time."""
        real = os.path.realpath(path)
        if real in self._open:
            ring = [os.path.basename(name) for name in (*self._open[self._open.index(real) :], real)]
            raise UsageError(f"backbones name each other in a circle: {' -> '.join(ring)}")
        if real not in self._files:
            self._files[real] = None
            before = len(self.faults)
            try:
                inner = read(path, self.faults)
            except DescriptionError as error:
                raise UsageError(f"{quoted(text)} {error.faults[0].message}") from None
            if not [s for s in inner.sections if not is_special(s.name)] and len(self.faults) == before:
                raise UsageError(f"{quoted(text)} has no layers")
            self._files[real] = inner
        return self._files[real]
