"""ONNX (extra ``onnx``): the training step of a model as one graph of standard operators."""

from nntrainer_py.formats.onnx.training import evaluation_graph, save, step_graph, training_graph

__all__ = ["evaluation_graph", "save", "step_graph", "training_graph"]
