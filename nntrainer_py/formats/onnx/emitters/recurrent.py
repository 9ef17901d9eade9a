"""Recurrent layers, every step written out, and the ways back through time.

Formulas and the order of the gates are those of nntrainer_py/tensor/operations/recurrent.py.
"""

from __future__ import annotations

from collections.abc import Callable

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.formats.onnx.emitters import elementwise
from nntrainer_py.formats.onnx.emitters.random import random_bits
from nntrainer_py.tensor.rng import threshold_of

Function = Callable[[Term], Term]


def _plain(x: Term) -> Term:
    return x


class Sequence:
    """What all kinds share: extent, functions, weight, mask of the hidden state; one step is [N, width]."""

    def __init__(self, e: Emission, operand: str, gates: int) -> None:
        n, _, steps, width = e.read(operand).shape
        self.e, self.n, self.steps, self.units = e, n, steps, width // gates
        self.weight: Term | None = None
        if e.has("weight"):
            weight = e.read("weight")
            self.weight = weight.reshape(*weight.shape[2:])
        times = list(range(steps))[:: -1 if e.attributes.get("reverse") else 1]
        #: pairs of a step and the one before it (None for the first)
        self.order: list[tuple[int, int | None]] = list(zip(times, [None, *times[:-1]], strict=True))
        self._rate = float(e.attributes["rate"]) if "rate" in e.attributes else None
        self._keeps = self._kept()

    def function(self, key: str) -> Function:
        name = self.e.attributes[key]
        return _plain if name == "none" else elementwise.FUNCTIONS[name]

    def through(self, key: str, g: Term, y: Term) -> Term:
        """A derivative by the result ``y`` of a function as one by its argument."""
        name = self.e.attributes[key]
        return g if name == "none" else g * elementwise.OF_OUTPUT[name](y)

    def _kept(self) -> Term | None:
        """[N, T, u]: which elements of the hidden state are kept (bool)."""
        if self._rate is None:
            return None
        draw = 1 if self.e.attributes.get("reverse") else 0
        bits = random_bits(self.e, self.n, self.steps * self.units, draw)
        return bits.reshape(self.n, self.steps, self.units) >= threshold_of(self._rate)

    @property
    def _scale(self) -> float:
        return 1.0 / (1.0 - self._rate) if self._rate is not None and self._rate < 1.0 else 0.0

    def dropped(self, h: Term, t: int) -> Term:
        """What is kept of a hidden state, or of the derivative by one."""
        if self._keeps is None:
            return h
        return self.at(self._keeps, t).where(h * self._scale, 0.0)

    def restored(self, h: Term, t: int) -> Term:
        """A kept hidden state as it was before dropout; zeros where it was dropped."""
        if self._keeps is None or self._scale == 0.0:
            return h
        return self.at(self._keeps, t).where(h * (1.0 / self._scale), 0.0)

    def at(self, whole: Term, t: int) -> Term:
        """One step of a sequence."""
        width = whole.shape[-1]
        return whole.reshape(self.n, self.steps, width).slice(1, t, t + 1).reshape(self.n, width)

    def before(self, whole: Term, t: int | None, initial: str) -> Term | None:
        """The step ``t`` of a sequence, for None the initial state; None where that is zero."""
        if t is not None:
            return self.at(whole, t)
        return self.initial(initial)

    def initial(self, name: str) -> Term | None:
        return self.e.read(name).reshape(self.n, self.units) if self.e.has(name) else None

    def zeros(self, width: int) -> Term:
        return self.e.graph.constant([[0]], "float32").expand(self.n, width)

    def incoming(self, t: int, g: Term | None) -> Term:
        """The derivative by the hidden state of a step: from outside, and from the step behind it (``g``)."""
        e, found = self.e, g
        if e.has("g"):
            outside = e.read("g")
            here: Term | None = None
            if outside.shape[2] == self.steps:
                here = self.at(outside, t)
            elif t == int(e.attributes["at"]) % self.steps:
                here = outside.reshape(self.n, self.units)
            if here is not None:
                found = here if found is None else found + here
        return self.zeros(self.units) if found is None else found

    def joined(self, parts: dict[int, Term]) -> Term:
        """Steps side by side, [N, T, width]."""
        first, *others = (parts[t].reshape(self.n, 1, parts[t].shape[1]) for t in range(self.steps))
        return first.concat(1, *others)

    def blocks(self, step: Term) -> list[Term]:
        """The gates of a step, or the columns of a matrix that belong to them."""
        count = step.shape[1] // self.units
        return [step.slice(1, i * self.units, (i + 1) * self.units) for i in range(count)]

    def plus_product(self, step: Term, h: Term | None) -> Term:
        """``step + h U``."""
        return step if h is None or self.weight is None else step + h @ self.weight

    def back(self, by_arguments: Term) -> Term | None:
        """The derivative by the hidden state from that by the arguments of all gates."""
        return None if self.weight is None else by_arguments @ self.weight.transpose(1, 0)

    def or_zeros(self, term: Term | None) -> Term:
        return self.zeros(self.units) if term is None else term


def rnn(e: Emission) -> dict[str, Term]:
    s = Sequence(e, "projection", 1)
    act, h, hidden = s.function("activation"), s.initial("hidden0"), dict[int, Term]()
    for t, _ in s.order:
        h = hidden[t] = s.dropped(act(s.plus_product(s.at(e.read("projection"), t), h)), t)
    return {"hidden": s.joined(hidden)}


