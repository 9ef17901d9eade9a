"""Which layers look at the whole batch, so that it cannot be computed in pieces."""

from __future__ import annotations

from nntrainer_py.graph.lower import Lowered
from nntrainer_py.tensor.operations.record import Phase

#: kinds whose result for one sample depends on the others
_KINDS = ("batch_statistics", "normalize_batch")


def why_whole(lowered: Lowered) -> str:
    """Why a batch of this list cannot be computed in pieces: a layer and what it does; empty when it can.

    State moves with every piece, and what later pieces are compared with then is not what it was for the first.
    """
    for operation in lowered.operations:
        if operation.kind.name in _KINDS or operation.phase is Phase.STATE:
            return f"{operation.layer} looks at the whole batch"
        if operation.kind.name == "opaque" and not operation.attributes["sample_by_sample"]:
            return (
                f"{operation.layer} may look at the whole batch; when it treats every sample by itself, let its class "
                "say sample_by_sample = True"
            )
    return ""
