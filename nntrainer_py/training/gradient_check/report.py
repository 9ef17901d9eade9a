"""What a check of gradients found: a row for each tensor, and what all of them come to."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from nntrainer_py.errors import counted

#: multiples of the uncertainty of the differences that an error must exceed, beside the tolerance, to be one
SURE = 4.0


class Verdict(enum.Enum):
    """What is known of one tensor."""

    PASSED = "passed"
    FAILED = "failed"
    UNCLEAR = "unclear"  # the differences themselves are too uncertain to tell
    SKIPPED = "skipped"  # there is nothing to compare; the reason says why


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a tensor: its place, the central difference there, and what the layer's method gave."""

    index: tuple[int, ...]
    expected: float
    found: float

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        return f"element [{place}]: expected {self.expected:.6g}, found {self.found:.6g}"


@dataclass(frozen=True, slots=True)
class TensorCheck:
    """The derivative by one input, or the gradient of one weight.

    ``error`` is what the layer's numbers are off by, ``uncertainty`` that of the differences that they are compared
    with; both relative to the whole tensor (or to the element, where a single one decides), None where nothing was
    compared. ``place`` is the file and line of the method that made the numbers.
    """

    layer: str
    keyword: str
    tensor: str
    verdict: Verdict
    error: float | None = None
    uncertainty: float | None = None
    element: Element | None = None
    place: str = ""
    reason: str = ""

    def __str__(self) -> str:
        words = [f"[{self.layer}] {self.tensor}: {self.verdict.value}"]
        if self.error is not None and self.verdict is not Verdict.SKIPPED:
            words.append(f"relative error {self.error:.2g}, known to {self.uncertainty or 0.0:.1g}")
        if self.reason:
            words.append(self.reason)
        if self.element is not None:
            words.append(str(self.element))
        if self.place:
            words.append(self.place)
        return "; ".join(words)


@dataclass(frozen=True, slots=True)
class GradientReport:
    """All rows in the order of the graph, the whole model last; ``notes`` are what the user should know beside."""

    rows: tuple[TensorCheck, ...]
    samples: int
    tolerance: float
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """No tensor failed."""
        return not self.failed

    @property
    def failed(self) -> list[TensorCheck]:
        """The tensors whose numbers are wrong."""
        return self.of(Verdict.FAILED)

    def of(self, verdict: Verdict) -> list[TensorCheck]:
        """The rows of a verdict."""
        return [row for row in self.rows if row.verdict is verdict]

    def allowed(self, row: TensorCheck) -> float | None:
        """The error up to which a row passes: the tolerance and four times the uncertainty of its differences."""
        return None if row.uncertainty is None else self.tolerance + SURE * row.uncertainty

    def __iter__(self) -> Iterator[TensorCheck]:
        return iter(self.rows)

    def summary(self) -> str:
        """One line: how many passed, failed, are unclear, were skipped."""
        compared = [row for row in self.rows if row.verdict is not Verdict.SKIPPED]
        counts = [f"{len(self.of(Verdict.PASSED))} of {counted(len(compared), 'tensor')} passed"]
        for verdict in (Verdict.FAILED, Verdict.UNCLEAR, Verdict.SKIPPED):
            if self.of(verdict):
                counts.append(f"{len(self.of(verdict))} {verdict.value}")
        return ", ".join(counts)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.rows), self.summary()])
