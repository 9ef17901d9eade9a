"""Nearest class mean and nearest samples. What training keeps changes with every sample: the batch is written out."""

from __future__ import annotations

import math

import numpy as np

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter

_SMALLEST = float(np.finfo(np.float32).tiny)  # the mark of a class without samples


def _rows(term: Term) -> Term:
    return term.reshape(term.shape[0], term.size // term.shape[0])


def _squared_distances(x: Term, other: Term) -> Term:
    """Between the rows of two matrices, float64."""
    d = x.cast("float64").reshape(x.shape[0], 1, x.shape[1]) - other.cast("float64").reshape(1, *other.shape)
    return (d * d).sum([2]).reshape(x.shape[0], other.shape[0])


def _classes(e: Emission) -> Term:
    """The place of the largest label of each sample, [N, 1]."""
    label = _rows(e.read("label"))
    return e.graph.node("ArgMax", label, shape=(label.shape[0], 1), dtype="int64", axis=1, keepdims=1)


def _numbers(e: Emission, count: int) -> Term:
    return e.graph.constant(np.arange(count, dtype=np.int64))


def centroid_distance(e: Emission) -> dict[str, Term]:
    counts = e.read("num_samples")
    counts = counts.reshape(1, counts.size)
    means = e.read("map").reshape(counts.size, e.read("map").size // counts.size)
    distance = -_squared_distances(_rows(e.read("x")), means).apply("Sqrt").cast("float32")
    return {"out": counts.equals(0.0).where(_SMALLEST, distance)}


def centroid_update(e: Emission) -> dict[str, Term]:
    size = e.read("num_samples").size
    counts = e.read("num_samples").reshape(size, 1).cast("float64")
    means = e.read("map").reshape(size, e.read("map").size // size)
    x, chosen = _rows(e.read("x")), _classes(e)
    numbers = _numbers(e, size).reshape(size, 1)
    for n in range(x.shape[0]):
        mine = numbers.equals(chosen.slice(0, n, n + 1))
        sample = x.slice(0, n, n + 1).cast("float64")
        moved = ((means.cast("float64") * counts + sample) / (counts + 1.0)).cast("float32")
        means, counts = mine.where(moved, means), mine.where(counts + 1.0, counts)
    return {"map": means, "num_samples": counts.cast("float32")}


def neighbour_votes(e: Emission) -> dict[str, Term]:
    x, classes, stored = _rows(e.read("x")), e.read("classes"), e.read("stored")
    capacity, count = classes.size, int(e.attributes["num_class"])
    samples = e.read("samples").reshape(capacity, x.shape[1])
    voters = min(int(e.attributes["neighbours"]), capacity)
    kept = _numbers(e, capacity).cast("float32") < stored.reshape(1)
    distances = kept.where(_squared_distances(x, samples), math.inf)
    shape = (x.shape[0], voters)
    nearest, places = e.graph.many(
        "TopK", distances, e.graph.constant([voters], "int64"), made=[(shape, "float64"), (shape, "int64")],
        axis=1, largest=0, sorted=1,
    )  # fmt: skip
    votes = (nearest < math.inf).cast("float32").reshape(*shape, 1)
    chosen = e.graph.node("Gather", classes.reshape(capacity), places, shape=shape).cast("int64")
    of_class = chosen.reshape(*shape, 1).equals(_numbers(e, count)).cast("float32")
    total = votes.sum([1]).binary("Max", 1.0)
    return {"out": (of_class * votes).sum([1]) / total}


def neighbour_store(e: Emission) -> dict[str, Term]:
    x, capacity = _rows(e.read("x")), e.read("classes").size
    classes, stored = e.read("classes").reshape(capacity, 1), e.read("stored").reshape(1, 1)
    samples = e.read("samples").reshape(capacity, x.shape[1])
    chosen = _classes(e).cast("float32")
    numbers = _numbers(e, capacity).reshape(capacity, 1).cast("float32")
    for n in range(x.shape[0]):
        sample, mine = x.slice(0, n, n + 1), chosen.slice(0, n, n + 1)
        differs = samples.equals(sample).where(samples.like(0.0), 1.0).sum([1])
        same = differs.equals(0.0).binary("And", classes.equals(mine)).binary("And", numbers < stored)
        known = same.cast("float32").sum().reshape(1, 1) > 0.5
        place = (stored < float(capacity)).where(stored, stored - float(capacity))
        here = known.apply("Not").binary("And", numbers.equals(place))
        samples, classes = here.where(sample, samples), here.where(mine, classes)
        next_count = stored + 1.0
        wrapped = (next_count < 2.0 * capacity).where(next_count, float(capacity))
        stored = known.where(stored, wrapped)
    return {"samples": samples, "classes": classes, "stored": stored}


EMITTERS: dict[str, Emitter] = {
    f.__name__: f for f in (centroid_distance, centroid_update, neighbour_votes, neighbour_store)
}
