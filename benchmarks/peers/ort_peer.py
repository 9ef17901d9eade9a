"""ONNX Runtime as one of the measured: on-device training (package onnxruntime-training), or inference."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from serve import serve

SGD = ("mlp", "resnet18", "vgg16")


def open_training() -> None:
    """Make ``onnxruntime.training`` importable without its own ``__init__``, which insists on PyTorch."""
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.submodule_search_locations
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "training")]
    package.__spec__ = importlib.machinery.ModuleSpec("onnxruntime.training", None, is_package=True)
    package.__spec__.submodule_search_locations = package.__path__
    sys.modules["onnxruntime.training"] = package


def write(given: argparse.Namespace, folder: Path) -> None:
    """The files that the runtime reads; in a process of its own, so that the measured one holds the runtime only."""
    from onnx_graphs import build

    with np.load(given.data) as data:
        weights = {name: data[name] for name in data.files if name not in ("x", "y")}
        shape = data["x"].shape
    model, graph = build(given.model, weights, shape, train=not given.predict)
    if given.predict:
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        return
    open_training()
    from onnxruntime.training import artifacts

    artifacts.generate_artifacts(
        model,
        requires_grad=[item.name for item in graph.initializers if item.name not in graph.frozen],
        frozen_params=graph.frozen,
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD if given.model in SGD else artifacts.OptimType.AdamW,
        artifact_directory=str(folder),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--born", type=float, default=0.0)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--write", type=Path, help="only write the model's files into this folder")
    given = parser.parse_args()
    if given.write:
        write(given, given.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--write", folder], check=True, stdout=subprocess.DEVNULL
        )
        with np.load(given.data) as data:
            x, y = data["x"], data["y"].astype(np.int64)
        if given.predict:
            _infer(given, Path(folder), x)
        else:
            _train(given, Path(folder), x, y)


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def _infer(given: argparse.Namespace, folder: Path, x: Any) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), _options(given.threads), providers=["CPUExecutionProvider"]
    )
    serve(lambda: session.run(None, {"x": x}), born=given.born, version=onnxruntime.__version__)


def _train(given: argparse.Namespace, folder: Path, x: Any, y: Any) -> None:
    open_training()
    import onnxruntime
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    state = CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    path = str(folder / "training_model.onnx")
    module = Module(path, state, device="cpu", session_options=_options(given.threads))
    optimizer = Optimizer(str(folder / "optimizer_model.onnx"), module)
    module.train()

    def step() -> Any:
        loss = module(x, y)
        optimizer.step()
        module.lazy_reset_grad()
        return loss

    serve(step, born=given.born, version=onnxruntime.__version__)


if __name__ == "__main__":
    main()
