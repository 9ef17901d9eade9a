"""U022 over the catalogue: any two layers in a row train alike with memory taken over in place and without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from harness import Case, Feeds, Projection, compiled

from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.cast import Cast
from nntrainer_py.layers.conv2d import Conv2D
from nntrainer_py.layers.conv2dtranspose import Conv2DTranspose
from nntrainer_py.layers.cos import Cos
from nntrainer_py.layers.depthwiseconv2d import DepthwiseConv2D
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.flatten import Flatten
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.identity import Identity
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.layer_normalization import LayerNormalization
from nntrainer_py.layers.negative import Negative
from nntrainer_py.layers.permute import Permute
from nntrainer_py.layers.pooling2d import Pooling2D
from nntrainer_py.layers.positional_encoding import PositionalEncoding
from nntrainer_py.layers.pow import Pow
from nntrainer_py.layers.reduce_mean import ReduceMean
from nntrainer_py.layers.reduce_sum import ReduceSum
from nntrainer_py.layers.reshape import Reshape
from nntrainer_py.layers.rmsnorm import RMSNorm
from nntrainer_py.layers.sin import Sin
from nntrainer_py.layers.slice import Slice
from nntrainer_py.layers.tan import Tan
from nntrainer_py.layers.transpose import Transpose
from nntrainer_py.layers.upsample2d import Upsample2D
from nntrainer_py.tensor.dim import TensorDim

Make = Callable[[], Layer]

#: the layers of the report
NAMED: dict[str, Make] = {
    "conv2d": lambda: Conv2D(filters=2, kernel_size=(2, 2), padding="same"),
    "batch_normalization": BatchNormalization,
    "activation": lambda: Activation(activation="relu"),
    "dropout": lambda: Dropout(dropout_rate=0.4),
    "flatten": Flatten,
    "pooling2d": lambda: Pooling2D(pooling="max", pool_size=(2, 2), padding="same"),
}
#: every other layer with one input that takes any shape
OTHERS: dict[str, Make] = {
    "average": lambda: Pooling2D(pooling="average", pool_size=(2, 2), padding="same"),
    "cast": lambda: Cast(tensor_dtype="FP16"),
    "cos": Cos,
    "depthwiseconv2d": lambda: DepthwiseConv2D(kernel_size=(1, 1)),
    "fully_connected": lambda: FullyConnected(unit=3),
    "global_max": lambda: Pooling2D(pooling="global_max"),
    "identity": Identity,
    "layer_normalization": lambda: LayerNormalization(axis="1,3"),
    "negative": Negative,
    "permute": lambda: Permute(direction="3,1,2"),
    "positional_encoding": lambda: PositionalEncoding(max_timestep=99),
    "pow": lambda: Pow(exponent=2),
    "reduce_mean": lambda: ReduceMean(axis=2),
    "reduce_sum": lambda: ReduceSum(axis=3),
    "rmsnorm": RMSNorm,
    "sigmoid": lambda: Activation(activation="sigmoid"),
    "sin": Sin,
    "slice": lambda: Slice(axis=1, start_index=1, end_index=2),
    "softmax": lambda: Activation(activation="softmax"),
    "swish": lambda: Activation(activation="swish"),
    "tan": Tan,
    "transpose": lambda: Transpose(axis=2),
    "transposed": lambda: Conv2DTranspose(filters=2, kernel_size=(1, 2)),
    "upsample2d": lambda: Upsample2D(upsample="bilinear", kernel_size=(1, 2)),
}


def _chain(layers: Sequence[Layer]) -> Lowered:
    nodes = [Node("in0", Input(), [], [TensorDim(2, 2, 4, 4)])]
    for position, layer in enumerate(layers):
        last = position == len(layers) - 1
        nodes.append(Node("layer" if last else f"l{position}", layer, [(position, 0)]))
    nodes.append(Node("loss", Projection(), [(len(layers), 0)]))
    return lower(nodes, batch=2, training=True, input_derivatives=True, keep_gradients=True)


def _same(names: Sequence[str], table: dict[str, Make]) -> None:
    lowered = _chain([table[name]() for name in names])
    feeds = Feeds(Case(Identity, []))
    expected, _, plain = compiled(lowered, feeds, in_place=False, reuse=False, poison=True)
    results, _, loss = compiled(lowered, feeds, poison=True)
    assert np.isfinite(loss)
    assert loss == plain, names
    for key, array in results.items():
        assert array.tobytes() == expected[key].tobytes(), (names, key)


@pytest.mark.parametrize("first", sorted(NAMED | OTHERS))
def test_u022_all_pairs_of_the_catalogue(first: str) -> None:
    for second in NAMED | OTHERS:
        _same((first, second), NAMED | OTHERS)


def test_reshape_between_layers_in_place() -> None:
    table: dict[str, Make] = {"reshape": lambda: Reshape(target_shape="4:2:4"), **NAMED}
    for before, after in itertools.product(NAMED, repeat=2):
        if before != "flatten":
            _same((before, "reshape", after), table)
