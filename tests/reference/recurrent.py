"""Twins of the recurrent kinds: every step written out, the ways back by the chain rule."""

from __future__ import annotations

import numpy as np
from scipy import special

from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import random_bits, threshold_of

_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805

FUNCTIONS = {
    "none": (lambda x: x, lambda y: np.ones_like(y)),
    "sigmoid": (special.expit, lambda y: y * (1 - y)),
    "tanh": (np.tanh, lambda y: 1 - y**2),
    "relu": (lambda x: np.maximum(x, 0), lambda y: np.where(y > 0, 1.0, 0.0)),
    "leaky_relu": (lambda x: np.where(x >= 0, x, 0.01 * x), lambda y: np.where(y >= 0, 1.0, 0.01)),
    "softplus": (lambda x: np.logaddexp(0, x), lambda y: 1 - np.exp(-y)),
    "elu": (lambda x: np.where(x >= 0, x, np.expm1(np.minimum(x, 0))), lambda y: np.where(y >= 0, 1.0, y + 1)),
    "selu": (
        lambda x: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(np.minimum(x, 0))),
        lambda y: np.where(y > 0, _SCALE, y + _SCALE * _ALPHA),
    ),
}


def _order(steps, attributes):
    """Pairs of a step and the one before it (None for the first)."""
    times = list(range(steps))[:: -1 if attributes.get("reverse") else 1]
    return list(zip(times, [None, *times[:-1]], strict=True))


def _mask(shape, attributes, state):
    """[N, T, u]: what the hidden state is multiplied by."""
    n, _, steps, units = shape
    if "rate" not in attributes:
        return np.ones((n, steps, units))
    rate, samples = attributes["rate"], np.arange(n) + state.counters[StepState.OFFSET]
    draw = 1 if attributes.get("reverse") else 0
    bits = random_bits(attributes["key"], int(state.counters[StepState.STEP]), samples, draw, steps * units)
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    return np.where(bits.reshape(n, steps, units) >= threshold_of(rate), scale, 0.0)


def _matrix(reads, units):
    return reads["weight"][0, 0] if "weight" in reads else np.zeros((units, 0))


def _start(reads, name, n, units):
    return reads[name].reshape(n, units) if name in reads else np.zeros((n, units))


def _incoming(reads, attributes, shape):
    """[N, T, u] from a derivative of all steps or of one."""
    n, _, steps, units = shape
    made = np.zeros((n, steps, units))
    if "g" in reads:
        g = reads["g"][:, 0]
        if g.shape[1] == steps:
            made += g
        else:
            made[:, attributes["at"]] += g[:, 0]
    return made


def rnn(reads, attributes, state):
    p, (act, _) = reads["projection"], FUNCTIONS[attributes["activation"]]
    n, _, steps, units = p.shape
    mask, hidden = _mask(p.shape, attributes, state), np.zeros((n, steps, units))
    for t, before in _order(steps, attributes):
        h = _start(reads, "hidden0", n, units) if before is None else hidden[:, before]
        hidden[:, t] = act(p[:, 0, t] + h @ _matrix(reads, units)) * mask[:, t]
    return {"hidden": hidden[:, None]}


def rnn_derivative(reads, attributes, state):
    hidden, (_, slope) = reads["hidden"], FUNCTIONS[attributes["activation"]]
    n, _, steps, units = hidden.shape
    mask, g = _mask(hidden.shape, attributes, state), _incoming(reads, attributes, hidden.shape)
    out, dh = np.zeros((n, steps, units)), np.zeros((n, units))
    for t, _ in reversed(_order(steps, attributes)):
        active = np.divide(hidden[:, 0, t], mask[:, t], out=np.zeros((n, units)), where=mask[:, t] != 0)
        out[:, t] = (dh + g[:, t]) * mask[:, t] * slope(active)
        dh = out[:, t] @ _matrix(reads, units).T
    made = {"out": out[:, None]}
    if attributes.get("initial"):
        made["dhidden0"] = dh
    return made


def lstm(reads, attributes, state):
    p = reads["projection"]
    n, _, steps, width = p.shape
    units = width // 4
    (act, _), (rec, _) = FUNCTIONS[attributes["activation"]], FUNCTIONS[attributes["recurrent_activation"]]
    hidden, cell, gates = np.zeros((n, steps, units)), np.zeros((n, steps, units)), np.zeros((n, steps, width))
    mask = _mask((n, 1, steps, units), attributes, state)
    for t, before in _order(steps, attributes):
        h = _start(reads, "hidden0", n, units) if before is None else hidden[:, before]
        c = _start(reads, "cell0", n, units) if before is None else cell[:, before]
        i, f, g, o = np.split(p[:, 0, t] + (h @ _matrix(reads, units) if "weight" in reads else 0), 4, axis=-1)
        i, f, g, o = rec(i), rec(f), act(g), rec(o)
        cell[:, t] = f * c + i * g
        hidden[:, t] = o * act(cell[:, t]) * mask[:, t]
        gates[:, t] = np.concatenate([i, f, g, o], axis=-1)
    return {"hidden": hidden[:, None], "cell": cell[:, None], "gates": gates[:, None]}


