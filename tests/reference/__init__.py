"""Float64 twins of the operation kinds: plain NumPy, written from the formulas, never from our kernels.

One file per family holds ``REFERENCE``: kind -> ``function(reads, attributes, state) -> {write name: array}``.
``reads`` holds float64 arrays (or the declared integer type) by operand name, and state that the kind modifies.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Operation, StepState, Value

Twin = Callable[[Mapping[str, Any], Mapping[str, Any], StepState], dict[str, Any]]


def twins() -> dict[str, Twin]:
    """Every twin of every file of this folder."""
    found: dict[str, Twin] = {}
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        for name, function in loaded.REFERENCE.items():
            assert name not in found, f"two twins for {name}"
            found[name] = function
    return found


def wide(dtype: str) -> str:
    """The type in which the interpreter holds values of ``dtype``."""
    return "float64" if np.dtype(dtype).kind == "f" else dtype


class Interpreter:
    """Runs operation records on float64 arrays."""

    def __init__(self, state: StepState | None = None) -> None:
        self.memory: dict[Value, np.ndarray[Any, Any]] = {}
        self.state = state or StepState()
        self.twins = twins()

    def __setitem__(self, value: Value, array: Any) -> None:
        root = value.root
        flat = self.memory.setdefault(root, np.zeros(root.size, wide(root.dtype)))
        flat[value.root_offset : value.root_offset + value.size] = np.asarray(array).reshape(-1)

    def __getitem__(self, value: Value) -> np.ndarray[Any, Any]:
        root = value.root
        if root not in self.memory:
            if root.fill is not None:
                self.memory[root] = root.filled().astype(wide(root.dtype)).reshape(-1).copy()
            elif root.persistent:
                self.memory[root] = np.zeros(root.size, wide(root.dtype))
        flat = self.memory[root]
        return flat[value.root_offset : value.root_offset + value.size].reshape(value.shape)

    def run(self, operations: list[Operation]) -> None:
        """Run records one after the other."""
        for operation in operations:
            reads = {name: self[value] for name, value in operation.reads.items()}
            for name in operation.kind.modifies:
                if name in operation.writes:
                    reads[name] = self[operation.writes[name]]
            made = self.twins[operation.kind.name](reads, operation.attributes, self.state)
            assert set(made) == set(operation.writes), (operation.kind.name, set(made), set(operation.writes))
            for name, value in operation.writes.items():
                array = np.asarray(made[name])
                assert array.size == value.size, (operation, name, array.shape, value.shape)
                if operation.accumulate:
                    array = array.reshape(value.shape) + self[value]
                self[value] = array
