"""The gradient of a recurrent matrix."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def _shifted(hidden: Term, shift: int) -> Term:
    """[N, T, u] moved along the steps; zeros come in."""
    steps = hidden.shape[1]
    if shift > 0:
        return hidden.slice(1, 0, steps - shift).pad([0, shift, 0], [0, 0, 0]) if steps > shift else hidden * 0.0
    if shift < 0:
        return hidden.slice(1, -shift, steps).pad([0, 0, 0], [0, -shift, 0]) if steps > -shift else hidden * 0.0
    return hidden


def _product(states: Term, g: Term) -> Term:
    """The sum over samples and steps of ``states^T g``."""
    left, right = (term.reshape(term.size // term.shape[-1], term.shape[-1]) for term in (states, g))
    return left.transpose(1, 0) @ right


def _steps(e: Emission, name: str) -> Term:
    term = e.read(name)
    return term.reshape(term.shape[0], term.shape[2], term.shape[3])


def recurrent_gradient(e: Emission) -> dict[str, Term]:
    hidden, g = _steps(e, "hidden"), _steps(e, "g")
    before, units = _shifted(hidden, int(e.attributes["shift"])), hidden.shape[2]
    if not e.has("inner"):
        return {"out": _product(before, g)}
    inner, columns = _steps(e, "inner"), g.shape[2] - units
    last = g.slice(2, columns, g.shape[2])
    left, right = (before, inner) if e.attributes.get("reset_after") else (inner, last)
    return {"out": _product(before, g.slice(2, 0, columns)).concat(1, _product(left, right))}


EMITTERS: dict[str, Emitter] = {"recurrent_gradient": recurrent_gradient}
