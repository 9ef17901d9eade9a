"""Twins of the nearest class mean and of the nearest samples."""

from __future__ import annotations

import numpy as np


def centroid_distance(reads, attributes, state):
    counts = reads["num_samples"].reshape(-1)
    means = reads["map"].reshape(counts.size, -1)
    out = np.array([[-np.linalg.norm(x.reshape(-1) - mean) for mean in means] for x in reads["x"]])
    return {"out": np.where(counts == 0, np.finfo(np.float32).tiny, out)}


def centroid_update(reads, attributes, state):
    counts = reads["num_samples"].reshape(-1).copy()
    means = reads["map"].reshape(counts.size, -1).copy()
    for x, label in zip(reads["x"], reads["label"].reshape(-1, counts.size), strict=True):
        k = int(np.argmax(label))
        means[k] = (means[k] * counts[k] + x.reshape(-1)) / (counts[k] + 1)
        counts[k] += 1
    return {"map": means, "num_samples": counts}


def neighbour_votes(reads, attributes, state):
    classes = reads["classes"].reshape(-1)
    count = min(int(reads["stored"].reshape(-1)[0]), classes.size)
    samples = reads["samples"].reshape(classes.size, -1)[:count]
    out = np.zeros((len(reads["x"]), attributes["num_class"]))
    for row, x in zip(out, reads["x"].reshape(len(out), -1), strict=True):
        nearest = np.argsort(np.linalg.norm(samples - x, axis=1), kind="stable")[: attributes["neighbours"]]
        for sample in nearest:
            row[int(classes[sample])] += 1 / len(nearest)
    return {"out": out}


def neighbour_store(reads, attributes, state):
    classes, stored = reads["classes"].reshape(-1).copy(), reads["stored"].reshape(-1).copy()
    samples = reads["samples"].reshape(classes.size, -1).copy()
    labels = reads["label"].reshape(len(reads["x"]), -1)
    for x, label in zip(reads["x"].reshape(len(labels), -1), labels, strict=True):
        count, k = int(stored[0]), np.argmax(label)
        kept = slice(0, min(count, classes.size))
        if not ((samples[kept] == x).all(axis=1) & (classes[kept] == k)).any():
            samples[count % classes.size], classes[count % classes.size] = x, k
            stored[0] = count + 1 if count + 1 < 2 * classes.size else classes.size
    return {"samples": samples, "classes": classes, "stored": stored}


REFERENCE = {
    "centroid_distance": centroid_distance,
    "centroid_update": centroid_update,
    "neighbour_votes": neighbour_votes,
    "neighbour_store": neighbour_store,
}
