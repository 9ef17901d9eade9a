"""Scaling of inputs: measured once on the training set, kept with the model, applied the same ever after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nntrainer_py.errors import DataError, printable

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Shape = tuple[int, int, int]

METHODS = ("standard", "minmax", "pixel")
SCOPES = ("whole", "channel", "feature")


@dataclass(frozen=True)
class Normalization:
    """``y = (x - shift) / scale`` for each input of a sample, in float32.

    Attributes:
        method: "standard" (mean 0, deviation 1), "minmax" (0..1) or "pixel" (x / 255, nothing to measure).
        scope: one number for the "whole" input, one for each "channel", or one for each "feature".
        shift, scale: one array per input, of the sample's shape or of shape that broadcasts to it.
    """

    method: str
    scope: str
    shift: tuple[Float32, ...] = field(compare=False)
    scale: tuple[Float32, ...] = field(compare=False)

    def __post_init__(self) -> None:
        if self.method not in METHODS or self.scope not in SCOPES:
            raise ValueError(f"expected a method of {METHODS} and a scope of {SCOPES}, got {self.method}, {self.scope}")
        if len(self.shift) != len(self.scale) or any(
            a.shape != b.shape for a, b in zip(self.shift, self.scale, strict=True)
        ):
            raise ValueError("shift and scale must have the same shapes")
        for array in (*self.shift, *self.scale):
            if array.ndim != 3 or not np.isfinite(array).all():
                raise ValueError("shift and scale must be finite and have three axes")
        if any((scale <= 0).any() for scale in self.scale):
            raise ValueError("a scale must be greater than 0")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Normalization):
            return NotImplemented
        mine, theirs = (*self.shift, *self.scale), (*other.shift, *other.scale)
        return (
            (self.method, self.scope, len(mine)) == (other.method, other.scope, len(theirs))
            and all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def check(self, input_dims: Sequence[Shape], name: str) -> None:
        """DataError unless it fits inputs of these shapes."""
        fits = len(input_dims) == len(self.shift) and all(
            all(have in (1, want) for have, want in zip(shift.shape, shape, strict=True))
            for shift, shape in zip(self.shift, input_dims, strict=True)
        )
        if not fits:
            have = ", ".join(":".join(map(str, s.shape)) for s in self.shift)
            want = ", ".join(":".join(map(str, s)) for s in input_dims)
            raise DataError(f"{printable(name)}: the stored normalization is for inputs {have}, the model takes {want}")

    def apply(self, inputs: Sequence[Float32]) -> None:
        """Scale batches (batch, channel, height, width) in place."""
        for x, shift, scale in zip(inputs, self.shift, self.scale, strict=True):
            np.subtract(x, shift, out=x)
            np.divide(x, scale, out=x)

    @classmethod
    def pixel(cls, input_dims: Sequence[Shape]) -> Normalization:
        """Divide by 255."""
        count = len(input_dims)
        zero, full = np.zeros((1, 1, 1), np.float32), np.full((1, 1, 1), 255, np.float32)
        return cls("pixel", "whole", (zero,) * count, (full,) * count)

    @classmethod
    def measure(
        cls, batches: Iterable[Sequence[Float32]], input_dims: Sequence[Shape], *, method: str, scope: str = "whole"
    ) -> Normalization:
        """Measure on batches of raw inputs; each batch is the list of its inputs (count, channel, height, width).

        Mean and variance (over the population) are gathered in float64 and merged batch by batch (Chan, Golub and
        LeVeque 1979). A feature that never changes gets scale 1.

        Raises:
            DataError: no sample, or a value that is not finite.
        """
        if method == "pixel":
            return cls.pixel(input_dims)
        found = [_Measure(shape, scope) for shape in input_dims]
        samples = 0
        for batch in batches:
            for one, x in zip(found, batch, strict=True):
                if not np.isfinite(x).all():
                    row = int(np.argwhere(~np.isfinite(x))[0][0])
                    raise DataError(f"sample {samples + row} of the pass has an input value that is not finite")
                one.add(x)
            samples += len(batch[0])
        if not samples:
            raise DataError("there is no sample to measure the normalization on")
        pairs = [one.result(method) for one in found]
        return cls(method, scope, tuple(shift for shift, _ in pairs), tuple(scale for _, scale in pairs))


class _Measure:
    """Running mean, squared deviations and extremes of one input, in float64."""

    def __init__(self, shape: Shape, scope: str) -> None:
        axes = {"whole": (0, 1, 2, 3), "channel": (0, 2, 3), "feature": (0,)}
        if scope not in axes:
            raise ValueError(f"normalization scope: expected one of {', '.join(SCOPES)}, got {scope!r}")
        self._axes = axes[scope]
        kept = tuple(1 if axis + 1 in self._axes else size for axis, size in enumerate(shape))
        self._count = 0
        self._mean = np.zeros(kept)
        self._squares = np.zeros(kept)
        self._low = np.full(kept, np.inf)
        self._high = np.full(kept, -np.inf)

    def add(self, x: Float32) -> None:
        if not len(x):
            return
        wide = x.astype(np.float64)
        mean = wide.mean(axis=self._axes, keepdims=True)
        count = x.size // mean.size
        np.minimum(self._low, wide.min(axis=self._axes, keepdims=True)[0], out=self._low)
        np.maximum(self._high, wide.max(axis=self._axes, keepdims=True)[0], out=self._high)
        squares = ((wide - mean) ** 2).sum(axis=self._axes, keepdims=True)[0]
        total = self._count + count
        delta = mean[0] - self._mean
        self._squares += squares + delta**2 * (self._count * count / total)
        self._mean += delta * (count / total)
        self._count = total

    def result(self, method: str) -> tuple[Float32, Float32]:
        if method == "standard":
            shift, scale = self._mean, np.sqrt(self._squares / self._count)
        elif method == "minmax":
            shift, scale = self._low, self._high - self._low
        else:
            raise ValueError(f"normalization: expected one of {', '.join(METHODS)}, got {method!r}")
        scale32 = scale.astype(np.float32)
        # A constant feature measures as rounding noise around 0; dividing by it would blow the noise up.
        still = (self._low == self._high) | (scale32 <= np.finfo(np.float32).tiny)
        scale32[still] = 1.0
        return shift.astype(np.float32), scale32
