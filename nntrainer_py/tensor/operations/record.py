"""What an operation is: plain records that every later stage reads (lifetimes, planning, recompute, swap, formats).

A layer is lowered once per plan into a flat list of :class:`Operation`. Each names the :class:`Value` objects that it
reads and writes; nothing else may carry data from one operation to another. Values are single-assignment: one
operation writes a value whole, and only operations that say so (``accumulate``, or a kind that ``modifies`` state)
write it again. Memory is decided later: two values share bytes only where a kind permits it (``in_place``) and nobody
reads the old one.

A *kind* (:class:`OperationKind`) is declared once in a file of this folder: shape rule, scratch bytes, cost, and
``bind``, which turns a record and its arrays into a call that a step replays. To add one::

    class Negative(OperationKind):
        name = "negative"
        in_place = (("out", "x"),)
        def outputs(self, reads, attributes):
            return {"out": Spec(reads["x"].shape)}
        def bind(self, operation, arrays, run):
            return kernel, (arrays["x"].reshape(-1), arrays["out"].reshape(-1))

    register(Negative())

``bind`` runs once per plan, may allocate and reshape; the returned function must allocate nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.tensor.dim import TensorDim

Array = NDArray[Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
#: writes the contents of a constant into an array
Fill = Callable[[Array], None]


class Role(enum.Enum):
    """What a value is for; decides where it lives and whether it outlives the step."""

    INPUT = "input"
    LABEL = "label"
    WEIGHT = "weight"
    STATE = "state"  # running statistics, k-NN maps, KV caches: saved with the weights, no gradient
    OPTIMIZER = "optimizer"  # moments, momentum buffers
    CONSTANT = "constant"  # tables filled once per model, when the first plan is bound, e.g. positional encodings
    ACTIVATION = "activation"
    DERIVATIVE = "derivative"  # gradient of the loss by an activation
    GRADIENT = "gradient"  # gradient of the loss by a weight
    SCALAR = "scalar"  # losses, metric counters, clip factors: read by the engine after a phase

    @property
    def persistent(self) -> bool:
        """Lives from step to step in the persistent arena."""
        return self in (Role.WEIGHT, Role.STATE, Role.OPTIMIZER, Role.CONSTANT)


class Phase(enum.Enum):
    """Part of a step that an operation belongs to."""

    FORWARD = "forward"
    STATE = "state"  # moves of running statistics and the like, of every batch, once its loss is known to be finite
    GRADIENT = "gradient"
    DERIVATIVE = "derivative"
    UPDATE = "update"

    @property
    def backward(self) -> bool:
        return self is not Phase.FORWARD


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and element type of a value that an operation makes."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role | None = None  # None: an activation in the forward phase, a derivative in the backward one


@dataclass(eq=False, slots=True)
class Value:
    """One tensor of a plan. Compared by identity.

    ``base`` makes it a view: contiguous elements of ``base`` from element ``offset`` on.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    dtype: str = "float32"
    base: Value | None = None
    offset: int = 0
    fill: Fill | None = None  # writes the contents of a CONSTANT into an array of its shape
    persistent: bool = False

    def __post_init__(self) -> None:
        self.persistent = self.persistent or self.role.persistent

    @property
    def dim(self) -> TensorDim:
        return TensorDim.from_shape(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def root(self) -> Value:
        """The value that owns the memory."""
        value = self
        while value.base is not None:
            value = value.base
        return value

    @property
    def root_offset(self) -> int:
        """Offset from the root in elements."""
        value, offset = self, 0
        while value.base is not None:
            offset += value.offset
            value = value.base
        return offset

    def filled(self) -> Array:
        """A new array with the contents of a CONSTANT, C-contiguous."""
        if self.fill is None:
            raise ValueError(f"{self.name} is no constant")
        array = np.empty(self.shape, self.dtype)
        self.fill(array)
        return array

    def __repr__(self) -> str:
        return f"<{self.name} {'x'.join(map(str, self.shape))} {self.role.value}>"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Fills a constant with one number."""

    number: float

    def __call__(self, out: Array) -> None:
        out[...] = self.number


class StepState:
    """What changes from step to step, in small arrays that bound calls read; shared by all plans of a model."""

    LEARNING_RATE, SAMPLES, LOSS_SCALE, WRONG = range(4)
    ITERATION, STEP, OFFSET, SEED = range(4)
    CODE, DETAIL = range(2)

    def __init__(self) -> None:
        # numbers: learning rate; samples of the logical batch (the divisor of a mean loss); loss scale;
        # the value that `status` complains of
        self.numbers: NDArray[np.float64] = np.array([0.0, 1.0, 1.0, 0.0])
        # counters: updates done (t of Adam); step for random draws; index of the first sample in the logical batch
        self.counters: NDArray[np.int64] = np.zeros(4, np.int64)
        # status: what a kernel found wrong (0: nothing), and at which element
        self.status: NDArray[np.int64] = np.zeros(2, np.int64)


class Status(enum.IntEnum):
    """Codes that kernels leave in ``StepState.status``; the engine turns them into errors before the first update."""

    FINE = 0
    LABEL_OUT_OF_RANGE = 1
    INDEX_OUT_OF_RANGE = 2


@dataclass(slots=True)
class Run:
    """What ``bind`` may use besides the arrays of the operation itself."""

    state: StepState
    threads: int
    scratch: NDArray[np.uint8]  # the operation's own scratch, as many bytes as ``scratch`` asked for, 64-byte aligned
    seed: int = 0


class OperationKind:
    """Base of every kind; one instance each, registered by name."""

    name: ClassVar[str] = ""
    #: no side effects: may be recomputed, deduplicated, or dropped when nobody reads its outputs
    pure: ClassVar[bool] = True
    #: draws random numbers (counter-based, so that a repeated run draws the same)
    random: ClassVar[bool] = False
    #: cheap beside a convolution or matrix product: one pass over memory
    elementwise: ClassVar[bool] = False
    #: ``out=`` may name a target to which further operations add
    accumulates: ClassVar[bool] = False
    #: pairs (write, read) that may share memory when nobody reads the old value later
    in_place: ClassVar[tuple[tuple[str, str], ...]] = ()
    #: names among the writes that are state changed in place (read, then written)
    modifies: ClassVar[tuple[str, ...]] = ()

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        """The values that the operation makes; raises ValueError for shapes that do not fit."""
        raise NotImplementedError(self.name)

    def variant(self, attributes: Mapping[str, Any]) -> OperationKind:
        """The kind of a record with these attributes; another one of the same name where what it promises differs."""
        return self

    def scratch(self, operation: Operation, threads: int) -> int:
        """Bytes of work space that ``bind`` finds in ``run.scratch``."""
        return 0

    def cost(self, operation: Operation) -> float:
        """Estimated time in nanoseconds on one core: bytes moved at 10 GB/s unless a kind knows better."""
        moved = sum(value.nbytes for value in operation.reads.values()) + sum(
            value.nbytes for value in operation.writes.values()
        )
        return moved / 10.0

    def aliases(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        """``in_place`` for this record; a kind may permit less depending on shapes."""
        return self.in_place

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        """The call that a step replays: a function and its arguments, everything looked up and reshaped already.

        ``arrays`` holds reads and writes by name; views of the arena, C-contiguous. An accumulating operation has
        ``operation.accumulate`` True when it must add to ``out`` instead of writing it.
        """
        raise NotImplementedError(self.name)


@dataclass(eq=False, slots=True)
class Operation:
    """One record of the list that a step replays."""

    kind: OperationKind
    reads: dict[str, Value]
    writes: dict[str, Value]
    attributes: dict[str, Any]
    phase: Phase
    layer: str = ""
    accumulate: bool = False
    origin: Any = None
    recomputed: bool = field(default=False)  # a second run of a forward operation, put in by a pass

    @property
    def reads_all(self) -> list[Value]:
        """Every value whose old contents matter: the reads, an accumulated target, state changed in place."""
        values = list(self.reads.values())
        if self.accumulate:
            values.append(self.writes["out"])
        values.extend(self.writes[name] for name in self.kind.modifies if name in self.writes)
        return values

    def __repr__(self) -> str:
        reads = ", ".join(f"{name}={value.name}" for name, value in self.reads.items())
        writes = ", ".join(value.name for value in self.writes.values())
        return f"<{self.layer}: {writes} {'+=' if self.accumulate else '='} {self.kind.name}({reads})>"


KINDS: dict[str, OperationKind] = {}


def register(kind: OperationKind) -> OperationKind:
    """Enter a kind under its name."""
    if kind.name in KINDS:
        raise ValueError(f"operation kind {kind.name!r} is registered twice")
    KINDS[kind.name] = kind
    return kind
