"""Layers that differ from one that the user gave."""

from __future__ import annotations

import copy

from nntrainer_py.layers.base import Layer


def with_properties(layer: Layer, **values: object) -> Layer:
    """A copy of a layer with other values of some properties; the spec's own layer stays as the user gave it."""
    made = copy.copy(layer)
    made.__dict__["_explicit"] = dict(layer.__dict__.get("_explicit", {}))
    for name, value in values.items():
        setattr(made, name, value)
    return made
