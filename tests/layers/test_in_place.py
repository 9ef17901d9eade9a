"""Which layers overwrite their input, over the whole registry: it did happen, and it changed no bit.

Equality of training with memory taken over and without is part of the harness, for every row of every layer, and of
the chains of two (test_chains.py) and of four (test_u022_orders.py); here inference, in which nobody reads the input of
a layer later, so that every layer that can must do it.
"""

from __future__ import annotations

import numpy as np
import pytest
from keyword_rows import INDICES, LAYER_ROWS

from nntrainer_py import Model
from nntrainer_py.graph.description import load_text
from nntrainer_py.memory.lifetimes import taken_in_place

#: the output lies where an input lay, or is that input under another shape
IN_PLACE = {
    "activation", "add", "addition", "batch_normalization", "cast", "cos", "divide", "dropout", "flatten", "identity",
    "layer_normalization", "multiout", "multiply", "negative", "positional_encoding", "pow", "preprocess_flip",
    "preprocess_l2norm", "preprocess_translate", "reshape", "rmsnorm", "rnncell", "sin", "sqrt", "subtract", "swiglu",
    "tan",
}  # fmt: skip


def model_of(keyword: str) -> Model:
    """The layer between layers whose outputs nobody else reads."""
    shapes, properties = LAYER_ROWS[keyword]
    text, names = "[Model]\nbatch_size = 3\n", []
    for i, shape in enumerate(shapes.split()):
        text += f"[in{i}]\ntype = input\ninput_shape = {shape}\n"
        if INDICES.get(keyword) != i:
            text += f"[before{i}]\ntype = pow\nexponent = 2\ninput_layers = in{i}\n"
        names.append(f"in{i}" if INDICES.get(keyword) == i else f"before{i}")
    reads = f"input_layers = {', '.join(names)}\n" if names else ""
    text += f"[it]\ntype = {keyword}\n{reads}{properties}\n[flat]\ntype = flatten\n"
    return Model(load_text(text + "[after]\ntype = fully_connected\nunit = 2\n"))


@pytest.mark.filterwarnings("ignore:the inputs are taken in the order")  # which is the one meant here
@pytest.mark.parametrize("keyword", [word for word in LAYER_ROWS if LAYER_ROWS[word][0] and word != "input"])
def test_inference_in_place(keyword: str) -> None:
    plain, reused = model_of(keyword), model_of(keyword)
    plain.compile(threads=1, in_place=False, reuse=False)
    reused.compile(threads=1, poison=True)
    rng = np.random.default_rng(0)
    order = reused.compiled.graph("predict").input_order
    shapes = [reused.lowered("predict", 3).inputs[place].shape for place in order]
    x = [
        rng.integers(0, 5, shape) if INDICES.get(keyword) == i else rng.uniform(0.2, 1.2, shape)
        for i, shape in enumerate(shapes)
    ]
    assert reused.predict(x).tobytes() == plain.predict(x).tobytes()
    lowered = reused.lowered("predict", 3)
    found = taken_in_place(reused.compiled.plan("predict", 3).where)
    before = {
        id(value.root) for name, made in lowered.node_outputs.items() if name.startswith("before") for value in made
    }
    (output, *_) = lowered.node_outputs["it"]
    assert (output.root in found or id(output.root) in before) == (keyword in IN_PLACE)
    assert not taken_in_place(plain.compiled.plan("predict", 3).where)
