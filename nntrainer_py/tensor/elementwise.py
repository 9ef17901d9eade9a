"""Element by element: NNTrainer's arithmetic (``add``, ``add_i`` in place, ...) and Python's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from nntrainer_py.errors import UsageError
from nntrainer_py.tensor.promotion import Array, Scalar, broadcast, is_operand, operand_of, result_dtype
from nntrainer_py.tensor.storage import Storage

Operand = Any  # a Tensor, an array of up to four axes, or a number


class Elementwise(Storage):
    """Arithmetic of a tensor.

    The other operand is a tensor, an array or a number; shapes broadcast as NumPy's do (NNTrainer broadcasts the other
    operand only). Methods with ``out`` write there and return it; those that end in ``_i`` change the tensor itself and
    return it, so that calls chain. Results follow IEEE 754: dividing by a tensor's zero gives infinity, not an error.
    """

    __slots__ = ()

    def add(self, other: Operand, out: Self | None = None, alpha: float = 1.0) -> Self:
        """``self + alpha * other``."""
        return self._binary(np.add, "add", _scaled(other, alpha, "add"), out)

    def add_i(self, other: Operand, alpha: float = 1.0) -> Self:
        """``self += alpha * other``."""
        return self._binary(np.add, "add_i", _scaled(other, alpha, "add_i"), self)

    def subtract(self, other: Operand, out: Self | None = None) -> Self:
        """``self - other``."""
        return self._binary(np.subtract, "subtract", other, out)

    def subtract_i(self, other: Operand) -> Self:
        """``self -= other``."""
        return self._binary(np.subtract, "subtract_i", other, self)

    def multiply(self, other: Operand, out: Self | None = None) -> Self:
        """``self * other``."""
        return self._binary(np.multiply, "multiply", other, out)

    def multiply_i(self, other: Operand) -> Self:
        """``self *= other``."""
        return self._binary(np.multiply, "multiply_i", other, self)

    def divide(self, other: Operand, out: Self | None = None) -> Self:
        """``self / other``; integers give float32. UsageError for the number 0, as in NNTrainer."""
        return self._binary(np.true_divide, "divide", nonzero(other, "divide"), out)

    def divide_i(self, other: Operand) -> Self:
        """``self /= other``. UsageError for the number 0, as in NNTrainer."""
        return self._binary(np.true_divide, "divide_i", nonzero(other, "divide_i"), self)

    def pow(self, exponent: Operand, out: Self | None = None) -> Self:
        """``self ** exponent``."""
        return self._binary(np.power, "pow", exponent, out)

    def pow_i(self, exponent: Operand) -> Self:
        """``self **= exponent``."""
        return self._binary(np.power, "pow_i", exponent, self)

    def sqrt(self, out: Self | None = None) -> Self:
        """Square root; not a number below 0."""
        return self._unary(np.sqrt, "sqrt", out)

    def sqrt_i(self) -> Self:
        """Square root in place."""
        return self._unary(np.sqrt, "sqrt_i", self)

    def inv_sqrt(self, out: Self | None = None) -> Self:
        """``1 / sqrt(self)``."""
        return self._unary(_inverse_root, "inv_sqrt", out, like=np.sqrt)

    def inv_sqrt_i(self) -> Self:
        """``1 / sqrt(self)`` in place."""
        return self._unary(_inverse_root, "inv_sqrt_i", self, like=np.sqrt)

    def abs(self, out: Self | None = None) -> Self:
        """Absolute value."""
        return self._unary(np.absolute, "abs", out)

    def exp(self, out: Self | None = None) -> Self:
        """``e ** self``."""
        return self._unary(np.exp, "exp", out)

    def log(self, out: Self | None = None) -> Self:
        """Natural logarithm."""
        return self._unary(np.log, "log", out)

    def erf(self, out: Self | None = None) -> Self:
        """Gauss's error function."""
        return self._unary(_error_function, "erf", out, like=np.sqrt)

    def erf_i(self) -> Self:
        """Gauss's error function in place."""
        return self._unary(_error_function, "erf_i", self, like=np.sqrt)

    def sin(self, out: Self | None = None, alpha: float = 1.0) -> Self:
        """``sin(alpha * self)``."""
        return self._unary(_of_multiple(np.sin, alpha), "sin", out, like=np.sin)

    def cos(self, out: Self | None = None, alpha: float = 1.0) -> Self:
        """``cos(alpha * self)``."""
        return self._unary(_of_multiple(np.cos, alpha), "cos", out, like=np.cos)

    def tan(self, out: Self | None = None, alpha: float = 1.0) -> Self:
        """``tan(alpha * self)``."""
        return self._unary(_of_multiple(np.tan, alpha), "tan", out, like=np.tan)

    def apply(self, function: Callable[[Array], Any], out: Self | None = None) -> Self:
        """``function`` of the elements: it takes an array and gives one of the same shape (``numpy.vectorize`` helps).

        The result has the type of ``out``, or of the tensor.
        """
        try:
            with np.errstate(all="ignore"):
                values = np.asarray(function(self._array))
        except TypeError as error:
            raise UsageError(f"apply: the function must take an array (see numpy.vectorize): {error}") from error
        if values.shape != self.shape:
            raise UsageError(f"apply: the function made shape {values.shape} of {self.shape}")
        if values.dtype.kind not in "biuf":
            raise UsageError(f"apply: the function made {values.dtype}, no numbers")
        if out is None:
            return self._over(values.astype(self.dtype))
        return out.copy_from(values)

    def apply_i(self, function: Callable[[Array], Any]) -> Self:
        """``apply`` in place."""
        return self.apply(function, self)

    def _binary(self, ufunc: np.ufunc, name: str, other: Operand, out: Self | None, *, reflected: bool = False) -> Self:
        operand = operand_of(other, name)
        pair: tuple[Any, ...] = (operand, self._array) if reflected else (self._array, operand)
        shape = broadcast(name, *pair)
        return self._call(ufunc, name, pair, shape, result_dtype(ufunc, name, *pair), out)

    def _unary(self, function: Any, name: str, out: Self | None, *, like: np.ufunc | None = None) -> Self:
        dtype = result_dtype(like or function, name, self._array)
        return self._call(function, name, (self._array,), self.shape, dtype, out)

    def _call(
        self,
        function: Any,
        name: str,
        operands: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        out: Any,
    ) -> Self:
        if out is not None:
            check_out(name, out, shape, dtype)
        try:
            with np.errstate(all="ignore"):
                if out is None:
                    return self._over(function(*operands, dtype=loop_dtype(function, dtype)))
                function(*operands, out=out._array, dtype=loop_dtype(function, dtype), casting="same_kind")
        except (OverflowError, ValueError) as error:  # a number beyond the type; an integer to a negative power
            raise UsageError(f"{name}: {error}") from error
        found: Self = out
        return found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions (``np.exp(t)``, ``array + t``) give tensors; their other methods give arrays."""
        outs = options.get("out", ())
        if outs:
            options["out"] = tuple(item._array if isinstance(item, Storage) else item for item in outs)
        arrays = [item._array if isinstance(item, Storage) else item for item in inputs]
        result = getattr(ufunc, method)(*arrays, **options)
        if outs:
            return outs[0] if len(outs) == 1 else outs
        if method != "__call__":
            return result
        if isinstance(result, tuple):
            return tuple(self._over(item) for item in result)
        return self._over(result) if np.ndim(result) == 4 else result

    def _operator(self, ufunc: np.ufunc, symbol: str, other: Any, *, reflected: bool = False) -> Any:
        if not is_operand(other):
            return NotImplemented
        return self._binary(ufunc, symbol, other, None, reflected=reflected)

    def __add__(self, other: Any) -> Any:
        return self._operator(np.add, "+", other)

    def __radd__(self, other: Any) -> Any:
        return self._operator(np.add, "+", other, reflected=True)

    def __sub__(self, other: Any) -> Any:
        return self._operator(np.subtract, "-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._operator(np.subtract, "-", other, reflected=True)

    def __mul__(self, other: Any) -> Any:
        return self._operator(np.multiply, "*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._operator(np.multiply, "*", other, reflected=True)

    def __truediv__(self, other: Any) -> Any:
        return self._operator(np.true_divide, "/", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._operator(np.true_divide, "/", other, reflected=True)

    def __pow__(self, other: Any) -> Any:
        return self._operator(np.power, "**", other)

    def __rpow__(self, other: Any) -> Any:
        return self._operator(np.power, "**", other, reflected=True)

    def __iadd__(self, other: Any) -> Self:
        return self._binary(np.add, "+=", other, self)

    def __isub__(self, other: Any) -> Self:
        return self._binary(np.subtract, "-=", other, self)

    def __imul__(self, other: Any) -> Self:
        return self._binary(np.multiply, "*=", other, self)

    def __itruediv__(self, other: Any) -> Self:
        return self._binary(np.true_divide, "/=", other, self)

    def __ipow__(self, other: Any) -> Self:
        return self._binary(np.power, "**=", other, self)

    def __neg__(self) -> Self:
        return self._unary(np.negative, "-", None)

    def __abs__(self) -> Self:
        return self.abs()

    def __eq__(self, other: object) -> Any:
        """Element by element, as NumPy; :meth:`equals` compares whole tensors."""
        return self._operator(np.equal, "==", other)

    def __ne__(self, other: object) -> Any:
        return self._operator(np.not_equal, "!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._operator(np.less, "<", other)

    def __le__(self, other: Any) -> Any:
        return self._operator(np.less_equal, "<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._operator(np.greater, ">", other)

    def __ge__(self, other: Any) -> Any:
        return self._operator(np.greater_equal, ">=", other)

    __hash__ = None

    def equals(self, other: Operand, tolerance: float = 1e-5) -> bool:
        """NNTrainer's comparison: same shape, no element further apart than ``tolerance``, none not a number."""
        values = operand_of(other, "equals")
        if np.shape(values) != self.shape:
            return False
        with np.errstate(invalid="ignore"):
            apart = np.abs(self._array.astype(np.float64) - np.asarray(values, dtype=np.float64))
        return bool(np.all((apart <= tolerance) | (self._array == values)))


