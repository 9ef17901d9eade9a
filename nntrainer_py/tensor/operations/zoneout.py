"""zoneout: keep some elements of a state as they were before a step (Krueger et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register
from nntrainer_py.tensor.rng import threshold_of


class _Zoneout(OperationKind):
    """The mask m is 0 with probability ``rate`` (``key``, ``draw`` as of dropout), or is read as ``mask``."""

    random = True
    elementwise = True

    def scratch(self, operation: Operation, threads: int) -> int:
        return 0 if "mask" in operation.reads else 4 * next(iter(operation.reads.values())).size

    def call(self, operation: Operation, arrays: Mapping[str, Array], run: Run, kernel: str, names: list[str]) -> Call:
        from nntrainer_py.tensor.kernels import zoneout as kernels

        flat = tuple(arrays[name].reshape(-1) for name in names)
        if "mask" in arrays:
            return getattr(kernels, kernel).function, (arrays["mask"].reshape(-1), *flat)
        attributes, samples = operation.attributes, arrays[names[0]].shape[0]
        mask = run.scratch[: 4 * flat[0].size].view(np.float32).reshape(samples, -1)
        return getattr(kernels, f"{kernel}_drawn").function, (
            np.uint64(attributes["key"]), run.state.counters, int(attributes["draw"]),
            threshold_of(float(attributes["rate"])), mask, *flat,
        )  # fmt: skip


class Zoneout(_Zoneout):
    """``out = m * new + (1 - m) * old``."""

    name = "zoneout"
    in_place = (("out", "new"), ("out", "old"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        new, old = reads["new"].shape, reads["old"].shape
        if new != old or ("mask" in reads and reads["mask"].size != reads["new"].size):
            raise ValueError(f"zoneout: a new state {new} and an old state {old}, or their mask, do not fit")
        return {"out": Spec(new)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return self.call(operation, arrays, run, "mix", ["new", "old", "out"])


class ZoneoutDerivative(_Zoneout):
    """``dnew = m * g`` and ``dold = (1 - m) * g``."""

    name = "zoneout_derivative"
    in_place = (("dnew", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape = reads["g"].shape
        return {"dnew": Spec(shape), "dold": Spec(shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return self.call(operation, arrays, run, "share", ["g", "dnew", "dold"])


register(Zoneout())
register(ZoneoutDerivative())
