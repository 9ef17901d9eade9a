"""Plain functions of one tensor, their derivatives, and rounding to what another type can hold."""

from __future__ import annotations

from collections.abc import Callable

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.unary import FROM_OUTPUT, INTEGERS

OPERATORS = {"sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "negative": "Neg"}

#: slopes, from the output for those of FROM_OUTPUT, else from the input
SLOPES: dict[str, Callable[[Term], Term]] = {
    "sqrt": lambda y: 1.0 / (y + y),
    "sin": lambda x: x.apply("Cos"),
    "cos": lambda x: -x.apply("Sin"),
    "tan": lambda y: y * y + 1.0,
}


def unary(e: Emission) -> dict[str, Term]:
    function, x = e.attributes["function"], e.read("x")
    if function == "square":
        return {"out": x * x}
    if function == "pow":
        exponent = float(e.attributes["exponent"])
        return {"out": x * x if exponent == 2.0 else x**exponent}
    return {"out": x.apply(OPERATORS[function])}


def unary_derivative(e: Emission) -> dict[str, Term]:
    function, g = e.attributes["function"], e.read("g")
    operand = e.read("y" if function in FROM_OUTPUT else "x")
    if function == "pow":
        exponent = float(e.attributes["exponent"])
        slope = operand if exponent == 2.0 else operand ** (exponent - 1.0)
        return {"out": g * (slope * exponent)}
    return {"out": g * SLOPES[function](operand)}


def round_to(e: Emission) -> dict[str, Term]:
    x, kind = e.read("x"), e.attributes["type"]
    if kind == "FP16":
        return {"out": x.cast("float16").cast("float32")}
    whole = (x < 0.0).where(x.apply("Ceil"), x.apply("Floor"))
    return {"out": whole.binary("Max", 0.0).binary("Min", float(INTEGERS[kind]))}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (unary, unary_derivative, round_to)}
