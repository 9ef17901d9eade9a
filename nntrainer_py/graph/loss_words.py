"""The words of ``[Model] loss``: the losses of the registry, and ``cross`` for the cross entropy that fits."""

from __future__ import annotations

from nntrainer_py.errors import did_you_mean
from nntrainer_py.properties import Kind
from nntrainer_py.properties.kinds import Warn, warn_python
from nntrainer_py.registry import LOSSES

CROSS = "cross"
#: last activation -> the loss that computes it together with the cross entropy
CROSS_LOSSES = {"softmax": "cross_softmax", "sigmoid": "cross_sigmoid"}


def model_losses() -> list[str]:
    """The words that ``[Model] loss`` takes; both cross entropies contain the activation and hide behind `CROSS`."""
    return [CROSS, *(word for word in LOSSES.words() if word not in CROSS_LOSSES.values())]


class LossKind(Kind[str]):
    """``cross`` or the keyword of a loss, in any case."""

    @property
    def expectation(self) -> str:  # type: ignore[override]  # the registry grows with a user's plugins
        return "one of " + ", ".join(model_losses())

    def parse(self, text: str, warn: Warn = warn_python) -> str:
        word = LOSSES.canonical(text)
        if word in model_losses():
            return word
        lacking = LOSSES.lacks(word)
        raise self.refuse(
            text,
            " (which NNTrainer knows and this version does not)" if lacking else did_you_mean(word, model_losses()),
        )

    def convert(self, value: object, warn: Warn = warn_python) -> str:
        raise self.refuse(value)

    def format(self, value: str) -> str:
        return value

    def describe(self) -> str:
        return ", ".join(model_losses())

    def good_examples(self) -> list[str]:
        return [*model_losses(), CROSS.upper()]

    def bad_examples(self) -> list[str]:
        return ["", "none", "crosss", *CROSS_LOSSES.values(), "cross,cross", "1"]
