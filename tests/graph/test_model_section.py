"""The keys of ``[Model]``: examples of each kind, and NNTrainer's defaults."""

from __future__ import annotations

import pytest

from nntrainer_py.errors import PropertyError
from nntrainer_py.graph.loss_words import LossKind
from nntrainer_py.graph.model_section import BytesKind, ModelSection
from nntrainer_py.properties import Kind
from nntrainer_py.registry import LOSSES

KINDS: list[Kind[object]] = [BytesKind(), LossKind()]  # type: ignore[list-item]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_examples(kind: Kind[object]) -> None:
    for text in kind.good_examples():
        value = kind.parse(text)
        assert kind.parse(kind.format(value)) == value
    for text in kind.bad_examples():
        with pytest.raises(PropertyError, match="expected"):
            kind.parse(text)
    for wrong in (True, 1.5, [1], None):
        with pytest.raises(PropertyError):
            kind.convert(wrong)


@pytest.mark.parametrize(
    ("text", "written"),
    [("64MB", "64MB"), ("65536 KB", "64MB"), ("0.5GB", "512MB"), ("1025", "1025"), ("1TB", "1024GB")],
)
def test_amounts_of_memory_are_written_in_the_largest_unit_that_is_exact(text: str, written: str) -> None:
    assert BytesKind().format(BytesKind().parse(text)) == written


def test_every_registered_loss_is_a_word_but_the_fused_ones() -> None:
    words = {word for word in LOSSES.words() if not word.startswith("cross_")}
    assert {LossKind().parse(word) for word in words} == words
    with pytest.raises(PropertyError, match="did you mean 'cross'"):
        LossKind().parse("cros")


def test_defaults_are_nntrainers() -> None:
    made = ModelSection()
    defaults = {
        "epochs": 1, "batch_size": 1, "loss": None, "save_path": None, "save_best_path": None, "continue_train": False,
        "memory_optimization": True, "fsu": False, "fsu_path": ".", "fsu_lookahead": 0,
        "model_tensor_type": "FP32-FP32", "loss_scale": 1.0, "clip_grad_by_norm": None, "input_layers": None,
        "label_layers": None, "seed": 0,
    }  # fmt: skip
    assert {key: getattr(made, key) for key in defaults} == defaults
