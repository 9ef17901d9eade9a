"""What decides how a graph is compiled."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.model_section import CONVOLUTIONS
from nntrainer_py.memory.compile import ORDERS, MemoryOptions
from nntrainer_py.memory.nntrainer_planners import PLANNERS
from nntrainer_py.training.settings import whole

_COUNTS = {
    "threads": 1, "seed": 0, "memory_budget": 1, "lookahead": 0, "data_buffers": 0, "micro_batch": 1,
}  # fmt: skip  # and the least that each may be
_SWITCHES = ("accumulate_gradients", "in_place", "reuse", "recompute", "training", "swap", "poison")
_OPTIONAL = frozenset({"memory_budget", "lookahead", "micro_batch", "swap"})  # may be None
_WORDS = {"order": ("auto", *ORDERS), "planner": tuple(PLANNERS), "convolution": CONVOLUTIONS}
_LARGEST_SEED = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Options:
    """What decides how a graph is compiled; none of the memory options changes a number.

    Memory: see `memory.compile.MemoryOptions`. ``memory_budget`` in bytes, all of ours counted, ``data_buffers``
    batches of the data loaders too, until it is known what these take (0: data never counts). ``swap`` None: only
    where a budget cannot be met otherwise; ``swap_folder`` holds the file. ``training`` False: the budget need not do
    for training, only for what a trained model is used for.
    """

    threads: int = 1
    seed: int = 0
    convolution: str = "auto"
    accumulate_gradients: bool = False
    in_place: bool = True
    reuse: bool = True
    recompute: bool = True
    order: str = "auto"
    planner: str = "search"
    memory_budget: int | None = None
    training: bool = True
    swap: bool | None = None
    swap_folder: str = "."
    lookahead: int | None = None
    data_buffers: int = 2
    micro_batch: int | None = None  # larger batches are computed in pieces of so many samples, gradients added up
    poison: bool = False

    def __post_init__(self) -> None:
        """Every option is what its type says; UsageError otherwise."""
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                object.__setattr__(self, name, whole(name, "None" if value is None else value, least, least))
        if self.seed > _LARGEST_SEED:
            raise UsageError(f"seed: expected an integer of at most {_LARGEST_SEED}, got {self.seed}")
        for name in _SWITCHES:
            value = getattr(self, name)
            if isinstance(value, np.bool_):
                object.__setattr__(self, name, bool(value))
            elif not isinstance(value, bool) and not (value is None and name in _OPTIONAL):
                raise UsageError(f"{name}: expected True or False, got {value!r}")
        for name, words in _WORDS.items():
            word = getattr(self, name)
            if not isinstance(word, str) or word not in words:
                raise UsageError(f"{name}: expected one of {', '.join(words)}, got {word!r}")
        try:
            folder = os.fspath(self.swap_folder)
        except TypeError:
            folder = None
        if not isinstance(folder, str):
            raise UsageError(f"swap_folder: expected the path of a folder, got {self.swap_folder!r}")
        object.__setattr__(self, "swap_folder", folder)
        if self.micro_batch is not None:
            object.__setattr__(self, "accumulate_gradients", True)  # one update for all pieces of a batch

    def memory(self) -> MemoryOptions:
        """The part that the memory compiler reads."""
        return MemoryOptions(
            threads=self.threads,
            in_place=self.in_place,
            reuse=self.reuse,
            recompute=self.recompute,
            order=self.order,
            planner=self.planner,
            budget=self.memory_budget,
            swap=self.swap,
            lookahead=self.lookahead,
        )
