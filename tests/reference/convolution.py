"""Twins of the convolution kinds: sums over shifted slices of a padded array, one kernel cell at a time."""

from __future__ import annotations

import numpy as np


def _cells(attributes, kernel, out_size):
    (sh, sw), (dh, dw) = attributes["stride"], attributes["dilation"]
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            yield (
                i,
                j,
                slice(i * dh, i * dh + (out_size[0] - 1) * sh + 1, sh),
                slice(j * dw, j * dw + (out_size[1] - 1) * sw + 1, sw),
            )


def _padded(x, attributes):
    top, bottom, left, right = attributes["padding"]
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))


def conv2d(reads, attributes, state):
    x, w = reads["x"], reads["w"]
    groups, (kh, kw) = attributes["groups"], w.shape[2:]
    padded = _padded(x, attributes)
    (sh, sw), (dh, dw) = attributes["stride"], attributes["dilation"]
    size = ((padded.shape[2] - (kh - 1) * dh - 1) // sh + 1, (padded.shape[3] - (kw - 1) * dw - 1) // sw + 1)
    out = np.zeros((x.shape[0], groups, w.shape[0] // groups, *size))
    split = padded.reshape(x.shape[0], groups, -1, *padded.shape[2:])
    ws = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for i, j, rows, columns in _cells(attributes, (kh, kw), size):
        out += np.einsum("ngchw,goc->ngohw", split[:, :, :, rows, columns], ws[..., i, j])
    out = out.reshape(x.shape[0], w.shape[0], *size)
    if "bias" in reads:
        out = out + reads["bias"].reshape(1, -1, 1, 1)
    if attributes.get("activation") == "relu":
        out = np.maximum(out, 0)
    return {"out": out}


def conv2d_derivative(reads, attributes, state):
    g, w = reads["g"], reads["w"]
    groups, (kh, kw) = attributes["groups"], w.shape[2:]
    top, bottom, left, right = attributes["padding"]
    height, width = attributes["size"]
    padded = np.zeros((g.shape[0], groups, w.shape[1], height + top + bottom, width + left + right))
    gs = g.reshape(g.shape[0], groups, -1, *g.shape[2:])
    ws = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for i, j, rows, columns in _cells(attributes, (kh, kw), g.shape[2:]):
        padded[:, :, :, rows, columns] += np.einsum("ngohw,goc->ngchw", gs, ws[..., i, j])
    out = padded.reshape(g.shape[0], -1, *padded.shape[3:])[:, :, top : top + height, left : left + width]
    return {"out": out + reads["bias"].reshape(1, -1, 1, 1) if "bias" in reads else out}


def conv2d_gradient(reads, attributes, state):
    x, g = reads["x"], reads["g"]
    groups, (kh, kw) = attributes["groups"], attributes["kernel_size"]
    padded = _padded(x, attributes)
    split = padded.reshape(x.shape[0], groups, -1, *padded.shape[2:])
    gs = g.reshape(g.shape[0], groups, -1, *g.shape[2:])
    out = np.zeros((groups, gs.shape[2], split.shape[2], kh, kw))
    for i, j, rows, columns in _cells(attributes, (kh, kw), g.shape[2:]):
        out[..., i, j] = np.einsum("ngchw,ngohw->goc", split[:, :, :, rows, columns], gs)
    return {"out": out.reshape(g.shape[1], -1, kh, kw)}


REFERENCE = {"conv2d": conv2d, "conv2d_derivative": conv2d_derivative, "conv2d_gradient": conv2d_gradient}
