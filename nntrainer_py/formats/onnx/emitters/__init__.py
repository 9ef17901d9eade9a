"""One emitter for each operation kind that standard ONNX operators can compute; files as in tensor/operations."""
