"""Twins of the optimizer updates and of clipping."""

from __future__ import annotations

import numpy as np

from nntrainer_py.tensor.operations.record import StepState


def _gradient(reads, attributes, state):
    scale = reads["scale"].item() if "scale" in reads else 1.0
    plain = reads["gradient"].reshape(reads["weight"].shape) / state.numbers[StepState.LOSS_SCALE] * scale
    return plain + attributes.get("decay", 0.0) * reads["weight"]


def _rate(state):
    return state.numbers[StepState.LEARNING_RATE]


def sgd(reads, attributes, state):
    return {"weight": reads["weight"] - _rate(state) * _gradient(reads, attributes, state)}


def momentum(reads, attributes, state):
    g, mu = _gradient(reads, attributes, state), attributes["momentum"]
    v = mu * reads["v"] + g
    return {"weight": reads["weight"] - _rate(state) * (g + mu * v if attributes["nesterov"] else v), "v": v}


def _moments(reads, attributes, state):
    g = _gradient(reads, attributes, state)
    b1, b2 = attributes["beta1"], attributes["beta2"]
    return b1 * reads["m"] + (1 - b1) * g, b2 * reads["v"] + (1 - b2) * g**2


def _corrections(attributes, state):
    t = int(state.counters[StepState.ITERATION]) + 1
    return 1 - attributes["beta1"] ** t, 1 - attributes["beta2"] ** t


def adam(reads, attributes, state):
    m, v = _moments(reads, attributes, state)
    c1, c2 = _corrections(attributes, state)
    w, epsilon = reads["weight"] * (1 - _rate(state) * attributes["weight_decay"]), attributes["epsilon"]
    if attributes["torch_ref"]:
        step = _rate(state) * (m / c1) / (np.sqrt(v / c2) + epsilon)
    else:
        step = _rate(state) * np.sqrt(c2) / c1 * m / (np.sqrt(v) + epsilon)
    return {"weight": w - step, "m": m, "v": v}


def rmsprop(reads, attributes, state):
    g = _gradient(reads, attributes, state)
    v = attributes["rho"] * reads["v"] + (1 - attributes["rho"]) * g**2
    return {"weight": reads["weight"] - _rate(state) * g / (np.sqrt(v) + attributes["epsilon"]), "v": v}


def adagrad(reads, attributes, state):
    g = _gradient(reads, attributes, state)
    v = reads["v"] + g**2
    return {"weight": reads["weight"] - _rate(state) * g / (np.sqrt(v) + attributes["epsilon"]), "v": v}


def lion(reads, attributes, state):
    g, m = _gradient(reads, attributes, state), reads["m"]
    b1, b2 = attributes["beta1"], attributes["beta2"]
    step = np.sign(b1 * m + (1 - b1) * g) + attributes["weight_decay"] * reads["weight"]
    return {"weight": reads["weight"] - _rate(state) * step, "m": b2 * m + (1 - b2) * g}


def lamb(reads, attributes, state):
    m, v = _moments(reads, attributes, state)
    c1, c2 = _corrections(attributes, state)
    w = reads["weight"]
    step = (m / c1) / (np.sqrt(v / c2) + attributes["epsilon"]) + attributes["weight_decay"] * w
    lengths = np.linalg.norm(w.reshape(-1)), np.linalg.norm(step.reshape(-1))
    trust = lengths[0] / lengths[1] if all(lengths) else 1.0
    return {"weight": w - _rate(state) * trust * step, "m": m, "v": v}


def global_norm(reads, attributes, state):
    whole = np.concatenate([gradient.reshape(-1) for gradient in reads.values()])
    return {"norm": np.array([np.linalg.norm(whole) / state.numbers[StepState.LOSS_SCALE]])}


def clip_scale(reads, attributes, state):
    return {"scale": np.array([min(1.0, attributes["limit"] / (reads["norm"].item() + 1e-6))])}


REFERENCE = {
    function.__name__: function
    for function in (sgd, momentum, adam, rmsprop, adagrad, lion, lamb, global_norm, clip_scale)
}
