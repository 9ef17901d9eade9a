"""Twins of arithmetic, plain functions, sums and repetition."""

from __future__ import annotations

import numpy as np


def binary(reads, attributes, state):
    a, b = reads["a"], reads["b"]
    match attributes["function"]:
        case "add":
            return {"out": a + b}
        case "subtract":
            return {"out": a - b}
        case "multiply":
            return {"out": a * b}
        case "divide":
            return {"out": a / b}
    raise KeyError(attributes["function"])


def unary(reads, attributes, state):
    x = reads["x"]
    match attributes["function"]:
        case "pow":
            return {"out": x ** attributes["exponent"]}
        case "negative":
            return {"out": -x}
        case "square":
            return {"out": x * x}
        case function:
            return {"out": {"sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan}[function](x)}


def unary_derivative(reads, attributes, state):
    g = reads["g"]
    match attributes["function"]:
        case "pow":
            return {"out": g * attributes["exponent"] * reads["x"] ** (attributes["exponent"] - 1)}
        case "sqrt":
            return {"out": g / (2 * reads["y"])}
        case "sin":
            return {"out": g * np.cos(reads["x"])}
        case "cos":
            return {"out": -g * np.sin(reads["x"])}
        case "tan":
            return {"out": g * (1 + reads["y"] ** 2)}
    raise KeyError(attributes["function"])


def round_to(reads, attributes, state):
    x = reads["x"]
    if attributes["type"] == "FP16":
        return {"out": x.astype(np.float16).astype(np.float64)}
    return {"out": np.clip(np.trunc(x), 0, 2 ** int(attributes["type"][4:]) - 1)}


def reduce_sum(reads, attributes, state):
    return {"out": attributes.get("factor", 1.0) * reads["x"].sum(tuple(attributes["axes"]), keepdims=True)}


def broadcast(reads, attributes, state):
    return {"out": attributes.get("factor", 1.0) * np.broadcast_to(reads["x"], attributes["shape"])}


REFERENCE = {f.__name__: f for f in (binary, unary, unary_derivative, round_to, reduce_sum, broadcast)}
