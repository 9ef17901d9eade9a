"""Element types of tensors: which exist, what they are called, and which type an operation computes in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.errors import PropertyError, UsageError, did_you_mean

Array = npt.NDArray[Any]
Scalar = bool | int | float

#: NNTrainer's names and NumPy's
DTYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype(np.float32),
    "FP16": np.dtype(np.float16),
    "QINT8": np.dtype(np.int8),
    "QINT16": np.dtype(np.int16),
    **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32)},
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", "bool")},
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def dtype_of(name: Any) -> np.dtype[Any]:
    """The element type of a name (``"FP16"``, ``"float16"``) or of anything NumPy takes as one; PropertyError else."""
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    try:
        found: np.dtype[Any] | None = np.dtype(name).newbyteorder("=")
    except TypeError:
        found = None
    if found is None or found not in DTYPES.values():
        hint = did_you_mean(name, DTYPES) if isinstance(name, str) else ""
        raise PropertyError(f"one of {', '.join(DTYPES)}", name, key="dtype", hint=hint)
    return found


def is_operand(value: object) -> bool:
    """Whether arithmetic with a tensor makes sense: a tensor, an array of numbers or a number."""
    if isinstance(value, (bool, int, float)):
        return True
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf" and hasattr(value, "__array__")


def operand_of(value: Any, operation: str) -> Array | Scalar:
    """An array of up to four axes, or a plain number.

    A number of NumPy's own becomes Python's, so that it does not widen a float32 tensor to float64.
    """
    if not is_operand(value):
        raise UsageError(f"{operation}: expected a tensor, an array or a number, got {type(value).__name__}")
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return value
    array = np.asarray(value)
    if array.ndim == 0:
        number: Scalar = array.item()
        return number
    if array.ndim > 4:
        raise UsageError(f"{operation}: a tensor has at most 4 axes, got an array of shape {array.shape}")
    return array


def result_dtype(ufunc: np.ufunc, operation: str, *operands: Array | Scalar | np.dtype[Any]) -> np.dtype[Any]:
    """The type that ``ufunc`` gives: NumPy's rule, but integers become float32 where NumPy makes them float64."""
    types = [item if isinstance(item, np.dtype) else _weak(item) for item in operands]
    try:
        found = ufunc.resolve_dtypes((*types, *(None,) * ufunc.nout))[-1]
    except TypeError:
        names = " and ".join(str(item) if isinstance(item, np.dtype) else item.__name__ for item in types)
        raise UsageError(f"{operation}: not defined for {names}") from None
    # a number has no type of its own: int8 * 0.5 is float32, as is int8 / int8, which NumPy makes float16
    floating = any(isinstance(item, np.dtype) and item.kind == "f" for item in types)
    return np.dtype(np.float32) if found.kind == "f" and not floating else _narrowed(found, types)


def broadcast(operation: str, *operands: Array | Scalar | tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of arrays, shapes and numbers; UsageError that shows the shapes when there is none."""
    shapes = [item if isinstance(item, tuple) else np.shape(item) for item in operands]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        shown = " and ".join(map(str, shapes))
        raise UsageError(f"{operation}: shapes {shown} do not fit together") from None


def _narrowed(found: np.dtype[Any], types: list[Any]) -> np.dtype[Any]:
    """float32 where float64 came from float32 or float16 beside wide integers only."""
    double = np.dtype(np.float64)
    wanted = any(isinstance(item, np.dtype) and item == double for item in types)
    return np.dtype(np.float32) if found == double and not wanted else found


def _weak(value: Array | Scalar) -> Any:
    """What NumPy's type rule takes for an operand: an array's type, or ``int``/``float`` for a plain number."""
    if isinstance(value, np.ndarray):
        return value.dtype
    return np.dtype(bool) if isinstance(value, bool) else type(value)