def rnn_derivative(e: Emission) -> dict[str, Term]:
    s = Sequence(e, "hidden", 1)
    dh: Term | None = None
    out: dict[int, Term] = {}
    for t, _ in reversed(s.order):
        active = s.restored(s.at(e.read("hidden"), t), t)
        out[t] = s.through("activation", s.dropped(s.incoming(t, dh), t), active)
        dh = s.back(out[t])
    made = {"out": s.joined(out)}
    if e.attributes.get("initial"):
        made["dhidden0"] = s.or_zeros(dh)
    return made


def lstm(e: Emission) -> dict[str, Term]:
    s = Sequence(e, "projection", 4)
    act, rec = s.function("activation"), s.function("recurrent_activation")
    h, c = s.initial("hidden0"), s.initial("cell0")
    hidden, cell, gates = dict[int, Term](), dict[int, Term](), dict[int, Term]()
    for t, _ in s.order:
        arguments = s.blocks(s.plus_product(s.at(e.read("projection"), t), h))
        i, f, g, o = rec(arguments[0]), rec(arguments[1]), act(arguments[2]), rec(arguments[3])
        c = cell[t] = i * g if c is None else f * c + i * g
        h = hidden[t] = s.dropped(o * act(c), t)
        gates[t] = i.concat(1, f, g, o)
    return {"hidden": s.joined(hidden), "cell": s.joined(cell), "gates": s.joined(gates)}


def lstm_derivative(e: Emission) -> dict[str, Term]:
    s = Sequence(e, "cell", 1)
    act, dh, out = s.function("activation"), None, dict[int, Term]()
    dc = e.read("gc").reshape(s.n, s.units) if e.has("gc") else None
    for t, before in reversed(s.order):
        i, f, g, o = s.blocks(s.at(e.read("gates"), t))
        c, top = s.before(e.read("cell"), before, "cell0"), act(s.at(e.read("cell"), t))
        by_hidden = s.dropped(s.incoming(t, dh), t)
        by_top = s.through("activation", by_hidden * o, top)
        dc = by_top if dc is None else dc + by_top
        by_forget = s.zeros(s.units) if c is None else s.through("recurrent_activation", dc * c, f)
        out[t] = s.through("recurrent_activation", dc * g, i).concat(
            1, by_forget, s.through("activation", dc * i, g), s.through("recurrent_activation", by_hidden * top, o)
        )
        dc, dh = dc * f, s.back(out[t])
    made = {"out": s.joined(out)}
    if e.attributes.get("initial"):
        made |= {"dhidden0": s.or_zeros(dh), "dcell0": s.or_zeros(dc)}
    return made


def gru(e: Emission) -> dict[str, Term]:
    s = Sequence(e, "projection", 3)
    act, rec = s.function("activation"), s.function("recurrent_activation")
    assert s.weight is not None
    weights = s.blocks(s.weight)
    biases = s.blocks(e.read("bias").reshape(1, 3 * s.units)) if e.has("bias") else []
    hidden, gates, inner = dict[int, Term](), dict[int, Term](), dict[int, Term]()
    h = s.or_zeros(s.initial("hidden0"))

    def product(state: Term, gate: int) -> Term:
        made = state @ weights[gate]
        return made + biases[gate] if biases else made

    for t, _ in s.order:
        pz, pr, pg = s.blocks(s.at(e.read("projection"), t))
        z, r = rec(pz + product(h, 0)), rec(pr + product(h, 1))
        if e.attributes.get("reset_after"):
            inner[t] = product(h, 2)
            g = act(pg + r * inner[t])
        else:
            inner[t] = r * h
            g = act(pg + product(inner[t], 2))
        h = hidden[t] = s.dropped(z * h + (1.0 - z) * g, t)
        gates[t] = z.concat(1, r, g)
    return {"hidden": s.joined(hidden), "gates": s.joined(gates), "inner": s.joined(inner)}


def gru_derivative(e: Emission) -> dict[str, Term]:
    s = Sequence(e, "hidden", 1)
    assert s.weight is not None
    uz, ur, ug = (block.transpose(1, 0) for block in s.blocks(s.weight))
    dh: Term | None = None
    out, dinner = dict[int, Term](), dict[int, Term]()
    for t, before in reversed(s.order):
        z, r, g = s.blocks(s.at(e.read("gates"), t))
        h = s.or_zeros(s.before(e.read("hidden"), before, "hidden0"))
        by_hidden = s.dropped(s.incoming(t, dh), t)
        dz = s.through("recurrent_activation", by_hidden * (h - g), z)
        dg = s.through("activation", by_hidden * (1.0 - z), g)
        if e.attributes.get("reset_after"):
            dr = s.through("recurrent_activation", dg * s.at(e.read("inner"), t), r)
            dinner[t] = dg * r
            by_inner = dinner[t] @ ug
        else:
            through = dg @ ug
            dr = s.through("recurrent_activation", through * h, r)
            by_inner = through * r
        dh = by_hidden * z + by_inner + dz @ uz + dr @ ur
        out[t] = dz.concat(1, dr, dg)
    made = {"out": s.joined(out)}
    if dinner:
        made["dinner"] = s.joined(dinner)
    if e.attributes.get("initial"):
        made["dhidden0"] = s.or_zeros(dh)
    return made


EMITTERS: dict[str, Emitter] = {
    f.__name__: f for f in (rnn, rnn_derivative, lstm, lstm_derivative, gru, gru_derivative)
}
