"""The activation functions and their derivatives for large arrays: fixed chunks, spread over threads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import prange

from nntrainer_py.tensor.kernels.activation import (
    elu,
    gelu,
    leaky_relu,
    mish,
    relu,
    selu,
    sigmoid,
    sigmoid_gelu,
    softplus,
    swish,
    tanh,
    tanh_gelu,
)
from nntrainer_py.tensor.kernels.activation_derivative import (
    elu_derivative,
    gelu_derivative,
    leaky_relu_derivative,
    mish_derivative,
    relu_derivative,
    selu_derivative,
    sigmoid_derivative,
    sigmoid_gelu_derivative,
    softplus_derivative,
    swish_derivative,
    tanh_derivative,
    tanh_gelu_derivative,
)
from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[np.float32]
CHUNK = 16384  # elements that one thread takes at a time: 64 KiB an array, inside the second cache


@kernel(parallel=True)
def relu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`relu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        relu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def leaky_relu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`leaky_relu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        leaky_relu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def sigmoid_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`sigmoid` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        sigmoid(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def tanh_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`tanh` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        tanh(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def softplus_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`softplus` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        softplus(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def elu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`elu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        elu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def selu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`selu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        selu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def swish_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`swish` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        swish(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def gelu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`gelu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        gelu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def tanh_gelu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`tanh_gelu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        tanh_gelu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def sigmoid_gelu_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`sigmoid_gelu` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        sigmoid_gelu(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def mish_parallel(x: Array, out: Array | None, parts: int) -> None:
    """`mish` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        mish(x[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def relu_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`relu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        relu_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def leaky_relu_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`leaky_relu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        leaky_relu_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def sigmoid_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`sigmoid_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        sigmoid_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def tanh_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`tanh_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        tanh_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def softplus_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`softplus_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        softplus_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def elu_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`elu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        elu_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def selu_derivative_parallel(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """`selu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        selu_derivative(y[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def swish_derivative_parallel(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """`swish_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        swish_derivative(x[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def gelu_derivative_parallel(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """`gelu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        gelu_derivative(x[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def tanh_gelu_derivative_parallel(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """`tanh_gelu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        tanh_gelu_derivative(x[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def sigmoid_gelu_derivative_parallel(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """`sigmoid_gelu_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        sigmoid_gelu_derivative(x[a:b], g[a:b], None if out is None else out[a:b])


@kernel(parallel=True)
def mish_derivative_parallel(x: Array, g: Array, out: Array | None, parts: int) -> None:
    """`mish_derivative` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        mish_derivative(x[a:b], g[a:b], None if out is None else out[a:b])
