"""Lists of operations of one model, made once for each mode and batch size.

Three modes:

* ``train``: batch statistics, dropout, losses, the way back and the updates;
* ``evaluate``: inference behaviour with the losses;
* ``predict``: inference behaviour without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Literal

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.graph.order import Graph
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.training.options import Options
from nntrainer_py.training.whole_batch import why_whole

Mode = Literal["train", "evaluate", "predict"]


class Lowerings:
    """No memory is taken. Two threads that ask for the same thing get the same thing."""

    def __init__(
        self, graph: Callable[[bool], Graph], optimizer: Optimizer | None, options: Options, lock: RLock
    ) -> None:
        self._graph = graph
        self._optimizer = optimizer
        self._options = options
        self._lock = lock
        self._graphs: dict[bool, Graph] = {}
        self._made: dict[tuple[Mode, int], Lowered] = {}

    def graph(self, mode: Mode) -> Graph:
        """The layers of a mode in canonical order, and the order of inputs and labels in the data."""
        with_loss = mode != "predict"
        if with_loss not in self._graphs:
            self._graphs[with_loss] = self._graph(with_loss)
        return self._graphs[with_loss]

    def lowered(self, mode: Mode, batch: int) -> Lowered:
        """The operations of a mode; UsageError where a batch in pieces would be computed otherwise than whole."""
        with self._lock:
            if (mode, batch) not in self._made:
                made = self._lower(mode, batch)
                if self._options.micro_batch is not None and (reason := why_whole(made)):
                    raise UsageError(f"micro_batch: batches cannot be computed in pieces: {reason}")
                self._made[mode, batch] = made
            return self._made[mode, batch]

    def _lower(self, mode: Mode, batch: int) -> Lowered:
        options = self._options
        return lower(
            self.graph(mode).nodes,
            batch=batch,
            training=mode == "train",
            labels=mode != "predict",
            metrics=mode != "predict",
            optimizer=self._optimizer if mode == "train" else None,
            accumulate_gradients=options.accumulate_gradients and mode == "train",
            seed=options.seed,
            convolution=options.convolution,
        )

    def modes(self, batch: int) -> list[Mode]:
        """What the model can do: training needs labels and, where there are weights, an optimizer."""
        found: list[Mode] = ["predict"]
        if self.lowered("evaluate", batch).labels:
            found.insert(0, "evaluate")
            if self._options.training:
                made = self.lowered("train", batch)
                if self._optimizer is not None or not made.gradients:
                    found.insert(0, "train")
        return found

    def key_of(self, lowered: Lowered) -> tuple[Mode, int]:
        """The mode and batch size for which it was made."""
        return next(key for key, made in self._made.items() if made is lowered)

    def sizes(self) -> dict[tuple[Mode, int], int]:
        """Modes and batch sizes, the oldest first, and how many operations their lists have."""
        return {key: len(made.operations) for key, made in self._made.items()}

    def forget(self, key: tuple[Mode, int]) -> None:
        """Give back the memory of one of them."""
        self._made.pop(key, None)
