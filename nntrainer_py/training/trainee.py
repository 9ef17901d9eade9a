"""What training needs of a model; `nntrainer_py.model.Model` is one. A protocol, because that stands a floor above."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from nntrainer_py.data.normalization import Normalization
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.graph.spec import ModelSpec
from nntrainer_py.memory.outcome import DataMemory
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.lowerings import Mode
from nntrainer_py.training.options import Options


class Trainee(Protocol):
    """A model in training; see `Model` for what the members mean."""

    spec: ModelSpec
    epoch: int
    normalization: Normalization | None
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None

    @property
    def compiled(self) -> Compiled: ...

    @property
    def compile_options(self) -> Options: ...

    def hold_data(self, data: DataMemory | None, uses: Sequence[tuple[Mode, int]] = ()) -> None: ...

    def require_swap_file(self, mode: Mode | None = None, copies: int = 0) -> None: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def trainable(self) -> bool: ...

    def lowered(self, mode: Mode | None = None, batch: int | None = None) -> Lowered: ...

    def weights(self) -> dict[str, NDArray[Any]]: ...

    def learning_rate(self, iteration: int) -> float: ...

    def reset_training(self) -> None: ...

    def bind(self, dataset: Any, *, labels: bool = True, class_names: Sequence[str] | None = None) -> None: ...

    def save(self, path: str | os.PathLike[str], *, training_state: bool = False) -> None: ...

    def load(self, path: str | os.PathLike[str]) -> None: ...
