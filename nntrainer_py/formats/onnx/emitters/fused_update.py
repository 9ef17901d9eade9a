"""Gradient descent on the weight of a matrix product without a gradient of its own."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.formats.onnx.emitters.matmul import weight_gradient
from nntrainer_py.tensor.operations.record import StepState


def matmul_descent(e: Emission) -> dict[str, Term]:
    weight, rate = e.read("weight"), e.number(StepState.LEARNING_RATE).cast("float32")
    return {"weight": weight - rate * weight_gradient(e).reshape(*weight.shape)}


EMITTERS: dict[str, Emitter] = {"matmul_descent": matmul_descent}
