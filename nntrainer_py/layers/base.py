"""The base classes of layers.

A layer declares its properties and then, in this order in every file: ``finalize`` (shapes and weights), ``forward``,
``calc_gradient`` (gradients of the weights), ``calc_derivative`` (derivatives by the inputs).

* A **user's layer** derives from :class:`Layer` and writes NumPy: the three methods get a
  :class:`~nntrainer_py.layers.context.RunContext` of arrays in every step.
* A **built-in layer** derives from :class:`BuiltinLayer`: the same methods get a
  :class:`~nntrainer_py.layers.context.LayerEmitter` once per plan and emit operations of the catalogue.
"""

from __future__ import annotations

from typing import Any, ClassVar

from nntrainer_py.layers.context import FinalizeContext, LayerEmitter, Weight
from nntrainer_py.layers.functions import ActivationKind
from nntrainer_py.properties import (
    DTYPES,
    Configurable,
    Property,
    boolean,
    connections,
    enum,
    name,
    number,
    shapes,
)
from nntrainer_py.tensor.initializers import INITIALIZERS


class Layer(Configurable):
    """Base of every layer; see the module's text for the methods to write."""

    keyword: ClassVar[str] = ""
    #: emits operations of the catalogue (built-in) instead of computing with NumPy (a user's layer)
    emits: ClassVar[bool] = False
    #: a loss: takes a label
    is_loss: ClassVar[bool] = False
    #: not a loss, but looks at a label while training (centroid_knn)
    needs_label: ClassVar[bool] = False
    #: derivatives can be passed to the inputs; without, only frozen layers may stand before it
    supports_derivative: ClassVar[bool] = True
    #: a user's layer whose forward, run again on the same inputs, gives the same outputs and the same in ``ctx.saved``
    #: lets them be computed again instead of being kept by saying so
    pure: ClassVar[bool] = False
    #: a user's layer (or loss) that treats every sample by itself lets a batch be computed in pieces by saying so
    sample_by_sample: ClassVar[bool] = False
    #: a user's layer whose backward methods do not look at the outputs saves their memory by saying so
    reads_outputs: ClassVar[bool] = True

    input_layers = connections(doc="Layers whose outputs this one reads: `a, b(1)`.")
    input_shape = shapes(doc="Shape c:h:w of a model input; one per input.")
    trainable = boolean(True, doc="Whether the weights are updated.")
    flatten = boolean(False, doc="Insert a flatten layer after this one.")
    activation: Property[str | None] = Property(ActivationKind(), None, doc="Insert an activation after this one.")
    distribute = boolean(False, doc="Apply the layer to every height step (time_dist).")
    shared_from = name(default=None, doc="Use the weights of that layer.")
    clip_grad_by_norm = number(default=None, minimum=0.0, doc="Clip gradients by their global norm; 0 is off.")
    packed = boolean(True, doc="False: the weight type follows the activation type.")
    weight_dtype = enum(DTYPES, None, doc="Storage type of the weights of this layer; FP32 here.")
    loss_scale = number(default=None, nonzero=True, doc="Loss scale of mixed precision.")
    engine = enum(("cpu", "gpu", "qnn"), default="cpu", doc="Where the layer runs: always on the cpu here.")

    #: set by the graph: the weights in the order of their request
    weights: list[Weight]

    def label_kind(self) -> str:
        """What a label of this layer must be, a word of `data.labels.LABEL_KINDS`; the data is checked for it."""
        return "any"

    def finalize(self, ctx: FinalizeContext) -> None:
        """Check the input shapes, request weights, declare the outputs."""
        for dim in ctx.inputs:
            ctx.output(dim)

    def forward(self, ctx: Any) -> Any:
        """Compute the outputs; a loss returns its value."""
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def calc_gradient(self, ctx: Any) -> None:
        """Compute the gradients of the weights; nothing to do for a layer without any."""

    def calc_derivative(self, ctx: Any) -> None:
        """Compute the derivatives of the loss by the inputs."""
        raise NotImplementedError(f"{type(self).__name__}.calc_derivative")


class BuiltinLayer(Layer):
    """A layer that emits operations of the catalogue."""

    emits = True

    def forward(self, ctx: LayerEmitter) -> None:
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        pass

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        raise NotImplementedError(f"{type(self).__name__}.calc_derivative")


class WeightLayer(BuiltinLayer):
    """A layer with weights and biases (NNTrainer's ``LayerImpl``)."""

    weight_initializer = enum(tuple(INITIALIZERS), default="xavier_uniform", doc="Initial values of the weights.")
    bias_initializer = enum(tuple(INITIALIZERS), default="zeros", doc="Initial values of the biases.")
    weight_regularizer = enum(("l2norm", "none"), default="none", doc="Regularizer of the weights.")
    weight_regularizer_constant = number(default=1.0, minimum=0.0, doc="Factor c: gradient c*w, loss 0.5*c*||w||^2.")
    weight_decay = number(default=0.0, minimum=0.0, doc="Added to the gradient: weight_decay * w.")
    bias_decay = number(default=0.0, minimum=0.0, doc="Added to the gradient of the bias: bias_decay * b.")
    disable_bias = boolean(False, doc="No bias.")
    print = boolean(False, doc="Accepted as NNTrainer does; the layer table is always printed by --check.")