def lstm_derivative(reads, attributes, state):
    gates, cell = reads["gates"], reads["cell"]
    n, _, steps, units = cell.shape
    act, dact = FUNCTIONS[attributes["activation"]]
    _, drec = FUNCTIONS[attributes["recurrent_activation"]]
    mask, incoming = _mask(cell.shape, attributes, state), _incoming(reads, attributes, cell.shape)
    out, dh = np.zeros((n, steps, 4 * units)), np.zeros((n, units))
    dc = reads["gc"].reshape(n, units) if "gc" in reads else np.zeros((n, units))
    for t, before in reversed(_order(steps, attributes)):
        i, f, g, o = np.split(gates[:, 0, t], 4, axis=-1)
        c = _start(reads, "cell0", n, units) if before is None else cell[:, 0, before]
        dh, top = (dh + incoming[:, t]) * mask[:, t], act(cell[:, 0, t])
        dc = dc + dh * o * dact(top)
        pieces = [dc * g * drec(i), dc * c * drec(f), dc * i * dact(g), dh * top * drec(o)]
        out[:, t] = np.concatenate(pieces, axis=-1)
        dc, dh = dc * f, out[:, t] @ _matrix(reads, units).T if "weight" in reads else 0 * dh
    made = {"out": out[:, None]}
    if attributes.get("initial"):
        made |= {"dhidden0": dh, "dcell0": dc}
    return made


def gru(reads, attributes, state):
    p = reads["projection"]
    n, _, steps, width = p.shape
    units, u = width // 3, reads["weight"][0, 0]
    (act, _), (rec, _) = FUNCTIONS[attributes["activation"]], FUNCTIONS[attributes["recurrent_activation"]]
    b = reads["bias"].reshape(-1) if "bias" in reads else np.zeros(width)
    hidden, gates, inner = np.zeros((n, steps, units)), np.zeros((n, steps, width)), np.zeros((n, steps, units))
    mask = _mask((n, 1, steps, units), attributes, state)
    for t, before in _order(steps, attributes):
        h = _start(reads, "hidden0", n, units) if before is None else hidden[:, before]
        pz, pr, pg = np.split(p[:, 0, t], 3, axis=-1)
        uz, ur, ug = np.split(u, 3, axis=-1)
        bz, br, bg = np.split(b, 3)
        z, r = rec(pz + h @ uz + bz), rec(pr + h @ ur + br)
        if attributes.get("reset_after"):
            inner[:, t] = h @ ug + bg
            g = act(pg + r * inner[:, t])
        else:
            inner[:, t] = r * h
            g = act(pg + inner[:, t] @ ug + bg)
        hidden[:, t] = (z * h + (1 - z) * g) * mask[:, t]
        gates[:, t] = np.concatenate([z, r, g], axis=-1)
    return {"hidden": hidden[:, None], "gates": gates[:, None], "inner": inner[:, None]}


def gru_derivative(reads, attributes, state):
    hidden, gates, inner = reads["hidden"], reads["gates"], reads["inner"]
    n, _, steps, units = hidden.shape
    uz, ur, ug = np.split(reads["weight"][0, 0], 3, axis=-1)
    _, dact = FUNCTIONS[attributes["activation"]]
    _, drec = FUNCTIONS[attributes["recurrent_activation"]]
    mask, incoming = _mask(hidden.shape, attributes, state), _incoming(reads, attributes, hidden.shape)
    out, dinner, dh = np.zeros((n, steps, 3 * units)), np.zeros((n, steps, units)), np.zeros((n, units))
    after = bool(attributes.get("reset_after"))
    for t, before in reversed(_order(steps, attributes)):
        z, r, g = np.split(gates[:, 0, t], 3, axis=-1)
        h = _start(reads, "hidden0", n, units) if before is None else hidden[:, 0, before]
        dh = (dh + incoming[:, t]) * mask[:, t]
        dz, dg = dh * (h - g) * drec(z), dh * (1 - z) * dact(g)
        dh = dh * z
        if after:
            dr = dg * inner[:, 0, t] * drec(r)
            dinner[:, t] = dg * r
            dh = dh + dinner[:, t] @ ug.T
        else:
            through = dg @ ug.T
            dr = through * h * drec(r)
            dh = dh + through * r
        dh = dh + dz @ uz.T + dr @ ur.T
        out[:, t] = np.concatenate([dz, dr, dg], axis=-1)
    made = {"out": out[:, None]}
    if after:
        made["dinner"] = dinner[:, None]
    if attributes.get("initial"):
        made["dhidden0"] = dh
    return made


def recurrent_gradient(reads, attributes, state):
    hidden, g, shift = reads["hidden"][:, 0], reads["g"][:, 0], attributes["shift"]
    _, steps, units = hidden.shape
    before = np.zeros_like(hidden)
    for t in range(steps):
        if 0 <= t - shift < steps:
            before[:, t] = hidden[:, t - shift]
    out = np.einsum("ntu,ntg->ug", before, g)
    if "inner" in reads:
        inner = reads["inner"][:, 0]
        left, right = (before, inner) if attributes.get("reset_after") else (inner, g[..., -units:])
        out[:, -units:] = np.einsum("ntu,ntg->ug", left, right)
    return {"out": out}


REFERENCE = {
    f.__name__: f for f in (rnn, rnn_derivative, lstm, lstm_derivative, gru, gru_derivative, recurrent_gradient)
}
