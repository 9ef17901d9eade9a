"""The named shape of a tensor: always four axes, batch, channel, height, width, in this order (NCHW)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

AXES = ("batch", "channel", "height", "width")


@dataclass(frozen=True, slots=True)
class TensorDim:
    """Shape ``(batch, channel, height, width)``; a missing axis is 1, as in NNTrainer."""

    batch: int = 1
    channel: int = 1
    height: int = 1
    width: int = 1

    def __post_init__(self) -> None:
        for axis in AXES:
            size = getattr(self, axis)
            if size < 1:
                raise ValueError(f"{axis} must be at least 1, got {size}")

    @classmethod
    def from_shape(cls, shape: Iterable[int]) -> TensorDim:
        """Right-aligned: ``(3,)`` is a width of 3, ``(2, 3)`` height 2 and width 3, and so on up to four axes."""
        sizes = tuple(int(size) for size in shape)
        if len(sizes) > 4:
            raise ValueError(f"a tensor has at most 4 axes, got {len(sizes)}: {sizes}")
        return cls(*((1,) * (4 - len(sizes)) + sizes))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.batch, self.channel, self.height, self.width)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.batch * self.features

    @property
    def features(self) -> int:
        """Number of elements of one sample."""
        return self.channel * self.height * self.width

    def axis(self, index: int) -> int:
        """Size of axis 0..3."""
        return self.shape[index]

    def with_axis(self, index: int, size: int) -> TensorDim:
        """The same shape with axis ``index`` of another size."""
        return replace(self, **{AXES[index]: size})

    def replace(
        self,
        *,
        batch: int | None = None,
        channel: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> TensorDim:
        """The same shape with the named axes of another size."""
        return TensorDim(
            self.batch if batch is None else batch,
            self.channel if channel is None else channel,
            self.height if height is None else height,
            self.width if width is None else width,
        )

    def __str__(self) -> str:
        return f"{self.channel}:{self.height}:{self.width}"
