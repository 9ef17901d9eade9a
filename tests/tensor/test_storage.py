"""What a tensor holds: construction, sharing, layouts, indexing, files. Reference: plain NumPy."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nntrainer_py.errors import DataError, NNTrainerError, PropertyError, UsageError
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.tensor import Tensor


def counting(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def test_shape_is_named_and_aligned_to_the_right() -> None:
    tensor = Tensor(counting(3, 4))
    assert (tensor.batch, tensor.channel, tensor.height, tensor.width) == (1, 1, 3, 4)
    assert tensor.dim == TensorDim(1, 1, 3, 4)
    assert (tensor.shape, tensor.size, tensor.ndim, len(tensor), tensor.nbytes) == ((1, 1, 3, 4), 12, 4, 1, 48)
    assert Tensor(7).shape == (1, 1, 1, 1)


def test_arrays_are_shared_and_seen_as_views() -> None:
    array = counting(2, 3)
    tensor = Tensor(array)
    seen = np.asarray(tensor)
    assert seen is tensor.data
    seen[0, 0, 0, 0] = 50
    array[1, 2] = 60
    assert (array[0, 0], tensor[0, 0, 1, 2]) == (50, 60)
    assert np.shares_memory(Tensor(tensor).data, array)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(tensor, dtype=np.float64, copy=False)
    assert not np.shares_memory(np.array(tensor, copy=True), array)
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64


def test_types() -> None:
    assert Tensor([[1, 2], [3, 4]]).dtype == np.float32
    assert Tensor(TensorDim(width=3)).dtype == np.float32
    assert Tensor(counting(3, dtype=np.int16)).dtype == np.int16
    assert Tensor([1.5], "FP16").dtype == np.float16
    assert Tensor([1, 2], "QINT8").dtype == np.int8
    assert Tensor(np.arange(3, dtype=">f4")).dtype == np.dtype(np.float32)
    assert Tensor.zeros(2, 3, dtype="uint8").dtype == np.uint8
    converted = Tensor([1.75, -1.0]).astype("int32")
    assert converted.tolist() == [[[[1, -1]]]]
    with pytest.raises(PropertyError, match="did you mean 'float16'"):
        Tensor([1.0], "flot16")
    with pytest.raises(PropertyError, match="dtype"):
        Tensor(np.zeros(2, dtype=complex))
    with pytest.raises(PropertyError, match="numbers that fit int8"):
        Tensor([300], "QINT8")


@pytest.mark.parametrize(
    "data", [np.zeros((1, 1, 1, 1, 1)), [], np.zeros((2, 0)), [[1, 2], [3]], ["1"], None, object(), 1j]
)
def test_what_is_no_tensor_is_refused(data: Any) -> None:
    with pytest.raises(NNTrainerError):
        Tensor(data)


@pytest.mark.parametrize("shape", [(0, 2), (1, 2, 3, 4, 5), ("a",), (-1,), (2.5,), ()])
def test_wrong_shapes_are_refused(shape: tuple[Any, ...]) -> None:
    with pytest.raises(PropertyError, match="shape"):
        Tensor.zeros(shape)


def test_layouts_are_two_orders_of_the_same_memory() -> None:
    array = counting(2, 4, 5, 3)  # [batch, height, width, channel]
    tensor = Tensor.from_nhwc(array)
    assert (tensor.shape, tensor.layout) == ((2, 3, 4, 5), "NHWC")
    np.testing.assert_array_equal(tensor.nchw(), array.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(tensor.nhwc(), array)
    assert np.shares_memory(tensor.nhwc(), array)
    plain = tensor.to_layout("NCHW")
    assert (plain.layout, plain.to_layout("NCHW") is plain) == ("NCHW", True)
    np.testing.assert_array_equal(plain.data, tensor.data)
    back = plain.to_layout("NHWC")
    assert back.layout == "NHWC"
    np.testing.assert_array_equal(back.data, tensor.data)
    assert tensor.copy().layout == "NHWC"
    assert Tensor.zeros(2, 3, 4, 5, layout="NHWC").layout == "NHWC"
    assert Tensor(counting(2, 3, 4, 5), layout="NHWC").layout == "NHWC"
    assert plain[:, :, ::2].layout == "strided"
    assert "NHWC" in repr(tensor)
    with pytest.raises(PropertyError, match="did you mean 'NHWC'"):
        tensor.to_layout("NHCW")
    with pytest.raises(UsageError, match="4 axes"):
        Tensor.from_nhwc(counting(2, 3))


def test_views_and_copies() -> None:
    tensor = Tensor(counting(4, 2, 3, 1))
    piece = tensor.get_batch_slice(1, 2)
    assert (piece.shape, np.shares_memory(piece.data, tensor.data)) == ((2, 2, 3, 1), True)
    shared = tensor.get_shared_data_tensor(TensorDim(height=3, width=2), offset=6)
    np.testing.assert_array_equal(shared.data[0, 0], np.arange(6, 12).reshape(3, 2))
    shared.fill(0)
    assert tensor.data.sum() == 276 - sum(range(6, 12))
    assert not np.shares_memory(tensor.copy().data, tensor.data)
    reshaped = tensor.reshape(2, -1)
    assert (reshaped.shape, np.shares_memory(reshaped.data, tensor.data)) == ((1, 1, 2, 12), True)
    assert tensor.reshape(TensorDim(width=24)).shape == (1, 1, 1, 24)
    assert [sample.shape for sample in tensor] == [(1, 2, 3, 1)] * 4
    other = Tensor.zeros(4, 2, 3, 1, dtype="FP16").copy_from(tensor)
    np.testing.assert_array_equal(other.data, tensor.data.astype(np.float16))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.get_batch_slice(1, 2), r"samples 1 to 3 of a batch of 2"),
        (lambda t: t.get_shared_data_tensor((3, 3), 4), r"\(1, 1, 3, 3\) at 4 does not fit in \(2, 1, 2, 3\)"),
        (lambda t: t.permute("0:2:1").get_shared_data_tensor(6), "layout NCHW"),
        (lambda t: t.reshape(5), r"12 elements of shape \(2, 1, 2, 3\) do not fit in shape \(1, 1, 1, 5\)"),
        (lambda t: t.reshape(5, -1), "do not fit"),
        (lambda t: t.reshape(-1, -1), "do not fit"),
        (lambda t: t.copy_from(np.zeros((2, 3))), r"\(2, 3\) does not fit in \(2, 1, 2, 3\)"),
        (lambda t: t.item(), r"shape \(2, 1, 2, 3\)"),
        (lambda t: bool(t), "one element"),
        (lambda t: t[np.zeros(3, dtype=bool)], "mask of shape"),
        (lambda t: t[0, 0, 0, 0, 0], "4 axes, the index names 5"),
        (lambda t: t[..., 0, ...], "at most one"),
        (lambda t: t[[0, 1], :, [0, 1]], "one list of positions"),
        (lambda t: t["a"], "batch: an index is"),
        (lambda t: t[5:], "chooses nothing"),
        (lambda t: t.axes("chanel"), "did you mean 'channel'"),
        (lambda t: t.axes(4), "axis from 0 to 3"),
        (lambda t: t.axes((1, 1)), "different axes"),
    ],
)
def test_faults_show_the_shapes(call: Any, message: str) -> None:
    with pytest.raises((UsageError, PropertyError), match=message):
        call(Tensor(counting(2, 1, 2, 3)))


def test_indexing_keeps_four_axes_and_gives_numbers() -> None:
    array = counting(2, 3, 4, 5)
    tensor = Tensor(array)
    value = tensor[1, 2, 3, 4]
    assert (value, type(value)) == (119.0, float)
    assert tensor[-1, -1, -1, -1] == 119.0
    np.testing.assert_array_equal(tensor[1].data, array[1:2])
    np.testing.assert_array_equal(tensor[..., 2].data, array[..., 2:3])
    np.testing.assert_array_equal(tensor[:, 1, ..., 1:4:2].data, array[:, 1:2, :, 1:4:2])
    np.testing.assert_array_equal(tensor[:, [2, 0]].data, array[:, [2, 0]])
    np.testing.assert_array_equal(tensor[tensor > 100], array[array > 100])
    assert np.shares_memory(tensor[1].data, array)
    with pytest.raises(IndexError, match="height 4 of a tensor with 4"):
        tensor[0, 0, 4]
    with pytest.raises(IndexError, match="channel"):
        tensor[:, [0, 3]]


def test_assignment() -> None:
    array = counting(2, 3, 4, 5)
    tensor, expected = Tensor(array.copy()), array.copy()
    tensor[1, 2, 3, 4] = -1
    expected[1, 2, 3, 4] = -1
    tensor[0] = Tensor(np.full((3, 4, 5), 7.0, dtype=np.float32))
    expected[0] = 7
    tensor[:, 1, :, 2] = np.arange(4).reshape(4, 1)
    expected[:, 1, :, 2] = np.arange(4)
    tensor[tensor == 7] = 8
    expected[expected == 7] = 8
    np.testing.assert_array_equal(tensor.data, expected)
    with pytest.raises(UsageError, match=r"\(2, 2\) does not fit in \(1, 3, 4, 5\)"):
        tensor[0] = np.zeros((2, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_save_and_read_raw(dtype: Any, tmp_path: Path) -> None:
    array = counting(2, 3, 4, 5, dtype=dtype)
    path = tmp_path / "tensor.raw"
    Tensor.from_nhwc(np.ascontiguousarray(array.transpose(0, 2, 3, 1))).save(path)
    assert path.read_bytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    for layout in ("NCHW", "NHWC"):
        read = Tensor.zeros(2, 3, 4, 5, dtype=dtype, layout=layout).read(path)
        np.testing.assert_array_equal(read.data, array)
        assert read.layout == layout


def test_read_from_an_open_file_goes_on_where_it_is() -> None:
    file = io.BytesIO()
    for start in (0, 10):
        Tensor(np.arange(start, start + 4, dtype=np.float32)).save(file)
    file.seek(0)
    first, second = Tensor.zeros(4), Tensor.zeros(4)
    first.read(file)
    second.read(file)
    assert (first.tolist()[0][0][0], second.tolist()[0][0][0]) == ([0, 1, 2, 3], [10, 11, 12, 13])
    with pytest.raises(DataError, match="takes 16 bytes, only 0 are left"):
        second.read(file)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_file_of_wrong_size_is_refused_and_nothing_changes(size: int, tmp_path: Path) -> None:
    path = tmp_path / "tensor.raw"
    path.write_bytes(b"\1" * size)
    tensor = Tensor.ones(4)
    with pytest.raises(DataError, match=rf"tensor.raw: .*\(1, 1, 1, 4\).* takes 16 bytes, the file has {size}"):
        tensor.read(path)
    assert (tensor.data == 1).all()


def test_numbers_and_text() -> None:
    assert (float(Tensor(2.5)), int(Tensor(2.5)), bool(Tensor(0.0)), Tensor(2.5).item()) == (2.5, 2, False, 2.5)
    assert repr(Tensor(counting(1, 2))).startswith(
        "Tensor(batch 1, channel 1, height 1, width 2, float32)\n[[[[0. 1.]]]]"
    )
    with pytest.raises(TypeError, match="unhashable"):
        hash(Tensor(1.0))
