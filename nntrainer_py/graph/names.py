"""Names of layers: unique in a model, made where a layer has none, renamed as NNTrainer does where two clash."""

from __future__ import annotations

from collections.abc import Collection

from nntrainer_py.errors import Faults, did_you_mean

_MOST_HINTS = 100


def hint(word: str, known: Collection[str], faults: Faults) -> str:
    """A hint at the name that was meant, for the first faults only: comparing many names with many takes long."""
    return did_you_mean(word, known) if len(faults) < _MOST_HINTS else ""


class Names:
    """The names taken so far. One running number serves all names that need one (graph_core.cpp, ``ensureName``)."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next = 0

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, wanted: str) -> str:
        """``wanted`` if it is free, else with the next number behind it that makes it free."""
        return self._keep(wanted) if wanted not in self._taken else self.number(wanted)

    def number(self, stem: str) -> str:
        """``stem`` with the next number behind it that makes it free: the name of a layer that was given none."""
        while True:
            name = f"{stem}{self._next}"
            self._next += 1
            if name not in self._taken:
                return self._keep(name)

    def _keep(self, name: str) -> str:
        self._taken.add(name)
        return name
