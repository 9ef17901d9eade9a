"""Plain functions of one tensor (power, root, trigonometry, negation, rounding); their derivatives. By NumPy's ufuncs.

A derivative overwrites the operand it is computed from (``x`` or ``y``) where nobody reads that later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

#: functions without a parameter
FUNCTIONS: dict[str, np.ufunc] = {
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "negative": np.negative, "square": np.square,
}  # fmt: skip
#: integer types of a cast and their largest values
INTEGERS: dict[str, int] = {"UINT4": (1 << 4) - 1, "UINT8": (1 << 8) - 1, "UINT16": (1 << 16) - 1}
#: derivatives that are computed from the output
FROM_OUTPUT = frozenset({"sqrt", "tan"})


def _apply(function: np.ufunc, x: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        function(x, out)


def _power(x: Array, exponent: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.power(x, exponent, out)


def _power_derivative(x: Array, g: Array, exponent: Array, factor: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.power(x, exponent, out)
        np.multiply(out, factor, out)
        np.multiply(out, g, out)


def _square_derivative(x: Array, g: Array, two: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.multiply(x, two, out)
        np.multiply(out, g, out)


def _sqrt_derivative(y: Array, g: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.add(y, y, out)
        np.divide(g, out, out)


def _sin_derivative(x: Array, g: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.cos(x, out)
        np.multiply(g, out, out)


def _cos_derivative(x: Array, g: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.sin(x, out)
        np.negative(out, out)
        np.multiply(g, out, out)


def _tan_derivative(y: Array, g: Array, one: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.square(y, out)
        np.add(out, one, out)
        np.multiply(g, out, out)


_DERIVATIVES: dict[str, Callable[..., None]] = {
    "sqrt": _sqrt_derivative, "sin": _sin_derivative, "cos": _cos_derivative,
}  # fmt: skip


class Unary(OperationKind):
    """``out = function(x)``; the function ``pow`` has the attribute ``exponent``."""

    name = "unary"
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        function = attributes["function"]
        if function not in FUNCTIONS and function != "pow":
            raise ValueError(f"no function {function!r}")
        return {"out": Spec(reads["x"].shape)}

    def aliases(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        return () if operation.attributes.get("keep") else self.in_place

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        function, x, out = operation.attributes["function"], arrays["x"], arrays["out"]
        if function != "pow":
            return _apply, (FUNCTIONS[function], x, out)
        exponent = float(operation.attributes["exponent"])
        if exponent == 2.0:
            return _apply, (np.square, x, out)
        return _power, (x, np.full(1, exponent, np.float32), out)


class UnaryDerivative(OperationKind):
    """``out = g * function'``; reads ``y``, the function's output, where FROM_OUTPUT, else its input ``x``."""

    name = "unary_derivative"
    elementwise = True
    in_place = (("out", "x"), ("out", "y"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        operand = "y" if attributes["function"] in FROM_OUTPUT else "x"
        if operand not in reads:
            raise ValueError(f"the derivative of {attributes['function']} is computed from {operand}")
        return {"out": Spec(reads["g"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        function, g, out = operation.attributes["function"], arrays["g"], arrays["out"]
        if function == "pow":
            exponent = float(operation.attributes["exponent"])
            power, factor = np.full(1, exponent - 1.0, np.float32), np.full(1, exponent, np.float32)
            if exponent == 2.0:
                return _square_derivative, (arrays["x"], g, factor, out)
            return _power_derivative, (arrays["x"], g, power, factor, out)
        if function == "tan":
            return _tan_derivative, (arrays["y"], g, np.ones(1, np.float32), out)
        return _DERIVATIVES[function], (arrays["y" if function in FROM_OUTPUT else "x"], g, out)


def _through_half(x: Array, half: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.copyto(half, x, casting="same_kind")
        np.copyto(out, half)


def _cut_off(x: Array, zero: Array, largest: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.trunc(x, out)
        np.maximum(out, zero, out=out)
        np.minimum(out, largest, out=out)


class RoundTo(OperationKind):
    """``x`` rounded to what ``type`` (FP16 or one of INTEGERS) can hold, as float32; NaN stays."""

    name = "round_to"
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if attributes["type"] != "FP16" and attributes["type"] not in INTEGERS:
            raise ValueError(f"no rounding to {attributes['type']!r}")
        return {"out": Spec(reads["x"].shape)}

    def scratch(self, operation: Operation, threads: int) -> int:
        return 2 * operation.reads["x"].size if operation.attributes["type"] == "FP16" else 0

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        kind, x, out = operation.attributes["type"], arrays["x"].reshape(-1), arrays["out"].reshape(-1)
        if kind == "FP16":
            return _through_half, (x, run.scratch.view(np.float16)[: x.size], out)
        return _cut_off, (x, np.zeros(1, np.float32), np.full(1, INTEGERS[kind], np.float32), out)


for _kind in (Unary(), UnaryDerivative(), RoundTo()):
    register(_kind)
