"""Elements chosen by index.

An index outside its table is an error of the ONNX runtime; a negative one counts from the end.
"""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def embedding(e: Emission) -> dict[str, Term]:
    x, table = e.read("x"), e.read("table")
    indices = x.reshape(x.shape[0], x.shape[3]).cast("int64")
    rows = table.reshape(*table.shape[2:])
    made = e.graph.node("Gather", rows, indices, shape=(*indices.shape, table.shape[3]), axis=0)
    return {"out": made}


def embedding_gradient(e: Emission) -> dict[str, Term]:
    x, g = e.read("x"), e.read("g")
    rows, width = int(e.attributes["rows"]), g.shape[3]
    zeros = e.graph.constant([[0]], "float32").expand(rows, width)
    made = e.graph.node(
        "ScatterND", zeros, x.reshape(x.size, 1).cast("int64"), g.reshape(x.size, width), shape=zeros.shape,
        reduction="add",
    )  # fmt: skip
    return {"out": made}


def _indices(e: Emission, shape: tuple[int, ...]) -> Term:
    """An index for each element of ``shape``."""
    return e.read("indices").cast("int64").expand(*shape)


def gather(e: Emission) -> dict[str, Term]:
    shape = e.shape("out")
    made = e.graph.node("GatherElements", e.read("x"), _indices(e, shape), shape=shape, axis=int(e.attributes["axis"]))
    return {"out": made}


def gather_derivative(e: Emission) -> dict[str, Term]:
    g, shape = e.read("g"), e.shape("out")
    zeros = e.graph.constant([[[[0]]]], "float32").expand(*shape)
    made = e.graph.node(
        "ScatterElements", zeros, _indices(e, g.shape), g, shape=shape, axis=int(e.attributes["axis"]),
        reduction="add",
    )  # fmt: skip
    return {"out": made}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (embedding, embedding_gradient, gather, gather_derivative)}
