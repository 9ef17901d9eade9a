"""2-D convolution and its two gradients, each as one standard convolution."""

from __future__ import annotations

from dataclasses import replace

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.convolution import Window


def _pads(window: Window) -> list[int]:
    """The padding in ONNX's order."""
    top, bottom, left, right = window.padding
    return [top, left, bottom, right]


def _room(window: Window, axis: int, size: tuple[int, ...], kernel: tuple[int, ...]) -> int:
    """By how many cells a kernel can move along an axis of the padded input."""
    padding = sum(window.padding[2 * axis : 2 * axis + 2])
    return size[2 + axis] + padding - (kernel[2 + axis] - 1) * window.dilation[axis] - 1


def _flat(e: Emission, name: str) -> Term | None:
    if not e.has(name):
        return None
    term = e.read(name)
    return term.reshape(term.size)


def conv2d(e: Emission) -> dict[str, Term]:
    window, x, w = Window.of(e.attributes), e.read("x"), e.read("w")
    out = e.graph.node(
        "Conv", x, w, _flat(e, "bias"), shape=e.shape("out"), kernel_shape=list(w.shape[2:]),
        strides=list(window.stride), dilations=list(window.dilation), pads=_pads(window), group=window.groups,
    )  # fmt: skip
    return {"out": out.apply("Relu") if e.attributes.get("activation") == "relu" else out}


def conv2d_derivative(e: Emission) -> dict[str, Term]:
    window, g, w, shape = Window.of(e.attributes), e.read("g"), e.read("w"), e.shape("out")
    # cells at the end that no window reaches
    left_over = [_room(window, axis, shape, w.shape) % window.stride[axis] for axis in (0, 1)]
    out = e.graph.node(
        "ConvTranspose", g, w, _flat(e, "bias"), shape=shape, kernel_shape=list(w.shape[2:]),
        strides=list(window.stride), dilations=list(window.dilation), pads=_pads(window), group=window.groups,
        output_padding=left_over,
    )  # fmt: skip
    return {"out": out}


def conv2d_gradient(e: Emission) -> dict[str, Term]:
    """A convolution over the batch: samples are its channels, ``g`` its weight, stride and dilation change places."""
    window, x, g = Window.of(e.attributes), e.read("x"), e.read("g")
    batch, channels, height, width = x.shape
    filters, kernel = g.shape[1], tuple(e.attributes["kernel_size"])
    inner = channels // window.groups
    folded = x.reshape(batch, window.groups, inner, height, width).transpose(2, 1, 0, 3, 4)
    exchanged = replace(window, stride=window.dilation, dilation=window.stride)
    size = [_room(exchanged, axis, x.shape, g.shape) // exchanged.stride[axis] + 1 for axis in (0, 1)]
    made = e.graph.node(
        "Conv", folded.reshape(inner, window.groups * batch, height, width), g.transpose(1, 0, 2, 3),
        shape=(inner, filters, *size), kernel_shape=list(g.shape[2:]), strides=list(window.dilation),
        dilations=list(window.stride), pads=_pads(window), group=window.groups,
    )  # fmt: skip
    cut = made.slice(2, 0, kernel[0]).slice(3, 0, kernel[1])  # more, where the stride leaves cells over at the end
    return {"out": cut.transpose(1, 0, 2, 3)}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (conv2d, conv2d_derivative, conv2d_gradient)}
