"""recurrent: a group of layers that is repeated over time with shared weights."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext
from nntrainer_py.properties import boolean, connections, integer, positive_int


class RecurrentGroup(BuiltinLayer):
    """Repeat ``layers``, described in sections of their own, ``unroll_for`` times; see docs/recurrent.md.

    It is no layer of the network: graph/unroll.py writes the copies out, ``<group>/<layer>/<step>``, before any
    shape is known. The words are those of NNTrainer's recurrent realizer.
    """

    keyword = "recurrent"

    layers = connections(None, doc="The layers of the group, in the order of their sections.")
    unroll_for = positive_int(doc="Number of steps.")
    recurrent_input = connections(None, doc="Inputs fed back from the second step on: `cell(1)` is input 1 of cell.")
    recurrent_output = connections(None, doc="What feeds them, in the same order: outputs of the step before.")
    as_sequence = connections(None, doc="Outputs that are handed on for all steps; others for the last step only.")
    input_is_sequence = connections(None, doc="Inputs of the group that hold a row for each step in their height.")
    dynamic_time_seq = boolean(False, doc="Only false: the number of steps is fixed by unroll_for.")
    sequence_axis = integer(1, minimum=1, maximum=3, doc="Axis along which as_sequence joins the steps.")

    def validate(self) -> None:
        given, fed = self.recurrent_input or (), self.recurrent_output or ()
        if len(given) != len(fed):
            raise UsageError(
                f"expected one output for each of the {len(given)} recurrent inputs, got {len(fed)}",
                key="recurrent_output",
            )
        if len(set(given)) != len(given):
            raise UsageError("an input stands twice", key="recurrent_input")
        if self.dynamic_time_seq:
            raise UsageError("expected false; the number of steps is fixed by unroll_for", key="dynamic_time_seq")

    def finalize(self, ctx: FinalizeContext) -> None:
        raise ValueError("a group of layers is written out before shapes are known; it is no layer by itself")
