"""2-D convolution (cross-correlation), NCHW: forward, gradient of the input, gradient of the weight.

Attributes of all three: ``stride`` (2), ``padding`` (top, bottom, left, right), ``dilation`` (2), ``groups`` and
``algorithm``: ``direct``, ``winograd2``, ``winograd4`` or ``auto``, which decides from the shapes of one sample. The
Winograd algorithms need 3x3 kernels of stride, dilation and groups 1, channels and filters in multiples of 32 and
padding of at most 2; what they cannot do is done directly. ``auto`` keeps the error within ``ERROR``. A transposed
convolution is the same three with the roles of input and output exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

ALGORITHMS = ("auto", "direct", "winograd2", "winograd4")
ERROR = {0: 1e-6, 2: 2e-6, 4: 1e-5}
"""Largest error of a convolution, relative to its largest result, by size of Winograd's tiles (0: direct)."""

_CHANNELS_OF_4 = 1024  # up to here the error of tiles of 4 stays within the bound: it grows with the sums' length
_PARALLEL_FLOPS = 4_000_000  # below this one thread is as fast (50 microseconds of a kernel for few channels)
# floating-point operations of the definition per nanosecond, by the size of Winograd's tiles: measured against the
# 10 GB/s that element-wise kinds count with (both are about three times as fast on the machine measured)
_GFLOPS = {0: 30.0, 2: 100.0, 4: 165.0}


