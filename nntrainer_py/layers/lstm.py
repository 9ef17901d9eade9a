"""lstm: a long short-term memory over a sequence, in one direction or both."""

from __future__ import annotations

from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.layers.gated import LstmMath
from nntrainer_py.layers.recurrent import Pass, Sequential
from nntrainer_py.properties import boolean, enum, positive_int
from nntrainer_py.tensor.operations.record import Value


class Lstm(LstmMath, Sequential):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), initial states zero.

    ``i, f, o = rec(x W + h' U + b)``, ``g = act(x W + h' U + b)``, ``c = f c' + i g``, ``h = o act(c)``.

    Shapes: ``(N, 1, T, F)`` to ``(N, 1, T, unit)``, or ``(N, 1, 1, unit)`` without ``return_sequences``; twice the
    width when ``bidirectional``: forward half first, both aligned on the same time index. weight_ih ``F x 4 unit``,
    weight_hh ``unit x 4 unit``, then the biases, columns in the order i, f, g, o; then the same again for the
    reverse direction.

    Without ``return_sequences`` the reverse half is its state after the whole reversed sequence (step 0), as in
    Keras and PyTorch; ``reverse_output = last_step`` takes it at the last step, as NNTrainer does, where it has seen
    one step only. A ``max_timestep`` above the length of the input continues the sequence with zeros.
    """

    keyword = "lstm"

    bidirectional = boolean(False, doc="A second direction from the last step to the first.")
    max_timestep = positive_int(None, doc="Length to which a shorter sequence is continued with zeros.")
    reverse_output = enum(
        ("whole", "last_step"),
        "whole",
        doc="Reverse half without return_sequences: all steps read, or at the last step.",
    )

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.channel != 1:
            raise ValueError(
                f"input is {x}, a sequence has 1 channel, its steps in the height, its features in the width"
            )
        self.steps = max(x.height, self.max_timestep or 0)
        self.directions = [self.request(ctx, x.width)]
        if self.bidirectional:
            self.directions.append(self.request(ctx, x.width, "reverse_"))
        width = self.unit * len(self.directions)
        ctx.output(x.replace(height=self.steps if self.return_sequences else 1, width=width))

    def _at(self, reverse: bool) -> int:
        """The step whose state is handed on without ``return_sequences``."""
        return 0 if reverse and self.reverse_output == "whole" else self.steps - 1

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        if self.steps > x.shape[2]:
            x = ctx.run("slice_derivative", g=x, axis=2, start=0, shape=(x.shape[0], 1, self.steps, x.shape[3]))
        runs = [self.run_through(ctx, x, weights, reverse=bool(index)) for index, weights in enumerate(self.directions)]
        ctx.saved["runs"] = runs
        halves = [self.picked(ctx, run, self._at(run.reverse)) for run in runs]
        ctx.output(halves[0] if len(halves) == 1 else ctx.run("concat", x0=halves[0], x1=halves[1], axis=3))

    def _backs(self, ctx: LayerEmitter) -> list[tuple[Pass, dict[str, Value]]]:
        (g,), runs = ctx.incoming, ctx.saved["runs"]
        made = []
        for index, run in enumerate(runs):
            share = g
            if len(runs) > 1:
                share = ctx.run("slice", x=g, axis=3, start=index * self.unit, stop=(index + 1) * self.unit)
            made.append((run, self.run_back(ctx, run, share, self._at(run.reverse))))
        return made

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        for run, back in self._backs(ctx):
            self.emit_gradients(ctx, run, back)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        total = ctx.sum([self.derivative_of_input(ctx, run, back) for run, back in self._backs(ctx)])
        steps = ctx.inputs[0].shape[2]
        if self.steps > steps:
            total = ctx.run("slice", x=total, axis=2, start=0, stop=steps)
        ctx.derivative(0, total)
