"""Turns the NumPy methods of a user's layer into opaque operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nntrainer_py.errors import NumericalError, UsageError
from nntrainer_py.layers.base import BuiltinLayer, Layer
from nntrainer_py.layers.context import LayerEmitter, RunContext, Weight
from nntrainer_py.plugins import place_of_class, users_code
from nntrainer_py.tensor.operations.record import Role, Spec, StepState, Value

#: NaNs with a payload that no arithmetic makes, by bytes of a number: where they still stand, nothing was written
_UNWRITTEN = {2: 0x7E5A, 4: 0x7FDA5A5A, 8: 0x7FFA5A5A5A5A5A5A}


class OpaqueAdapter:
    """Emits for a user's layer: one operation for the outputs, one for the gradients, one for the derivatives.

    Each reads inputs, outputs and weights (unless the class sets ``reads_outputs = False``). Gradients go to values of
    their own and are then added to their targets, so that sharing and accumulation work without the layer's doing.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer

    def forward(self, ctx: LayerEmitter) -> None:
        layer, by_sample = self.layer, self.layer.sample_by_sample
        dims = _output_dims(ctx)
        specs = {f"output{k}": Spec(shape) for k, shape in enumerate(dims)}
        if layer.is_loss and ctx.labels:
            specs["loss"] = Spec((1,), "float64", Role.SCALAR)
        saved: dict[str, Any] = {}
        ctx.saved["user"] = saved
        training, name = ctx.training, ctx.emitter.layer
        first = True

        def call(arrays: dict[str, Any], state: StepState) -> None:
            nonlocal first
            context = _context(layer, arrays, saved, training)
            if first:  # an output that forward leaves out shows, instead of holding whatever lay in memory
                _poison(context.outputs)
            with users_code(f"[{name}] forward"):
                result = layer.forward(context)
                if "loss" in arrays:
                    arrays["loss"][0] = result
                    arrays["loss"] *= _share(arrays, state)
            if first:
                _check_written(name, "forward", "outputs", dict(enumerate(context.outputs)))
                first = False

        made = ctx.run(
            "opaque", function=call, specs=specs, sample_by_sample=by_sample,
            repeatable=layer.pure and not layer.is_loss, **_operands(ctx),
        )  # fmt: skip
        values = list(made) if isinstance(made, tuple) else [made]
        if "loss" in specs:
            ctx.loss(values.pop())
        ctx.output(*values)

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        layer, saved, name = self.layer, ctx.saved["user"], ctx.emitter.layer
        by_sample = layer.sample_by_sample
        trained = [weight for weight in layer.weights if weight.key in ctx.targets]
        names = " and ".join(weight.name for weight in trained)
        _require(layer, "calc_gradient", f"{names} would never change; write it, or request with trainable=False")

        def call(arrays: dict[str, Any], state: StepState) -> None:
            context = _context(layer, arrays, saved, True)
            for array in context.gradients.values():
                array[...] = 0.0
            with users_code(f"[{name}] calc_gradient"):
                layer.calc_gradient(context)
            if layer.is_loss:
                _scale(context.gradients.values(), _share(arrays, state))

        specs = {f"gradient_{weight.name}": Spec(weight.dim.shape, role=Role.GRADIENT) for weight in trained}
        made = ctx.run(
            "opaque", function=call, specs=specs, sample_by_sample=by_sample, **_operands(ctx, backward=True)
        )
        for weight, value in zip(trained, made if isinstance(made, tuple) else (made,), strict=True):
            ctx.run("accumulate", x=value, out=ctx.gradient(weight))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        layer, saved, name = self.layer, ctx.saved["user"], ctx.emitter.layer
        by_sample = layer.sample_by_sample
        why = "something before it is trained; write it, or set trainable = false there"
        _require(layer, "calc_derivative", why)
        wanted = [i for i, want in enumerate(ctx.derivative_wanted) if want]
        first = True

        def call(arrays: dict[str, Any], state: StepState) -> None:
            nonlocal first
            context = _context(layer, arrays, saved, True)
            if first:
                _poison(context.derivatives)
            with users_code(f"[{name}] calc_derivative"):
                layer.calc_derivative(context)
            if first:
                written = {i: context.derivatives[i] for i in wanted}
                _check_written(name, "calc_derivative", "derivatives", written)
                _check_numbers(name, written, (*context.inputs, *context.incoming, *context.weights.values()))
                first = False
            if layer.is_loss:
                _scale(context.derivatives, _share(arrays, state))

        specs = {f"derivative{i}": Spec(ctx.inputs[i].shape) for i in range(len(ctx.inputs))}
        made = ctx.run(
            "opaque", function=call, specs=specs, sample_by_sample=by_sample, **_operands(ctx, backward=True)
        )
        values = made if isinstance(made, tuple) else (made,)
        for i in wanted:
            ctx.derivative(i, values[i])


