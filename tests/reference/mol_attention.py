"""Twins of the mixture of logistic distributions."""

from __future__ import annotations

import numpy as np
from scipy import special


def _pieces(reads, steps):
    n, count = reads["state"].shape[0], reads["state"].shape[3]
    kappa, beta, alpha = np.split(reads["p"].reshape(n, 3 * count), 3, axis=-1)
    alpha = special.softmax(alpha, axis=-1)
    centre, width = np.exp(kappa) + reads["state"].reshape(n, count), np.exp(beta) + 1e-8
    u = np.arange(1, steps + 1)[None, :, None]
    above, below = (u + 0.5 - centre[:, None]) / width[:, None], (u - 0.5 - centre[:, None]) / width[:, None]
    seen = np.ones((n, steps))
    if "length" in reads:
        seen = (np.arange(1, steps + 1)[None] <= reads["length"].reshape(n, 1)).astype(float)
    return alpha, centre, width, np.exp(kappa), np.exp(beta), above, below, seen


def mol_scores(reads, attributes, state):
    alpha, centre, _, _, _, above, below, seen = _pieces(reads, attributes["steps"])
    out = np.einsum("nk,nuk->nu", alpha, special.expit(above) - special.expit(below)) * seen
    return {"out": out, "moved": centre}


def mol_scores_derivative(reads, attributes, state):
    n = reads["state"].shape[0]
    g = reads["g"].reshape(n, -1)
    alpha, _, width, kappa, beta, above, below, seen = _pieces(reads, g.shape[1])
    g = g * seen
    high, low = special.expit(above), special.expit(below)
    dhigh, dlow = high * (1 - high), low * (1 - low)
    to_alpha = np.einsum("nu,nuk->nk", g, high - low)
    to_centre = -np.einsum("nu,nk,nuk->nk", g, alpha / width, dhigh - dlow)
    if "gmoved" in reads:
        to_centre = to_centre + reads["gmoved"].reshape(n, -1)
    to_width = -np.einsum("nu,nk,nuk->nk", g, alpha / width, dhigh * above - dlow * below)
    jacobian = np.einsum("nk,kj->nkj", alpha, np.eye(alpha.shape[1])) - alpha[:, :, None] * alpha[:, None, :]
    to_mixture = np.einsum("nkj,nj->nk", jacobian, to_alpha)
    return {"dp": np.concatenate([to_centre * kappa, to_width * beta, to_mixture], axis=-1), "dstate": to_centre}


REFERENCE = {"mol_scores": mol_scores, "mol_scores_derivative": mol_scores_derivative}
