"""What a tensor holds: an array of four named axes, seen and shared in several ways."""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import index
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np

from nntrainer_py.errors import DataError, PropertyError, UsageError, did_you_mean
from nntrainer_py.tensor.dim import AXES, TensorDim
from nntrainer_py.tensor.promotion import Array, Scalar, dtype_of, operand_of

LAYOUTS = ("NCHW", "NHWC")


class Storage:
    """The data of a :class:`~nntrainer_py.tensor.tensor.Tensor`: construction, views, indexing, files."""

    __slots__ = ("_array",)
    __hash__: ClassVar[None]  # type: ignore[assignment]  # contents change

    def __init__(self, data: Any, dtype: Any = None, *, layout: str = "NCHW") -> None:
        """A tensor of zeros of a shape (``data`` a TensorDim), or one over ``data``.

        An array or tensor is shared, not copied, as long as type and layout stay as they are; it keeps its type unless
        ``dtype`` asks for another. Lists and numbers become float32. Fewer than four axes are aligned to the right:
        ``[n, k]`` is height n, width k.
        """
        if isinstance(data, TensorDim):
            self._array = _allocate(data, dtype_of("FP32" if dtype is None else dtype), layout)
            return
        if isinstance(data, Storage):
            data = data._array
        if not isinstance(data, (np.ndarray, np.generic)) and dtype is None:
            dtype = np.float32
        array = _as_array(data, dtype_of(data.dtype if dtype is None else dtype))
        self._array = _as_layout(array, layout) if layout != "NCHW" else array

    @classmethod
    def _over(cls, array: Array) -> Self:
        """A tensor over an array of four axes that is known to be right."""
        made = cls.__new__(cls)
        made._array = array
        return made

    @classmethod
    def from_nhwc(cls, array: Any) -> Self:
        """A tensor that shares an array ``[batch, height, width, channel]``; its layout is NHWC."""
        found = np.asarray(array)
        if found.ndim != 4:
            raise UsageError(f"from_nhwc: expected 4 axes, got shape {found.shape}")
        return cls(found.transpose(0, 3, 1, 2))

    @property
    def data(self) -> Array:
        """The array itself, ``[batch, channel, height, width]``, whatever the layout in memory."""
        return self._array

    @property
    def dim(self) -> TensorDim:
        """The named shape."""
        return TensorDim(*self._array.shape)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """``(batch, channel, height, width)``."""
        batch, channel, height, width = map(int, self._array.shape)
        return batch, channel, height, width

    @property
    def batch(self) -> int:
        return self.shape[0]

    @property
    def channel(self) -> int:
        return self.shape[1]

    @property
    def height(self) -> int:
        return self.shape[2]

    @property
    def width(self) -> int:
        return self.shape[3]

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def ndim(self) -> int:
        """Always 4."""
        return 4

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def layout(self) -> str:
        """``NCHW`` or ``NHWC`` when the elements lie in memory in this order without gaps, else ``strided``."""
        if self._array.flags.c_contiguous:
            return "NCHW"
        return "NHWC" if self.nhwc().flags.c_contiguous else "strided"

    def nchw(self) -> Array:
        """The elements as an array ``[batch, channel, height, width]``: a view."""
        return self._array

    def nhwc(self) -> Array:
        """The elements as an array ``[batch, height, width, channel]``: a view."""
        return self._array.transpose(0, 2, 3, 1)

    def to_layout(self, layout: str) -> Self:
        """The same values with the memory in order ``NCHW`` or ``NHWC``; itself when they are so already."""
        array = _as_layout(self._array, layout)
        return self if array is self._array else self._over(array)

    def copy(self) -> Self:
        """A tensor of its own memory, in the same layout."""
        return self._over(self._array.copy(order="K"))

    clone = copy

    def copy_from(self, source: Any) -> Self:
        """Take over the values of a tensor or array of the same shape, converted to the own type."""
        values = operand_of(source, "copy_from")
        if np.shape(values) != self.shape:
            raise UsageError(f"copy_from: shape {np.shape(values)} does not fit in {self.shape}")
        self._array[...] = values
        return self

    def astype(self, dtype: Any) -> Self:
        """The values in another type; a copy in any case."""
        with np.errstate(all="ignore"):
            return self._over(self._array.astype(dtype_of(dtype)))

    def reshape(self, *shape: Any) -> Self:
        """The elements in NCHW order under another shape; shares the memory where that is possible.

        ``shape`` is a TensorDim, a tuple, or up to four numbers, one of which may be -1.
        """
        sizes = shape_of(*shape)
        if sizes.count(-1) == 1:
            known = -int(np.prod(sizes))
            if known > 0 and self.size % known == 0:
                sizes = tuple(self.size // known if size == -1 else size for size in sizes)
        if min(sizes) < 1 or int(np.prod(sizes)) != self.size:
            raise UsageError(f"reshape: {self.size} elements of shape {self.shape} do not fit in shape {sizes}")
        return self._over(self._array.reshape(sizes))

    def get_batch_slice(self, offset: int, size: int) -> Self:
        """``size`` samples from ``offset`` on: a view."""
        if offset < 0 or size < 1 or offset + size > self.batch:
            raise UsageError(f"get_batch_slice: samples {offset} to {offset + size} of a batch of {self.batch}")
        return self._over(self._array[offset : offset + size])

    def get_shared_data_tensor(self, dim: Any, offset: int = 0) -> Self:
        """Elements from ``offset`` on (in NCHW order) under another shape: a view, so it needs the NCHW layout."""
        sizes = shape_of(dim)
        count = int(np.prod(sizes))
        if not self._array.flags.c_contiguous:
            raise UsageError(f"get_shared_data_tensor: needs layout NCHW, this tensor's is {self.layout}")
        if min(sizes) < 1 or offset < 0 or offset + count > self.size:
            raise UsageError(f"get_shared_data_tensor: shape {sizes} at {offset} does not fit in {self.shape}")
        return self._over(self._array.reshape(-1)[offset : offset + count].reshape(sizes))

    def save(self, target: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the elements raw: NCHW order, own type, little endian, no header. A path is replaced."""
        if isinstance(target, (str, os.PathLike)):
            with open(target, "wb") as file:
                self.save(file)
            return
        for sample in self._array:
            target.write(np.ascontiguousarray(sample, dtype=self.dtype.newbyteorder("<")).tobytes())

    def read(self, source: str | os.PathLike[str] | BinaryIO) -> Self:
        """Fill the tensor with what :meth:`save` wrote: from a file of exactly this size, or from an open one onwards.

        Raises DataError when there are too few bytes (or, by path, too many); the tensor is then unchanged.
        """
        if isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != self.nbytes:
                    raise DataError(f"{os.fspath(source)}: {self._expected()}, the file has {size}")
                return self.read(file)
        content = source.read(self.nbytes)
        if len(content) != self.nbytes:
            raise DataError(f"{self._expected()}, only {len(content)} are left")
        self._array[...] = np.frombuffer(content, dtype=self.dtype.newbyteorder("<")).reshape(self.shape)
        return self

    def _expected(self) -> str:
        return f"a tensor of shape {self.shape} and type {self.dtype} takes {self.nbytes} bytes"

    def item(self) -> Scalar:
        """The value of a tensor of one element."""
        if self.size != 1:
            raise UsageError(f"only a tensor of one element is a number, this one has shape {self.shape}")
        value: Scalar = self._array.item()
        return value

    def tolist(self) -> list[Any]:
        """Nested lists of Python numbers, four deep."""
        values: list[Any] = self._array.tolist()
        return values

    def axes(self, axis: int | str | tuple[int | str, ...] | list[int | str] | None) -> tuple[int, ...]:
        """Axis numbers of numbers (-4 to 3) or names (``"batch"`` ...); None means all."""
        if axis is None:
            return (0, 1, 2, 3)
        found = []
        for item in axis if isinstance(axis, (tuple, list)) else (axis,):
            if isinstance(item, str):
                if item not in AXES:
                    raise PropertyError(f"one of {', '.join(AXES)}", item, key="axis", hint=did_you_mean(item, AXES))
                found.append(AXES.index(item))
            elif isinstance(item, (int, np.integer)) and -4 <= item < 4:
                found.append(int(item) % 4)
            else:
                raise PropertyError("an axis from 0 to 3", item, key="axis")
        if not found or len(set(found)) != len(found):
            raise PropertyError("different axes", axis, key="axis")
        return tuple(found)

    def __getitem__(self, key: Any) -> Any:
        """A number for four integers; the chosen elements as an array for a mask of the same shape; else a tensor.

        The tensor keeps four axes: an integer leaves an axis of size 1. Slices give views, an index list a copy.
        """
        if _is_mask(key):
            return self._array[self._mask(key)]
        parts = self._index(key)
        if all(isinstance(part, int) for part in parts):
            return self._array[parts].item()
        kept = tuple(slice(part, part + 1) if isinstance(part, int) else part for part in parts)
        chosen = self._array[kept]
        if 0 in chosen.shape:
            raise UsageError(f"the index chooses nothing: shape {chosen.shape} of {self.shape}")
        return self._over(chosen)

    def __setitem__(self, key: Any, value: Any) -> None:
        values = operand_of(value, "assignment")
        where = self._mask(key) if _is_mask(key) else self._index(key)
        if not _is_mask(key):
            where = tuple(slice(part, part + 1) if isinstance(part, int) else part for part in where)
        try:
            self._array[where] = values
        except ValueError:
            shape = self._array[where].shape
            raise UsageError(f"assignment: shape {np.shape(values)} does not fit in {shape}") from None

    def _mask(self, key: Any) -> Array:
        mask = np.asarray(key)
        if mask.shape != self.shape:
            raise UsageError(f"a mask of shape {mask.shape} does not fit a tensor of shape {self.shape}")
        return mask

    def _index(self, key: Any) -> tuple[Any, ...]:
        """Four parts, each a non-negative integer, a slice or one array of integers."""
        given = list(key) if isinstance(key, tuple) else [key]
        if sum(part is Ellipsis for part in given) > 1:
            raise UsageError("an index has at most one '...'")
        if Ellipsis not in [part if part is Ellipsis else None for part in given]:
            given.append(Ellipsis)
        if len(given) > 5:
            raise UsageError(f"a tensor has 4 axes, the index names {len(given) - 1}")
        place = next(i for i, part in enumerate(given) if part is Ellipsis)
        parts = given[:place] + [slice(None)] * (5 - len(given)) + given[place + 1 :]
        checked = [
            _index_part(part, axis, size) for axis, (part, size) in enumerate(zip(parts, self.shape, strict=True))
        ]
        if sum(isinstance(part, np.ndarray) for part in checked) > 1:
            raise UsageError("an index takes one list of positions; use the array itself (t.data) for more")
        return tuple(checked)

    def __len__(self) -> int:
        return self.batch

    def __iter__(self) -> Iterator[Self]:
        """The samples, as views of batch 1."""
        return (self.get_batch_slice(sample, 1) for sample in range(self.batch))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if dtype is None or np.dtype(dtype) == self.dtype:
            return self._array.copy() if copy else self._array
        if copy is False:
            raise ValueError(f"a {self.dtype} tensor cannot be seen as {np.dtype(dtype)} without a copy")
        return self._array.astype(dtype)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __repr__(self) -> str:
        named = ", ".join(f"{name} {size}" for name, size in zip(AXES, self.shape, strict=True))
        layout = "" if self.layout == "NCHW" else f", {self.layout}"
        return f"{type(self).__name__}({named}, {self.dtype}{layout})\n{self._array}"


def shape_of(*shape: Any) -> tuple[int, ...]:
    """Four sizes from a TensorDim, a sequence or up to four numbers, aligned to the right; sizes are not checked."""
    (sizes,) = shape if len(shape) == 1 else (shape,)
    if isinstance(sizes, TensorDim):
        return sizes.shape
    if isinstance(sizes, (int, np.integer)):
        sizes = (sizes,)
    try:
        found = tuple(index(size) for size in sizes)
    except (TypeError, ValueError):
        raise PropertyError("a shape of up to four numbers", sizes, key="shape") from None
    if not 1 <= len(found) <= 4:
        raise PropertyError("a shape of up to four numbers", sizes, key="shape")
    return (1,) * (4 - len(found)) + found


def dim_of(*shape: Any) -> TensorDim:
    """As :func:`shape_of`, with sizes checked: PropertyError for one below 1."""
    sizes = shape_of(*shape)
    if min(sizes) < 1:
        raise PropertyError("sizes of at least 1", sizes, key="shape")
    return TensorDim(*sizes)


def _allocate(dim: TensorDim, dtype: np.dtype[Any], layout: str) -> Array:
    _check_layout(layout)
    if layout == "NCHW":
        return np.zeros(dim.shape, dtype)
    return np.zeros((dim.batch, dim.height, dim.width, dim.channel), dtype).transpose(0, 3, 1, 2)


def _as_array(data: Any, dtype: np.dtype[Any]) -> Array:
    try:
        found = np.asarray(data)
        numeric = found.dtype.kind in "biuf"
        array = np.asarray(data, dtype=dtype) if numeric else found
    except (TypeError, ValueError, OverflowError):
        numeric = False
    if not numeric:
        raise PropertyError(f"numbers that fit {dtype}, in lists of equal length", data, key="data")
    if array.ndim > 4 or array.size == 0:
        raise UsageError(f"a tensor has 1 to 4 axes of at least 1 element, got shape {array.shape}")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _as_layout(array: Array, layout: str) -> Array:
    _check_layout(layout)
    if layout == "NCHW":
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)
    last = array.transpose(0, 2, 3, 1)
    return array if last.flags.c_contiguous else np.ascontiguousarray(last).transpose(0, 3, 1, 2)


def _check_layout(layout: str) -> None:
    if layout not in LAYOUTS:
        raise PropertyError(f"one of {', '.join(LAYOUTS)}", layout, key="layout", hint=did_you_mean(layout, LAYOUTS))


def _is_mask(key: Any) -> bool:
    return getattr(key, "dtype", None) == np.dtype(bool) and getattr(key, "ndim", 0) > 0


def _index_part(part: Any, axis: int, size: int) -> Any:
    name = AXES[axis]
    if isinstance(part, slice):
        return part
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        if not -size <= part < size:
            raise IndexError(f"{name} {part} of a tensor with {size}")
        return int(part) % size
    positions = np.asarray(part)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise UsageError(f"{name}: an index is an integer, a slice, a list of integers or a mask, got {part!r}")
    if positions.size and (positions.min() < -size or positions.max() >= size):
        raise IndexError(f"{name}: a position outside a tensor with {size}")
    return positions
