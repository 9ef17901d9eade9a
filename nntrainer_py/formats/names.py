"""What the name of a weight file says about its kind."""

from __future__ import annotations

import os
from pathlib import Path

from nntrainer_py.errors import printable

#: endings of the two kinds of weight file; a name without one is of the first kind, as in NNTrainer
SUFFIXES = (".bin", ".safetensors")
#: the function that writes a model of another program, by the ending of its files
_ONNX = "nntrainer_py.formats.onnx.save(training_graph(model), path) writes a model in training (docs/onnx.md)"


def save_fault(path: str | os.PathLike[str]) -> str:
    """What is wrong with the name of a weight file to be written; empty for nothing."""
    suffix = Path(path).suffix
    if not suffix or suffix in SUFFIXES or suffix.lower() == SUFFIXES[0]:
        return ""
    known = f"weights are written as {' or '.join(SUFFIXES)}, '{printable(suffix)}' is neither"
    return f"{known}; {_ONNX}" if suffix.lower() == ".onnx" else known


def load_fault(path: str | os.PathLike[str]) -> str:
    """What is wrong with reading weights from a file of that name; empty where its contents may do."""
    if Path(path).suffix.lower() != ".onnx":
        return ""
    return "weights are read from .bin or .safetensors files; this is a model of another program, which is not imported"
