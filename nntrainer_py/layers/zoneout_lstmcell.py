"""zoneout_lstmcell: one step of a long short-term memory that keeps some elements of its states."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.context import FinalizeContext, LayerEmitter, Weight
from nntrainer_py.layers.gated import LstmMath
from nntrainer_py.layers.recurrent import Cell
from nntrainer_py.properties import boolean, number, positive_int, unsigned_int
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.tensor.rng import key_of


class ZoneoutLstmCell(LstmMath, Cell):
    """An lstmcell with zoneout (Krueger et al., 2017); inputs x, h', c', outputs h, c.

    In training ``h = m h_new + (1 - m) h'`` and the same for c, each element of the mask m being 0 with probability
    ``hidden_state_zoneout_rate`` or ``cell_state_zoneout_rate``. In inference it is the plain cell, as in NNTrainer.
    With ``test`` the masks are two more weights ``(max_timestep * N, 1, 1, unit)`` that are not trained, and step
    ``timestep`` uses its N rows; so masks can be prescribed, at a fixed batch size.
    """

    keyword = "zoneout_lstmcell"
    states = ("hidden0", "cell0")

    hidden_state_zoneout_rate = number(0.0, minimum=0.0, maximum=1.0, doc="Share of the hidden state that is kept.")
    cell_state_zoneout_rate = number(0.0, minimum=0.0, maximum=1.0, doc="Share of the cell state that is kept.")
    max_timestep = positive_int(1, doc="Number of steps; the unroller fills it in.")
    timestep = unsigned_int(0, doc="Which step this is, from 0; the unroller fills it in.")
    test = boolean(False, doc="Take the masks from weights instead of drawing them.")

    def finalize(self, ctx: FinalizeContext) -> None:
        super().finalize(ctx)
        if self.timestep >= self.max_timestep:
            raise ValueError(f"timestep {self.timestep} of {self.max_timestep} steps, the first is 0")
        self.batch, self.masks = ctx.inputs[0].batch, list[Weight]()
        if self.test:
            dim = TensorDim(batch=self.max_timestep * self.batch, width=self.unit)
            self.masks = [ctx.state(f"{which}_state_zoneout_mask", dim, "ones") for which in ("hidden", "cell")]

    def _mask(self, ctx: LayerEmitter, index: int) -> dict[str, Any]:
        """Where the mask of the hidden (0) or cell (1) state comes from."""
        if self.masks:
            value = self.masks[index].value
            assert value is not None
            size = self.batch * self.unit
            return {"mask": ctx.view(value, (self.batch, 1, 1, self.unit), self.timestep * size)}
        rate = (self.hidden_state_zoneout_rate, self.cell_state_zoneout_rate)[index]
        return {"rate": rate, "draw": 2 + index, "key": key_of(ctx.seed, ctx.emitter.layer)}

    def _active(self, ctx: LayerEmitter, index: int) -> bool:
        rate = (self.hidden_state_zoneout_rate, self.cell_state_zoneout_rate)[index]
        return ctx.training and (bool(self.masks) or rate > 0.0)

    def forward(self, ctx: LayerEmitter) -> None:
        x, *before = ctx.inputs
        run = self.run_through(ctx, x, self.own, initial=dict(zip(self.states, before, strict=False)))
        ctx.saved["run"] = run
        for index, name in enumerate(self.states):
            new = run.made[name[:-1]]
            old = before[index] if before else ctx.zeros(new.shape)
            if self._active(ctx, index):
                new = ctx.run("zoneout", new=new, old=old, **self._mask(ctx, index))
            ctx.output(new)

    def _shares(self, ctx: LayerEmitter) -> list[tuple[Value | None, Value | None]]:
        """Of each state: derivative by the new one, and by the old one past the cell."""
        made: list[tuple[Value | None, Value | None]] = []
        for index, g in enumerate(ctx.incoming):
            if g is None or not self._active(ctx, index):
                made.append((g, None))
            else:
                made.append(ctx.run("zoneout_derivative", g=g, **self._mask(ctx, index)))
        return made

    def came_back(self, ctx: LayerEmitter) -> dict[str, Value]:
        (g, _), (gc, _) = self._shares(ctx)
        made: dict[str, Value] = self.run_back(ctx, ctx.saved["run"], g, 0, gc)
        return made

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        super().calc_derivative(ctx)
        for index, (_, past) in enumerate(self._shares(ctx)[: len(ctx.inputs) - 1], 1):
            ctx.derivative(index, ctx.sum([ctx.derivatives[index], past]))
