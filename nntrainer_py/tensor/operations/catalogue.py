"""Which file declares which operation kind; a file is loaded when one of its kinds is first asked for."""

from __future__ import annotations

from importlib import import_module

from nntrainer_py.tensor.operations.record import KINDS, OperationKind

#: file of this folder -> the kinds that it declares
FAMILIES: dict[str, tuple[str, ...]] = {
    "elementwise": ("activation", "activation_derivative", "add_n", "zeros", "copy"),
    "reduction": ("bias_gradient",),
    "softmax": ("softmax", "softmax_derivative"),
    "matmul": ("matmul", "matmul_gradient"),
    "convolution": ("conv2d", "conv2d_derivative", "conv2d_gradient"),
    "movement": ("concat", "slice", "slice_derivative", "permute"),
    "normalization": (
        "batch_statistics",
        "running_update",
        "batch_normalize",
        "batch_normalize_sums",
        "batch_normalize_derivative",
    ),
    "fused_normalization": (
        "batch_normalize_relu",
        "batch_normalize_relu_sums",
        "batch_normalize_relu_derivative",
    ),
    "fused_update": ("matmul_descent",),
    "random": ("dropout",),
    "preprocess": ("normalize_batch", "standardize_sample", "unit_length", "flip", "translate"),
    "pooling": (
        "max_pool",
        "max_pool_derivative",
        "average_pool",
        "average_pool_derivative",
        "global_max",
        "global_max_derivative",
    ),
    "layer_normalization": (
        "layer_statistics",
        "layer_normalize",
        "layer_normalize_sums",
        "layer_normalize_derivative",
        "rms_statistics",
        "rms_normalize",
        "rms_normalize_gradient",
        "rms_normalize_derivative",
    ),
    "embedding": ("embedding", "embedding_gradient", "gather", "gather_derivative"),
    "reduce": ("reduce_sum", "broadcast"),
    "arithmetic": ("binary",),
    "unary": ("unary", "unary_derivative", "round_to"),
    "resample": ("bilinear", "bilinear_derivative"),
    "neighbours": ("centroid_distance", "centroid_update", "neighbour_votes", "neighbour_store"),
    "recurrent": ("rnn", "rnn_derivative", "lstm", "lstm_derivative", "gru", "gru_derivative"),
    "recurrent_gradient": ("recurrent_gradient",),
    "attention": ("attention", "attention_derivative"),
    "mol_attention": ("mol_scores", "mol_scores_derivative"),
    "zoneout": ("zoneout", "zoneout_derivative"),
    "loss": (
        "mse",
        "mse_derivative",
        "mae",
        "mae_derivative",
        "huber",
        "huber_derivative",
        "hinge",
        "hinge_derivative",
        "kld",
        "kld_derivative",
        "cosine_distance",
        "cosine_distance_derivative",
        "cross_softmax",
        "cross_softmax_derivative",
        "cross_sigmoid",
        "cross_sigmoid_derivative",
        "focal",
        "focal_derivative",
        "constant_loss",
        "constant_derivative",
        "l2_loss",
        "count_correct",
        "regression_sums",
    ),
    "update": ("sgd", "momentum", "adam", "rmsprop", "adagrad", "lion", "lamb", "global_norm", "clip_scale"),
    "user_functions": ("user_activation", "user_activation_derivative", "user_update"),
    "opaque": ("opaque", "accumulate"),
}
_FILES = {kind: file for file, kinds in FAMILIES.items() for kind in kinds}


def kind(name: str) -> OperationKind:
    """The operation kind of this name. Raises KeyError for a name that no file declares."""
    found = KINDS.get(name)
    if found is None:
        if name not in _FILES:
            raise KeyError(f"no operation kind {name!r}; add it to FAMILIES in {__name__}")
        import_module(f"nntrainer_py.tensor.operations.{_FILES[name]}")
        found = KINDS[name]
    return found
