"""Twins of the losses."""

from __future__ import annotations

import numpy as np
from scipy import special

from nntrainer_py.tensor.operations.record import StepState


def _samples(state):
    return state.numbers[StepState.SAMPLES]


def _scale(attributes, state):
    return attributes.get("weight", 1.0) * state.numbers[StepState.LOSS_SCALE] / _samples(state)


def _elements(y):
    return y[0].size


def _scalar(value):
    return {"loss": np.array([value])}


def _of_elements(value, slope):
    """Twins of a loss that is the mean of ``value(y, t, parameter)`` over all elements."""

    def forward(reads, attributes, state):
        y, t = reads["y"], reads["t"]
        total = value(y, t, attributes.get("parameter")).sum()
        return _scalar(attributes.get("weight", 1.0) * total / (_samples(state) * _elements(y)))

    def derivative(reads, attributes, state):
        y, t = reads["y"], reads["t"]
        return {"out": slope(y, t, attributes.get("parameter")) * _scale(attributes, state) / _elements(y)}

    return forward, derivative


def _signs(t):
    return np.where(t == 0, -1.0, t)


mse, mse_derivative = _of_elements(lambda y, t, _: (t - y) ** 2, lambda y, t, _: 2 * (y - t))
mae, mae_derivative = _of_elements(lambda y, t, _: np.abs(t - y), lambda y, t, _: np.sign(y - t))
huber, huber_derivative = _of_elements(lambda y, t, d: special.huber(d, y - t), lambda y, t, d: np.clip(y - t, -d, d))
hinge, hinge_derivative = _of_elements(
    lambda y, t, _: np.maximum(0, 1 - _signs(t) * y), lambda y, t, _: np.where(_signs(t) * y < 1, -_signs(t), 0.0)
)


def kld(reads, attributes, state):
    p = np.maximum(reads["y"], attributes["parameter"])
    total = (special.xlogy(reads["t"], reads["t"]) - special.xlogy(reads["t"], p)).sum()
    return _scalar(attributes["weight"] * total / _samples(state))


def kld_derivative(reads, attributes, state):
    p = np.maximum(reads["y"], attributes["parameter"])
    return {"out": -reads["t"] / p * _scale(attributes, state)}


def _length(x, attributes):
    """Along the width, at least ``parameter``."""
    return np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), attributes["parameter"])


def cosine_distance(reads, attributes, state):
    y, t = reads["y"], reads["t"]
    rows = _elements(y) // y.shape[-1]
    total = (1 - (y * t / (_length(y, attributes) * _length(t, attributes))).sum(-1)).sum()
    return _scalar(attributes["weight"] * total / (rows * _samples(state)))


def cosine_distance_derivative(reads, attributes, state):
    y, t = reads["y"], reads["t"]
    rows, length, size = _elements(y) // y.shape[-1], _length(y, attributes), _length(t, attributes)
    cosine = (y * t / (length * size)).sum(-1, keepdims=True)
    short = np.linalg.norm(y, axis=-1, keepdims=True) < attributes["parameter"]  # its length does not depend on y
    slope = (np.where(short, 0.0, cosine) * y / length - t / size) / length
    return {"out": slope * _scale(attributes, state) / rows}


def _labels(x, t, attributes):
    """One probability per class."""
    if attributes.get("indices"):
        return np.eye(x.shape[-1])[t[..., 0].astype(int)]
    return t


def _class_weights(x, attributes):
    return np.asarray(attributes.get("class_weights") or np.ones(x.shape[-1]))


def _targets(x, t, attributes):
    s = attributes.get("smoothing", 0.0)
    return _class_weights(x, attributes) * ((1 - s) * _labels(x, t, attributes) + s / x.shape[-1])


def cross_softmax(reads, attributes, state):
    x = reads["x"]
    total = -(_targets(x, reads["t"], attributes) * special.log_softmax(x, axis=-1)).sum()
    return {"out": special.softmax(x, axis=-1), **_scalar(attributes["weight"] * total / _samples(state))}