@dataclass(frozen=True, slots=True)
class Window:
    """The attributes of a convolution, checked."""

    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    algorithm: str

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Window:
        stride, dilation = tuple(attributes.get("stride", (1, 1))), tuple(attributes.get("dilation", (1, 1)))
        padding = tuple(attributes.get("padding", (0, 0, 0, 0)))
        algorithm, groups = attributes.get("algorithm", "auto"), attributes.get("groups", 1)
        for what, value, count, least in (
            ("stride", stride, 2, 1),
            ("dilation", dilation, 2, 1),
            ("padding", padding, 4, 0),
        ):
            if len(value) != count or min(value) < least:
                raise ValueError(f"convolution: {what}: expected {count} integers of at least {least}, got {value}")
        if algorithm not in ALGORITHMS:
            raise ValueError(f"convolution: algorithm: expected one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
        if groups < 1:
            raise ValueError(f"convolution: groups: expected a positive integer, got {groups}")
        return cls(stride, padding, dilation, groups, algorithm)

    def output_size(self, size: tuple[int, int], kernel: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the output for an input of ``size``."""
        found = []
        for axis in (0, 1):
            reach = (kernel[axis] - 1) * self.dilation[axis] + 1
            room = size[axis] + self.padding[2 * axis] + self.padding[2 * axis + 1] - reach
            if room < 0:
                raise ValueError(f"convolution: a kernel reaching over {reach} does not fit an input of {size[axis]}")
            found.append(room // self.stride[axis] + 1)
        return found[0], found[1]

    def geometry(self) -> Array:
        """What the kernels read."""
        values = (self.groups, *self.stride, self.padding[0], self.padding[2], *self.dilation)
        return np.array(values, np.int64)

    def chosen(self, shapes: Shapes) -> int:
        """Tile size of the algorithm to use: 4 or 2 for Winograd, 0 for direct. Never depends on the batch."""
        possible = self.stride == self.dilation == (1, 1) and self.groups == 1 and shapes.w[2:] == (3, 3)
        if not possible or max(self.padding) > 2 or shapes.w[0] % 32 or shapes.w[1] % 32 or self.algorithm == "direct":
            return 0
        from nntrainer_py.tensor.kernels.winograd import fits

        height, width = shapes.y[2:]
        if self.algorithm == "auto":
            products = {size: (size + 2) ** 2 * -(-height // size) * -(-width // size) for size in (4, 2)}
            best = 4 if products[4] < products[2] and max(shapes.w[:2]) <= _CHANNELS_OF_4 else 2
            if products[best] >= 9 * height * width:
                return 0
        else:
            best = 4 if self.algorithm == "winograd4" else 2
        return best if fits(shapes.w[1], shapes.w[0], max(width, shapes.x[3]), best) else 0

    @property
    def plain(self) -> bool:
        """Whether consecutive outputs read consecutive inputs: what the small kernels need."""
        return self.stride == (1, 1)

    def check_groups(self, channels: int, filters: int) -> None:
        if channels % self.groups or filters % self.groups:
            raise ValueError(
                f"convolution: {self.groups} groups divide neither {channels} channels nor {filters} filters"
            )


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of input, weight and output of one convolution, whichever of them are read or written."""

    x: tuple[int, int, int, int]
    w: tuple[int, int, int, int]
    y: tuple[int, int, int, int]

    @property
    def flops(self) -> float:
        return 2.0 * self.y[0] * self.y[2] * self.y[3] * self.w[0] * self.w[1] * self.w[2] * self.w[3]

    @property
    def taps(self) -> int:
        return self.w[2] * self.w[3]


class _Convolution(OperationKind):
    """What the three kinds share."""

    def shapes(self, operation: Operation) -> Shapes:
        raise NotImplementedError

    def size(self, operation: Operation) -> int:
        """Tile size of the Winograd algorithm that is used, 0 for none."""
        return Window.of(operation.attributes).chosen(self.shapes(operation))

    def cost(self, operation: Operation) -> float:
        return max(self.shapes(operation).flops / _GFLOPS[self.size(operation)], super().cost(operation))

    def parts(self, operation: Operation, threads: int) -> int:
        return threads if threads > 1 and self.shapes(operation).flops >= _PARALLEL_FLOPS else 1


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ValueError(f"convolution: expected 4 axes, got {shape}")
    return shape[0], shape[1], shape[2], shape[3]


def _winograd_product(
    made: tuple[int, int, int, int],
    size: int,
    x: Array,
    w: Array,
    flip: int,
    bias: Array,
    rectify: int,
    out: Array,
    pad: tuple[int, int],
    scratch: Array,
    parts: int,
) -> Call:
    from nntrainer_py.tensor.kernels import winograd

    cut = np.array(winograd.product_plan(x.shape[1], made[1], made[0], made[2], made[3], size, parts), np.int64)
    return winograd.product.function, (x, w, flip, bias, rectify, out, *pad, size, cut, scratch, parts)


def _in_place(operation: Operation, inner: int, made: tuple[int, int, int, int]) -> bool:
    """Whether the small product is to be used, for ``inner`` channels of a group summed over to a result ``made``."""
    from nntrainer_py.tensor.kernels.convolution_small import suits_product

    window, kernel = Window.of(operation.attributes), operation.reads["w"].shape[2:]
    return window.plain and suits_product(
        inner, made[1] // window.groups, made[2:], (kernel[0], kernel[1]), window.dilation
    )


def _small_scratch(
    operation: Operation, inner: int, made: tuple[int, int, int, int], w: tuple[int, int, int, int], parts: int
) -> int:
    from nntrainer_py.tensor.kernels.convolution_small import product_scratch

    window = Window.of(operation.attributes)
    return product_scratch(inner, made[1] // window.groups, made[2:], w[2:], window.dilation, parts)


def _small_product(
    operation: Operation,
    x: Array,
    w: Array,
    flip: int,
    bias: Array,
    rectify: int,
    out: Array,
    scratch: Array,
    parts: int,
) -> Call:
    from nntrainer_py.tensor.kernels import convolution_small

    window = Window.of(operation.attributes)
    table = convolution_small.offsets(
        x.shape[1] // window.groups, (out.shape[2], out.shape[3]), (w.shape[2], w.shape[3]), window.dilation
    )
    arguments = (x, w, flip, bias, rectify, out, window.geometry(), table, scratch, parts)
    return convolution_small.product.function, arguments


class Conv2d(_Convolution):
    """``out = convolution(x, w) (+ bias)``: x (N, C, H, W), w (filters, C / groups, kh, kw), ``filters`` biases.

    ``activation="relu"`` rectifies the result in the same pass (for fusion).
    """

    name = "conv2d"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        window, x, w = Window.of(attributes), _four(reads["x"].shape), _four(reads["w"].shape)
        window.check_groups(x[1], w[0])
        if w[1] * window.groups != x[1]:
            raise ValueError(f"conv2d: a weight of {w} for an input of {x} in {window.groups} groups")
        if "bias" in reads and reads["bias"].size != w[0]:
            raise ValueError(f"conv2d: a bias of {reads['bias'].size} elements for {w[0]} filters")
        if attributes.get("activation") not in (None, "relu"):
            raise ValueError(f"conv2d: no fused activation {attributes['activation']!r}")
        return {"out": Spec((x[0], w[0], *window.output_size(x[2:], w[2:])))}

    def shapes(self, operation: Operation) -> Shapes:
        reads = operation.reads
        return Shapes(_four(reads["x"].shape), _four(reads["w"].shape), _four(operation.writes["out"].shape))

    def scratch(self, operation: Operation, threads: int) -> int:
        from nntrainer_py.tensor.kernels import convolution, winograd

        shapes, size, parts = self.shapes(operation), self.size(operation), self.parts(operation, threads)
        if size:
            return winograd.product_plan(shapes.x[1], shapes.y[1], shapes.y[0], *shapes.y[2:], size, parts).nbytes
        if _in_place(operation, shapes.w[1], shapes.y):
            return _small_scratch(operation, shapes.w[1], shapes.y, shapes.w, parts)
        return convolution.forward_scratch(shapes.w[1], shapes.taps, parts)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import convolution as kernels

        shapes, size, parts = self.shapes(operation), self.size(operation), self.parts(operation, run.threads)
        window, scratch = Window.of(operation.attributes), run.scratch.view(np.float32)
        bias = arrays["bias"].reshape(-1) if "bias" in arrays else np.empty(0, np.float32)
        rectify = int(operation.attributes.get("activation") == "relu")
        if size:
            pad = window.padding[0], window.padding[2]
            return _winograd_product(
                shapes.y, size, arrays["x"], arrays["w"], 0, bias, rectify, arrays["out"], pad, scratch, parts
            )
        geometry = window.geometry()
        if _in_place(operation, shapes.w[1], shapes.y):
            return _small_product(operation, arrays["x"], arrays["w"], 0, bias, rectify, arrays["out"], scratch, parts)
        arguments = (arrays["x"], arrays["w"], bias, rectify, arrays["out"], geometry, scratch, parts)
        return kernels.forward.function, arguments


class Conv2dDerivative(_Convolution):
    """Gradient of the input, of ``size`` = (height, width), from the gradient ``g`` of the output and the weight ``w``.

    With ``bias`` (one element per channel of the result) it is the forward pass of a transposed convolution.
    """

    name = "conv2d_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        window, g, w = Window.of(attributes), _four(reads["g"].shape), _four(reads["w"].shape)
        size = tuple(attributes["size"])
        window.check_groups(w[1] * window.groups, g[1])
        if g[1] != w[0] or window.output_size((size[0], size[1]), w[2:]) != g[2:]:
            raise ValueError(f"conv2d_derivative: {g} is not the output for an input of {size} and a weight of {w}")
        if "bias" in reads and reads["bias"].size != w[1] * window.groups:
            raise ValueError(
                f"conv2d_derivative: a bias of {reads['bias'].size} elements for {w[1] * window.groups} channels"
            )
        return {"out": Spec((g[0], w[1] * window.groups, *size))}

    def shapes(self, operation: Operation) -> Shapes:
        reads = operation.reads
        return Shapes(_four(operation.writes["out"].shape), _four(reads["w"].shape), _four(reads["g"].shape))

    def scratch(self, operation: Operation, threads: int) -> int:
        from nntrainer_py.tensor.kernels import convolution, winograd

        shapes, size, parts = self.shapes(operation), self.size(operation), self.parts(operation, threads)
        if size:
            return winograd.product_plan(shapes.y[1], shapes.x[1], shapes.x[0], *shapes.x[2:], size, parts).nbytes
        window = Window.of(operation.attributes)
        if _in_place(operation, shapes.y[1] // window.groups, shapes.x):
            return _small_scratch(operation, shapes.y[1] // window.groups, shapes.x, shapes.w, parts)
        return convolution.derivative_scratch(shapes.w[0] // window.groups, shapes.w[1], shapes.taps, parts)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import convolution as kernels

        shapes, size, parts = self.shapes(operation), self.size(operation), self.parts(operation, run.threads)
        window, scratch = Window.of(operation.attributes), run.scratch.view(np.float32)
        bias = arrays["bias"].reshape(-1) if "bias" in arrays else np.empty(0, np.float32)
        if size:
            pad = 2 - window.padding[0], 2 - window.padding[2]
            return _winograd_product(
                shapes.x, size, arrays["g"], arrays["w"], 1, bias, 0, arrays["out"], pad, scratch, parts
            )
        geometry = window.geometry()
        if _in_place(operation, shapes.y[1] // window.groups, shapes.x):
            return _small_product(operation, arrays["g"], arrays["w"], 1, bias, 0, arrays["out"], scratch, parts)
        return kernels.derivative.function, (arrays["g"], arrays["w"], bias, arrays["out"], geometry, scratch, parts)


class Conv2dGradient(_Convolution):
    """Gradient of the weight with kernel ``kernel_size`` from the input ``x`` and the gradient ``g`` of the output."""

    name = "conv2d_gradient"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        window, x, g = Window.of(attributes), _four(reads["x"].shape), _four(reads["g"].shape)
        kernel = tuple(attributes["kernel_size"])
        window.check_groups(x[1], g[1])
        if x[0] != g[0] or window.output_size(x[2:], (kernel[0], kernel[1])) != g[2:]:
            raise ValueError(f"conv2d_gradient: {g} is not the output for an input of {x} and a kernel of {kernel}")
        return {"out": Spec((g[1], x[1] // window.groups, *kernel))}

    def shapes(self, operation: Operation) -> Shapes:
        reads = operation.reads
        x, g = _four(reads["x"].shape), _four(reads["g"].shape)
        kernel = tuple(operation.attributes["kernel_size"])
        return Shapes(x, (g[1], x[1] // Window.of(operation.attributes).groups, kernel[0], kernel[1]), g)

    def scratch(self, operation: Operation, threads: int) -> int:
        from nntrainer_py.tensor.kernels import convolution, convolution_small, winograd

        shapes, size, parts = self.shapes(operation), self.size(operation), self.parts(operation, threads)
        if size:
            return winograd.gradient_plan(shapes.x[1], shapes.y[1], shapes.y[0], *shapes.y[2:], size, parts).nbytes
        window = Window.of(operation.attributes)
        sizes = shapes.x[1], shapes.y[1], shapes.y[2:], shapes.w[2:], window.dilation
        if window.plain and convolution_small.suits_gradient(*sizes[:2], window.groups, *sizes[2:]):
            return convolution_small.gradient_scratch(*sizes, parts)
        return convolution.gradient_scratch(shapes.w[1] * shapes.taps, parts)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import convolution as kernels
        from nntrainer_py.tensor.kernels import convolution_small, winograd

        shapes, size, parts = self.shapes(operation), self.size(operation), self.parts(operation, run.threads)
        window, scratch = Window.of(operation.attributes), run.scratch.view(np.float32)
        weight, add = arrays["out"].reshape(shapes.w), int(operation.accumulate)
        if size:
            plan = winograd.gradient_plan(shapes.x[1], shapes.y[1], shapes.y[0], *shapes.y[2:], size, parts)
            cut = np.array(plan, np.int64)
            pad = window.padding[0], window.padding[2]
            return winograd.gradient.function, (arrays["x"], arrays["g"], weight, *pad, size, add, cut, scratch, parts)
        geometry = window.geometry()
        sizes = shapes.x[1], shapes.y[1], shapes.y[2:], shapes.w[2:], window.dilation
        if window.plain and convolution_small.suits_gradient(*sizes[:2], window.groups, *sizes[2:]):
            small = (arrays["x"], arrays["g"], weight, geometry, add, scratch, parts)
            return convolution_small.gradient.function, small
        arguments = (arrays["x"], arrays["g"], weight, geometry, add, scratch, parts)
        return kernels.gradient.function, arguments


register(Conv2d())
register(Conv2dDerivative())
register(Conv2dGradient())
