"""What no machine can hold is refused at the layer that asks for it, before sizes overflow anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nntrainer_py.errors import DescriptionError, Fault
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Operation

MOST_BYTES = 1 << 47
"""What a process can address on the processors of today."""

_FLOAT = 4


def require_addressable(dims: Iterable[TensorDim]) -> None:
    """ValueError where a tensor of float32 is larger than that."""
    for dim in dims:
        if _FLOAT * dim.size > MOST_BYTES:
            raise ValueError(_too_large(dim.shape))


def require_addressable_values(operations: Sequence[Operation]) -> None:
    """DescriptionError where what a layer computes on its way is."""
    faults: dict[str, Fault] = {}
    for operation in operations:
        for value in operation.writes.values():
            if value.nbytes > MOST_BYTES and operation.layer not in faults:
                file, line = getattr(operation.origin, "file", ""), getattr(operation.origin, "line", 0)
                where = operation.layer, operation.kind.name
                faults[operation.layer] = Fault(file, line, *where, _too_large(value.shape))
    if faults:
        raise DescriptionError(list(faults.values()))


def _too_large(shape: Sequence[int]) -> str:
    size = _FLOAT * math.prod(shape)
    return f"a tensor of {':'.join(map(str, shape))} takes {size:.3g} bytes, more than a process can address"
