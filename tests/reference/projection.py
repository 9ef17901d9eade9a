"""Twins of the harness's own loss."""

from __future__ import annotations


def test_projection(reads, attributes, state):
    return {"loss": [(reads["x"] * reads["r"]).sum()]}


def test_projection_derivative(reads, attributes, state):
    return {"out": reads["r"]}


REFERENCE = {"test_projection": test_projection, "test_projection_derivative": test_projection_derivative}
