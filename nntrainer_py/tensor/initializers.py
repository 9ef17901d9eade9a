"""Initial values of weights: NNTrainer's initializers with its rules for the fans.

Source of the rules: ``nntrainer/tensor/float_tensor.cpp`` of NNTrainer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from nntrainer_py.errors import PropertyError, UsageError, did_you_mean
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.rng import Stream

Array = npt.NDArray[np.generic]
_Fill = Callable[[TensorDim, Stream, Array], None]


def fans(dim: TensorDim) -> tuple[int, int]:
    """``(fan_in, fan_out)`` from the shape (N, C, H, W) alone.

    N C H = 1: (W, W); else N C = 1: (H, W), which a kernel of one filter and one channel falls under too;
    else (C H W, N H W). Recurrent matrices therefore count all gates in fan_out.
    """
    if dim.batch * dim.channel * dim.height == 1:
        return dim.width, dim.width
    if dim.batch * dim.channel == 1:
        return dim.height, dim.width
    area = dim.height * dim.width
    return dim.channel * area, dim.batch * area


def fill(name: str, dim: TensorDim, stream: Stream, out: Array) -> None:
    """Fill ``out`` (as many elements as ``dim``) by the initializer ``name``.

    Only the normal and uniform ones draw from ``stream``; ``none`` leaves ``out`` as it is. PropertyError for an
    unknown name, UsageError for a wrong size.
    """
    require_initializer(name)
    if out.size != dim.size:
        raise UsageError(
            f"initializer {name}: {dim.size} values of shape {dim.shape} do not fit an array of {out.shape}"
        )
    INITIALIZERS[name](dim, stream, out)


def require_initializer(name: str) -> None:
    """PropertyError for an unknown name."""
    if name not in INITIALIZERS:
        raise PropertyError(
            f"one of {', '.join(INITIALIZERS)}", name, key="initializer", hint=did_you_mean(name, INITIALIZERS)
        )


def is_random(name: str) -> bool:
    """Whether the initializer draws from the stream."""
    return name in INITIALIZERS and name not in _CONSTANT


def _constant(value: float) -> _Fill:
    def set_value(dim: TensorDim, stream: Stream, out: Array) -> None:
        out[...] = value

    return set_value


def _keep(dim: TensorDim, stream: Stream, out: Array) -> None:
    pass


def _root(numerator: float, denominator: int) -> float:
    """The square root in float32, as NNTrainer takes it."""
    return float(np.sqrt(np.float32(numerator / denominator)))


def _normal(spread: Callable[[int, int], float]) -> _Fill:
    def draw(dim: TensorDim, stream: Stream, out: Array) -> None:
        stream.normal(out, 0.0, spread(*fans(dim)))

    return draw


def _uniform(spread: Callable[[int, int], float]) -> _Fill:
    def draw(dim: TensorDim, stream: Stream, out: Array) -> None:
        bound = spread(*fans(dim))
        stream.uniform(out, -bound, bound)

    return draw


# The normals are not truncated, and the bound of lecun_uniform lacks the usual factor 3: both are NNTrainer's.
INITIALIZERS: dict[str, _Fill] = {
    "zeros": _constant(0.0),
    "ones": _constant(1.0),
    "lecun_normal": _normal(lambda fan_in, fan_out: _root(1.0, fan_in)),
    "lecun_uniform": _uniform(lambda fan_in, fan_out: _root(1.0, fan_in)),
    "xavier_normal": _normal(lambda fan_in, fan_out: _root(2.0, fan_in + fan_out)),
    "xavier_uniform": _uniform(lambda fan_in, fan_out: _root(6.0, fan_in + fan_out)),
    "he_normal": _normal(lambda fan_in, fan_out: _root(2.0, fan_in)),
    "he_uniform": _uniform(lambda fan_in, fan_out: _root(6.0, fan_in)),
    "none": _keep,
}
_CONSTANT = ("zeros", "ones", "none")
