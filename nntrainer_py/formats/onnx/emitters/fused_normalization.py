"""Batch normalization with the relu behind it, an addition between if there is one."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.formats.onnx.emitters.normalization import Channels


def batch_normalize_relu(e: Emission) -> dict[str, Term]:
    value = Channels(e).affine
    if e.has("addend"):
        value = value + e.read("addend")
    return {"out": value.apply("Relu")}


def _through(e: Emission, channels: Channels) -> Term:
    """The gradient where the relu let its input through."""
    return (channels.affine > 0.0).where(e.read("g"), 0.0)


def batch_normalize_relu_sums(e: Emission) -> dict[str, Term]:
    channels = Channels(e)
    return channels.sums(_through(e, channels))


def batch_normalize_relu_derivative(e: Emission) -> dict[str, Term]:
    channels = Channels(e)
    return channels.derivative(_through(e, channels))


EMITTERS: dict[str, Emitter] = {
    f.__name__: f for f in (batch_normalize_relu, batch_normalize_relu_sums, batch_normalize_relu_derivative)
}