def _share(arrays: dict[str, Any], state: StepState) -> float:
    """The share of the samples that are computed now in those of the logical batch, over which a loss is the mean."""
    return float(arrays["input0"].shape[0] / state.numbers[StepState.SAMPLES])


def _scale(arrays: Iterable[Any], share: float) -> None:
    if share != 1.0:
        for array in arrays:
            array *= share


def _poison(arrays: tuple[Any, ...]) -> None:
    for array in arrays:
        if array.dtype.kind == "f":
            _bits(array)[...] = _UNWRITTEN[array.itemsize]


def _check_written(name: str, method: str, what: str, made: Mapping[int, Any]) -> None:
    """UsageError for an array that is still as `_poison` left it. NaN that the method wrote is another one."""
    for index, array in made.items():
        if array.dtype.kind == "f" and array.size and (_bits(array) == _UNWRITTEN[array.itemsize]).all():
            raise UsageError(f"[{name}] {method}: nothing was written to ctx.{what}[{index}]")


def _check_numbers(name: str, made: Mapping[int, Any], given: tuple[Any, ...]) -> None:
    """NumericalError for derivatives that are all NaN although everything that was given is finite.

    They would show a step later, in the weights of the layers before, which have no part in it.
    """
    for index, array in made.items():
        if array.size and np.isnan(array).all() and all(np.isfinite(other).all() for other in given):
            raise NumericalError(
                f"[{name}] calc_derivative: ctx.derivatives[{index}] is NaN, with inputs that are finite"
            )


def _bits(array: Any) -> Any:
    """The same memory as whole numbers."""
    return array.view(np.dtype(f"u{array.itemsize}"))


def _require(layer: Layer, method: str, why: str) -> None:
    """UsageError, with the place of its class, for a layer without a method that is needed."""
    if getattr(type(layer), method) in (getattr(Layer, method), getattr(BuiltinLayer, method)):
        raise UsageError(f"{place_of_class(type(layer))} has no {method}, which is needed: {why}")


def _output_dims(ctx: LayerEmitter) -> list[tuple[int, ...]]:
    dims: list[tuple[int, ...]] = [dim.shape for dim in ctx.output_dims]
    return dims


def _operands(ctx: LayerEmitter, *, backward: bool = False) -> dict[str, Value | Weight]:
    operands: dict[str, Value | Weight] = {f"input{i}": value for i, value in enumerate(ctx.inputs)}
    operands |= {f"weight_{weight.name}": weight for weight in ctx.layer.weights}
    operands |= {f"label{i}": value for i, value in enumerate(ctx.labels)}
    if backward:
        if ctx.layer.reads_outputs:
            operands |= {f"made{i}": value for i, value in enumerate(ctx.outputs)}
        for k, value in enumerate(ctx.incoming):
            if value is not None:
                operands[f"incoming{k}"] = value
            elif not ctx.layer.is_loss:
                operands[f"incoming{k}"] = ctx.zeros(ctx.outputs[k].shape)
    return operands


def _numbered(arrays: dict[str, Any], stem: str) -> tuple[Any, ...]:
    found: list[Any] = []
    while f"{stem}{len(found)}" in arrays:
        found.append(arrays[f"{stem}{len(found)}"])
    return tuple(found)


def _named(arrays: dict[str, Any], stem: str) -> dict[str, Any]:
    return {name[len(stem) :]: array for name, array in arrays.items() if name.startswith(stem)}


def _context(layer: Layer, arrays: dict[str, Any], saved: dict[str, Any], training: bool) -> RunContext:
    return RunContext(
        inputs=_numbered(arrays, "input"),
        outputs=_numbered(arrays, "output") or _numbered(arrays, "made"),
        weights=_named(arrays, "weight_"),
        incoming=_numbered(arrays, "incoming"),
        derivatives=_numbered(arrays, "derivative"),
        gradients=_named(arrays, "gradient_"),
        labels=_numbered(arrays, "label"),
        training=training,
        saved=saved,
    )
