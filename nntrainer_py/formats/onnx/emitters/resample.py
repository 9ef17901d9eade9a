"""Bilinear enlargement: a matrix for each axis, so that the way back is the transposed one."""

from __future__ import annotations

import numpy as np

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.resample import neighbours


def _matrix(e: Emission, size: int, scale: int) -> Term:
    """Cells of the enlarged axis by cells of the old one."""
    low, high, share = neighbours(size, scale)
    made = np.zeros((size * scale, size), np.float32)
    rows = np.arange(size * scale)
    np.add.at(made, (rows, low), 1 - share)
    np.add.at(made, (rows, high), share)
    return e.graph.constant(made)


def bilinear(e: Emission) -> dict[str, Term]:
    x, (down, right) = e.read("x"), e.attributes["scale"]
    columns = _matrix(e, x.shape[3], right).transpose(1, 0)
    return {"out": _matrix(e, x.shape[2], down) @ (x @ columns)}


def bilinear_derivative(e: Emission) -> dict[str, Term]:
    g, (down, right) = e.read("g"), e.attributes["scale"]
    rows = _matrix(e, g.shape[2] // down, down).transpose(1, 0)
    return {"out": rows @ (g @ _matrix(e, g.shape[3] // right, right))}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (bilinear, bilinear_derivative)}