def cross_softmax_derivative(reads, attributes, state):
    p = reads["p"]
    a = _targets(p, reads["t"], attributes)
    return {"out": (p * a.sum(-1, keepdims=True) - a) * _scale(attributes, state)}


def cross_sigmoid(reads, attributes, state):
    x, s = reads["x"], attributes.get("smoothing", 0.0)
    t = (1 - s) * _labels(x, reads["t"], attributes) + s / 2
    each = -(t * special.log_expit(x) + (1 - t) * special.log_expit(-x)) * _class_weights(x, attributes)
    mean = each.sum() / (_samples(state) * _elements(x))
    return {"out": special.expit(x), **_scalar(attributes["weight"] * mean)}


def cross_sigmoid_derivative(reads, attributes, state):
    p, s = reads["p"], attributes.get("smoothing", 0.0)
    t = (1 - s) * _labels(p, reads["t"], attributes) + s / 2
    return {"out": (p - t) * _class_weights(p, attributes) * _scale(attributes, state) / _elements(p)}


def focal(reads, attributes, state):
    x = reads["x"]
    p = special.softmax(x, axis=-1)
    a = _class_weights(x, attributes) * _labels(x, reads["t"], attributes)
    total = -(a * (1 - p) ** attributes["gamma"] * special.log_softmax(x, axis=-1)).sum()
    return {"out": p, **_scalar(attributes["weight"] * total / _samples(state))}


def focal_derivative(reads, attributes, state):
    """Slope by each probability times the Jacobian of softmax."""
    p, gamma = reads["p"], attributes["gamma"]
    a = _class_weights(p, attributes) * _labels(p, reads["t"], attributes)
    by_p = a * (gamma * (1 - p) ** (gamma - 1) * np.log(p) - (1 - p) ** gamma / p)
    rows = p.reshape(-1, p.shape[-1])
    made = [
        (np.diag(row) - np.outer(row, row)) @ slope for row, slope in zip(rows, by_p.reshape(rows.shape), strict=True)
    ]
    return {"out": np.array(made).reshape(p.shape) * _scale(attributes, state)}


def constant_loss(reads, attributes, state):
    return _scalar(attributes["weight"])


def constant_derivative(reads, attributes, state):
    return {"out": np.full(attributes["shape"], attributes["weight"] * state.numbers[StepState.LOSS_SCALE])}


def l2_loss(reads, attributes, state):
    return _scalar(0.5 * attributes["constant"] * np.linalg.norm(reads["x"].reshape(-1)) ** 2)


def count_correct(reads, attributes, state):
    x = reads["x"].reshape(len(reads["x"]), -1)
    t = reads["t"].reshape(len(x), -1)
    if attributes.get("threshold"):
        right = (x[:, 0] > 0) == (t[:, 0] > 0.5)
    else:
        right = x.argmax(1) == (t[:, 0] if attributes.get("indices") else t.argmax(1))
    return {"count": np.array([float(right.sum())])}


def regression_sums(reads, attributes, state):
    y, t = reads["y"], reads["t"]
    return {"sums": np.array([np.abs(y - t).sum(), ((y - t) ** 2).sum(), t.sum(), (t**2).sum()])}


REFERENCE = {
    function.__name__: function
    for function in (
        kld, kld_derivative, cosine_distance, cosine_distance_derivative, cross_softmax, cross_softmax_derivative,
        cross_sigmoid, cross_sigmoid_derivative, focal, focal_derivative, constant_loss, constant_derivative, l2_loss,
        count_correct, regression_sums,
    )
} | {
    "mse": mse, "mse_derivative": mse_derivative, "mae": mae, "mae_derivative": mae_derivative,
    "huber": huber, "huber_derivative": huber_derivative, "hinge": hinge, "hinge_derivative": hinge_derivative,
}  # fmt: skip
