"""The base classes of losses: layers that take a label and add to the loss of the model."""

from __future__ import annotations

from typing import Any, ClassVar

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import boolean, number, number_list
from nntrainer_py.tensor.dim import TensorDim


class Loss(BuiltinLayer):
    """Base of every loss.

    ``forward`` emits the loss operation (which writes a float64 scalar, declared with ``ctx.loss``) and declares the
    output that it passes on. In inference ``ctx.labels`` may be empty: then only the output is emitted.
    ``calc_derivative`` starts the way back.
    """

    is_loss = True

    weight = number(default=1.0, minimum=0.0, doc="Factor of this loss; the losses of a model add up.")

    def label_dim(self, output: TensorDim) -> TensorDim:
        """Shape of the label for an output of this shape (batch included)."""
        return output

    def label_kind(self) -> str:
        return "finite"

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.output(x)

    def forward(self, ctx: LayerEmitter) -> None:
        raise NotImplementedError(f"{type(self).__name__}.forward")


class ElementLoss(Loss):
    """A loss over prediction and label of one shape, passed on as it is; the kinds are named after the keyword."""

    def parameter(self) -> float | None:
        """The number that the kinds of this loss take, if any."""
        return None

    def forward(self, ctx: LayerEmitter) -> None:
        (y,) = ctx.inputs
        ctx.output(y)
        if ctx.labels:
            ctx.loss(ctx.run(self.keyword, y=y, t=ctx.labels[0], weight=self.weight, parameter=self.parameter()))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (y,) = ctx.inputs
        kind = f"{self.keyword}_derivative"
        ctx.derivative(0, ctx.run(kind, y=y, t=ctx.labels[0], weight=self.weight, parameter=self.parameter()))


class CrossEntropy(Loss):
    """A loss over logits that passes on the probabilities; labels are probabilities or class numbers."""

    #: the function from logits to probabilities: an operation kind and its attributes
    normalizer: ClassVar[tuple[str, dict[str, Any]]] = ("softmax", {})
    #: what the values of a label are when they are no class numbers
    row_kind: ClassVar[str] = "distribution"

    integer_labels = boolean(False, doc="Labels are class numbers from 0, one for each row of the output's width.")
    class_weights = number_list(None, minimum=0.0, doc="One factor per class for its part of the loss.")

    def label_dim(self, output: TensorDim) -> TensorDim:
        return output.replace(width=1) if self.integer_labels else output

    def label_kind(self) -> str:
        return "finite" if self.integer_labels else self.row_kind

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if self.class_weights is not None and len(self.class_weights) != x.width:
            raise UsageError(
                f"expected {x.width} numbers, one per class, got {len(self.class_weights)}", key="class_weights"
            )
        ctx.output(x)

    def attributes(self) -> dict[str, Any]:
        """Attributes of both operations."""
        return {"weight": self.weight, "indices": self.integer_labels, "class_weights": self.class_weights}

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        if not ctx.labels:
            kind, attributes = self.normalizer
            ctx.output(ctx.run(kind, x=x, **attributes))
            return
        p, loss = ctx.run(self.keyword, x=x, t=ctx.labels[0], **self.attributes())
        ctx.output(p)
        ctx.loss(loss)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (p,) = ctx.outputs
        kind = f"{self.keyword}_derivative"
        ctx.derivative(0, ctx.run(kind, p=p, t=ctx.labels[0], **self.attributes()))
