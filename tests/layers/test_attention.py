"""attention, multi_head_attention and mol_attention through the harness; a second oracle; masks that hide
everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled, lower

from nntrainer_py.layers.attention import Attention
from nntrainer_py.layers.mol_attention import MolAttention
from nntrainer_py.layers.multi_head_attention import MultiHeadAttention

Filler = Callable[[int, tuple[int, ...], np.random.Generator], np.ndarray]
#: a bias of the keys adds the same to all scores of a query, which softmax does not see
ZERO = ("gradient of layer:key_fc_bias",)
THREE = [(2, 1, 5, 6), (2, 1, 3, 6), (2, 1, 3, 6)]


def with_mask(hidden: float) -> Filler:
    """Normal inputs; input 3 is a mask that hides some keys with the value ``hidden``."""

    def fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        values = rng.standard_normal(shape)
        if index == 3:
            values = np.where(rng.random(shape) < 0.3, hidden, values)
            values[..., 0] = 0.5  # no query without any key
        return values

    return fill


def with_lengths(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Normal inputs; input 3 is a number of valid steps."""
    return rng.permutation(4)[: shape[0]].reshape(shape) if index == 3 else rng.standard_normal(shape)


CASES = [
    Case(lambda: Attention(), [(2, 1, 5, 7), (2, 1, 3, 7)], "attention, key is value"),
    Case(lambda: Attention(), [(2, 1, 5, 7), (2, 1, 3, 4), (2, 1, 3, 7)], "attention"),
    Case(lambda: Attention(scaled_dot_product=True), [(1, 1, 1, 3), (1, 1, 4, 2), (1, 1, 4, 3)], "scaled, one query"),
    Case(lambda: Attention(causal_mask=True, scaled_dot_product=True), [(2, 1, 5, 4), (2, 1, 5, 4)], "causal"),
    Case(lambda: Attention(causal_mask=True), [(2, 1, 4, 4), (2, 1, 6, 4), (2, 1, 6, 4)], "causal, more keys"),
    Case(lambda: Attention(causal_mask=True), [(2, 1, 6, 4), (2, 1, 3, 4), (2, 1, 3, 4)], "causal, fewer keys"),
    Case(lambda: MultiHeadAttention(num_heads=2), THREE, "heads"),
    Case(lambda: MultiHeadAttention(), THREE, "one head"),
    Case(lambda: MultiHeadAttention(num_heads=2, disable_bias=True), THREE, "heads, no bias"),
    Case(
        lambda: MultiHeadAttention(num_heads=3, projected_key_dim=4, projected_value_dim=5, output_shape=7),
        [(1, 1, 4, 5), (1, 1, 6, 3), (1, 1, 6, 2)], "heads, all widths differ",
    ),
    Case(lambda: MultiHeadAttention(num_heads=2, causal=True), [(2, 1, 4, 6)] * 3, "heads, causal"),
    Case(lambda: MultiHeadAttention(num_heads=2), [*THREE, (2, 2, 5, 3)], "heads, mask"),
    Case(lambda: MultiHeadAttention(num_heads=2), [*THREE, (2, 1, 5, 3)], "heads, one mask for all"),
    Case(
        lambda: MultiHeadAttention(num_heads=2), [*THREE, (2, 2, 5, 3)], "heads, hiding mask", fill=with_mask(-1e10),
        differentiable_inputs=[True, True, True, False],
    ),
    Case(lambda: MultiHeadAttention(num_heads=2, dropout_rate=0.4), THREE, "heads, dropout"),
    Case(lambda: MultiHeadAttention(num_heads=1, dropout_rate=0.4), [(2, 1, 5, 3)] * 3, "one head, dropout"),
    Case(lambda: MultiHeadAttention(num_heads=2, dropout_rate=1.0), THREE, "heads, all dropped"),
    *(
        Case(
            lambda w=which, a=average: MultiHeadAttention(
                num_heads=2, dropout_rate=0.3, return_attention_weight=w, average_attention_weight=a
            ),
            THREE, f"heads, weights {which}, average {average}", outputs=2,
        )
        for which in ("before", "after")
        for average in (True, False)
    ),
    Case(lambda: MolAttention(unit=4, mol_k=3), [(2, 1, 1, 5), (2, 1, 6, 3), (2, 1, 1, 3)], "mol", outputs=2),
    Case(lambda: MolAttention(unit=4, mol_k=1), [(1, 1, 1, 2), (1, 1, 3, 4), (1, 1, 1, 1)], "mol, one distribution"),
    Case(
        lambda: MolAttention(unit=8, mol_k=5, disable_bias=True),
        [(3, 1, 1, 6), (3, 1, 4, 6), (3, 1, 1, 5), (3, 1, 1, 1)], "mol, lengths", outputs=2, fill=with_lengths,
        differentiable_inputs=[True, True, True, False],
    ),
    # several blocks of queries, several panels of keys, threads
    Case(lambda: MultiHeadAttention(num_heads=4, dropout_rate=0.2), [(3, 1, 70, 64)] * 3, "large", numeric=False),
    Case(
        lambda: MultiHeadAttention(num_heads=3, causal=True, projected_key_dim=40),
        [(2, 1, 71, 33), (2, 1, 301, 21), (2, 1, 301, 20)], "large, causal, odd", numeric=False,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(replace(case, vanishing=ZERO))


def test_query_that_sees_nothing_gets_zeros() -> None:
    """-infinity in a whole row of the mask: finite results, zero weights, finite gradients."""

    def fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        values = rng.standard_normal(shape)
        if index == 3:
            values[:, :, 1] = -np.inf
            values[:, :, 2, 0] = -np.inf
        return values

    case = Case(
        lambda: MultiHeadAttention(num_heads=2, return_attention_weight="after", average_attention_weight=False),
        [*THREE, (2, 2, 5, 3)], outputs=2, fill=fill,
    )  # fmt: skip
    nodes, _ = build(case)
    lowered = lower(nodes, batch=2, training=True, input_derivatives=True, keep_gradients=True)
    results, _, _ = compiled(lowered, Feeds(case), poison=True)
    assert all(np.isfinite(array).all() for array in results.values())
    weights = results["output 1"]
    assert (weights[:, :, 1] == 0).all()
    assert (weights[:, :, 2, 0] == 0).all()
    np.testing.assert_allclose(np.delete(weights.sum(-1), 1, axis=-1), 1, rtol=1e-6)


def test_causal_equals_a_mask() -> None:
    """The causal key hides the same keys as a mask that is written out."""

    def fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.triu(np.full(shape, -np.inf), 1) if index == 3 else rng.standard_normal(shape)

    made = []
    for inputs, causal in (([(2, 1, 5, 6)] * 3, True), ([(2, 1, 5, 6)] * 3 + [(2, 1, 5, 5)], False)):
        case = Case(lambda c=causal: MultiHeadAttention(num_heads=2, causal=c), inputs, fill=fill)
        nodes, _ = build(case, training=False)
        lowered = lower(nodes, batch=2, training=False)
        feeds = Feeds(case)
        rng = np.random.default_rng(5)
        for value in (*lowered.inputs[:3], *(w.value for w in lowered.weights)):
            feeds.values[value.name] = rng.standard_normal(value.shape).astype(np.float32)
        results, _, _ = compiled(lowered, feeds)
        made.append(results["output 0"])
    np.testing.assert_array_equal(made[0], made[1])


@pytest.mark.parametrize("causal", [False, True])
def test_equals_onnxruntime(causal: bool) -> None:
    """multi_head_attention in inference against the node of ONNX Runtime, which takes projected operands."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    case = Case(lambda: MultiHeadAttention(num_heads=4, causal=causal), [(2, 1, 9, 16)] * 3)
    nodes, _ = build(case, training=False)
    lowered, feeds = lower(nodes, batch=2, training=False), Feeds(case)
    results, _, _ = compiled(lowered, feeds)
    w = {name.split(":")[1]: array[0, 0] for name, array in feeds.values.items() if name.startswith("layer:")}
    projected = {
        short: feeds.values[f"in{i}:input0"][:, 0] @ w[f"{name}_fc_weight"] + w[f"{name}_fc_bias"]
        for i, (short, name) in enumerate((("q", "query"), ("k", "key"), ("v", "value")))
    }
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=4, unidirectional=int(causal)
    )
    values = {name: helper.make_tensor_value_info(name, kind, None) for name in ("q", "k", "v", "y")}
    graph = helper.make_graph([node], "attention", [values[n] for n in ("q", "k", "v")], [values["y"]])
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (mixed,) = session.run(None, projected)
    expected = mixed @ w["fc_weight"] + w["fc_bias"]
    np.testing.assert_allclose(results["output 0"][:, 0], expected, rtol=1e-5, atol=1e-5)