def check_out(name: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """UsageError unless ``out`` is a tensor of this shape whose type can hold results of type ``dtype``."""
    if not isinstance(out, Storage):
        raise UsageError(f"{name}: out must be a tensor, got {type(out).__name__}")
    if out.shape != shape:
        raise UsageError(f"{name}: the result has shape {shape}, the tensor for it {out.shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise UsageError(f"{name}: a result of type {dtype} does not fit in a tensor of type {out.dtype}")
    if not out.data.flags.writeable:
        raise UsageError(f"{name}: the tensor for the result is over a read-only array")


def nonzero(other: Operand, name: str) -> Operand:
    """The divisor; UsageError for the number 0."""
    if isinstance(other, (bool, int, float, np.generic)) and other == 0:
        raise UsageError(f"{name}: the divisor is 0")
    return other


def loop_dtype(function: Any, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """What to pass as a ufunc's ``dtype``: comparisons compute in the type of their operands."""
    return None if dtype == np.dtype(bool) and isinstance(function, np.ufunc) else dtype


def _scaled(other: Operand, alpha: float, name: str) -> Array | Scalar:
    operand = operand_of(other, name)
    if alpha == 1.0:
        return operand
    if not isinstance(operand, np.ndarray):
        return operand * alpha
    with np.errstate(all="ignore"):
        return np.multiply(operand, alpha, dtype=result_dtype(np.multiply, name, operand, alpha))


def _inverse_root(x: Array, out: Array | None = None, *, dtype: Any, casting: Any = "same_kind") -> Array:
    root: Any = np.sqrt
    found: Array = root(x, out=out, dtype=dtype, casting=casting)
    return np.divide(1, found, out=found, casting="same_kind")


def _error_function(x: Array, out: Array | None = None, *, dtype: Any, casting: Any = "same_kind") -> Array:
    from scipy import special  # loaded when first needed: it takes longer than the rest of the package

    erf: Any = special.erf
    wide = np.float64 if dtype == np.float64 else np.float32
    return np.asarray(erf(x.astype(wide, copy=False), out=out, casting=casting)).astype(dtype, copy=False)


def _of_multiple(ufunc: np.ufunc, alpha: float) -> Any:
    if alpha == 1.0:
        return ufunc

    def call(x: Array, out: Array | None = None, *, dtype: Any, casting: Any = "same_kind") -> Any:
        return ufunc(np.multiply(x, alpha, dtype=dtype), out=out, dtype=dtype, casting=casting)

    return call
