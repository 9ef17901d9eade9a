"""Scores of attention by a mixture of logistic distributions, and their derivatives."""

from __future__ import annotations

import numpy as np

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter

_LEAST = 1e-8  # added to a width


class _Mixture:
    """The pieces of the formula: [N, K], or [N, T, K] for each of ``steps`` positions."""

    def __init__(self, e: Emission, steps: int) -> None:
        n, count = e.read("state").shape[0], e.read("state").shape[3]
        self.n, self.count, self.steps = n, count, steps
        kappa, beta, alpha = (e.read("p").reshape(n, 3 * count).slice(1, i * count, (i + 1) * count) for i in range(3))
        self.moves, self.spread = kappa.apply("Exp"), beta.apply("Exp")
        self.share = alpha.apply("Softmax", axis=-1)
        self.centre = self.moves + e.read("state").reshape(n, count)
        self.width = self.spread + _LEAST
        places = e.graph.constant(np.arange(1, steps + 1, dtype=np.float32).reshape(1, steps, 1))
        wide, middle = self.width.reshape(n, 1, count), self.centre.reshape(n, 1, count)
        self.above, self.below = ((places + half - middle) / wide for half in (0.5, -0.5))
        self.high, self.low = self.above.apply("Sigmoid"), self.below.apply("Sigmoid")
        self._seen = None
        if e.has("length"):
            self._seen = places.reshape(1, steps) <= e.read("length").reshape(n, 1)

    def visible(self, term: Term) -> Term:
        """[N, T] with zeros beyond the length."""
        return term if self._seen is None else self._seen.where(term, 0.0)

    def over_steps(self, g: Term, term: Term) -> Term:
        """The sum over positions of ``g`` [N, T] times ``term`` [N, T, K]."""
        return (g.reshape(self.n, self.steps, 1) * term).sum([1]).reshape(self.n, self.count)


def mol_scores(e: Emission) -> dict[str, Term]:
    m = _Mixture(e, int(e.attributes["steps"]))
    scores = ((m.high - m.low) * m.share.reshape(m.n, 1, m.count)).sum([2]).reshape(m.n, m.steps)
    return {"out": m.visible(scores), "moved": m.centre}


def mol_scores_derivative(e: Emission) -> dict[str, Term]:
    n = e.read("state").shape[0]
    g = e.read("g").reshape(n, e.read("g").size // n)
    m = _Mixture(e, g.shape[1])
    g = m.visible(g)
    above, below = m.high * (1.0 - m.high), m.low * (1.0 - m.low)
    scaled = m.share / m.width
    to_centre = -(scaled * m.over_steps(g, above - below))
    if e.has("gmoved"):
        to_centre = to_centre + e.read("gmoved").reshape(n, m.count)
    to_width = -(scaled * m.over_steps(g, above * m.above - below * m.below))
    to_share = m.over_steps(g, m.high - m.low)
    to_mixture = m.share * (to_share - (m.share * to_share).sum([1]))
    return {"dp": (to_centre * m.moves).concat(1, to_width * m.spread, to_mixture), "dstate": to_centre}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (mol_scores, mol_scores_derivative)}
