"""A graph of standard ONNX nodes in the making, and terms that read like formulas.

A `Term` is one ONNX value with its type and shape, which are all known; arithmetic on terms adds nodes to their graph::

    graph = GraphBuilder()
    x = graph.input("x", (2, 3))
    graph.output("y", (x * 2.0 + 1.0).apply("Exp"))
    model = graph.model(name="example", metadata={})

Only `GraphBuilder.model` needs the library ``onnx``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nntrainer_py.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto

#: the first version of the standard operators that has all that the emitters use (bit-wise operators on integers)
OPSET = 18
#: the first version of the file format that may hold that opset
IR_VERSION = 8
#: what one message of protocol buffers can hold, less room for nodes and names
LARGEST = (1 << 31) - (1 << 24)

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One node: operator, names of inputs ("" for an optional one left out) and outputs, attributes."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Border:
    """An input or output of the graph."""

    name: str
    shape: Shape
    dtype: str


@dataclass(eq=False, slots=True)
class GraphBuilder:
    """Collects nodes, constants and borders."""

    nodes: list[Node] = field(default_factory=list)
    inputs: list[Border] = field(default_factory=list)
    outputs: list[Border] = field(default_factory=list)
    #: constants, and defaults of inputs, by name
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    _constants: dict[tuple[str, Shape, bytes], str] = field(default_factory=dict)
    #: the number that all elements of a value are, by name, where that is known now
    _uniform: dict[str, Any] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet: ``stem``, or with a number behind it."""
        name = stem
        while name in self._names:
            self._numbers[stem] = self._numbers.get(stem, 0) + 1
            name = f"{stem}.{self._numbers[stem]}"
        self._names.add(name)
        return name

    def _claim(self, name: str) -> None:
        if name in self._names:
            raise ValueError(f"the name {name!r} is in use")
        self._names.add(name)

    def input(self, name: str, shape: Shape, dtype: str = "float32", default: ArrayLike | None = None) -> Term:
        """An input of the graph; with a ``default`` it need not be given. ValueError for a name that is in use."""
        self._claim(name)
        self.inputs.append(Border(name, shape, dtype))
        if default is not None:
            self.arrays[name] = np.asarray(default, dtype).reshape(shape)
        return Term(self, name, dtype, shape)

    def output(self, name: str, term: Term) -> None:
        """``term`` as an output of the graph. ValueError for a name that is in use."""
        self._claim(name)
        self.nodes.append(Node("Identity", (term.name,), (name,), {}))
        self.outputs.append(Border(name, term.shape, term.dtype))

    def constant(self, value: ArrayLike, dtype: str | None = None) -> Term:
        """Numbers that are part of the graph; equal ones are kept once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.name, array.shape, _digest(array))
        if key not in self._constants:
            self._constants[key] = name = self.fresh("constant")
            self.arrays[name] = array
            if array.size and (array == array.flat[0]).all():
                self._uniform[name] = array.flat[0]
        return Term(self, self._constants[key], array.dtype.name, array.shape)

    def uniform(self, term: Term) -> Any:
        """The number that all elements of a term are; None where it is not known, or where they differ."""
        return self._uniform.get(term.name)

    def rearranged(self, term: Term, made: Term) -> Term:
        """``made``, of which it is known that it holds elements of ``term`` only."""
        if term.name in self._uniform:
            self._uniform[made.name] = self._uniform[term.name]
        return made

    def node(
        self, operator: str, *inputs: Term | None, shape: Shape, dtype: str | None = None, **attributes: Any
    ) -> Term:
        """A node with one output of this shape, and of the type of its first input unless ``dtype`` says otherwise."""
        return self.many(operator, *inputs, made=[(shape, dtype or next(x.dtype for x in inputs if x))], **attributes)[
            0
        ]

    def many(
        self, operator: str, *inputs: Term | None, made: Sequence[tuple[Shape, str]], **attributes: Any
    ) -> list[Term]:
        """A node with several outputs."""
        names = [self.fresh(operator) for _ in made]
        taken = tuple("" if term is None else term.name for term in inputs)
        self.nodes.append(Node(operator, taken, tuple(names), attributes))
        return [Term(self, name, dtype, shape) for name, (shape, dtype) in zip(names, made, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of all constants and defaults."""
        return sum(array.nbytes for array in self.arrays.values())

    def check_room(self, more: int = 0) -> None:
        """UsageError when what there is and so many bytes more are more than one file can hold."""
        if self.nbytes + more > LARGEST:
            raise UsageError(
                f"an ONNX file holds at most 2 GB, the tensors of this one take {(self.nbytes + more) / 1e9:.1f} GB"
            )

    def _used(self) -> tuple[list[Node], dict[str, NDArray[Any]]]:
        """The nodes that an output depends on, and the arrays that these or inputs need."""
        wanted = {border.name for border in (*self.inputs, *self.outputs)}
        nodes = []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.outputs):
                nodes.append(node)
                wanted.update(node.inputs)
        return nodes[::-1], {name: array for name, array in self.arrays.items() if name in wanted}

    def model(self, name: str, metadata: Mapping[str, str]) -> ModelProto:
        """The ONNX model.

        Raises:
            MissingExtraError: the library ``onnx`` is not installed.
            UsageError: the constants are more than one file can hold.
        """
        self.check_room()
        try:
            from onnx import helper
        except ImportError as error:
            raise MissingExtraError("onnx", "an ONNX graph") from error

        def border(of: Border) -> Any:
            return helper.make_tensor_value_info(of.name, helper.np_dtype_to_tensor_dtype(np.dtype(of.dtype)), of.shape)

        used, held = self._used()
        nodes = [helper.make_node(n.operator, n.inputs, n.outputs, n.outputs[0], **n.attributes) for n in used]
        borders = [border(of) for of in self.inputs], [border(of) for of in self.outputs]
        graph = helper.make_graph(nodes, name, *borders)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="nntrainer_py"
        )
        helper.set_model_props(made, dict(metadata))
        for key, array in held.items():  # into their place, because the helpers copy all that they are given
            tensor = made.graph.initializer.add(name=key, dims=array.shape)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return made


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """One value of a graph. Numbers beside a term take its type; shapes broadcast as NumPy's do."""

    graph: GraphBuilder
    name: str
    dtype: str
    shape: Shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def like(self, value: Term | float) -> Term:
        """A number as a term of this type; a term as it is."""
        return value if isinstance(value, Term) else self.graph.constant(value, self.dtype)

    def binary(self, operator: str, other: Term | float, dtype: str | None = None, **attributes: Any) -> Term:
        """A node of two operands that broadcast."""
        right = self.like(other)
        if right.dtype != self.dtype:
            raise ValueError(f"{operator} of {self.dtype} and {right.dtype}")
        shape = np.broadcast_shapes(self.shape, right.shape)
        return self.graph.node(operator, self, right, shape=shape, dtype=dtype, **attributes)

    def is_all(self, number: float) -> bool:
        """Every element is known to be this number, now that the graph is written."""
        return bool(self.graph.uniform(self) == number)

    def spread(self, other: Term) -> Term:
        """This in the shape that it and another broadcast to."""
        if self.dtype != other.dtype:
            raise ValueError(f"{self.dtype} beside {other.dtype}")
        return self.expand(*np.broadcast_shapes(self.shape, other.shape))

    # Sums with zero and products with one are not written: ONNX Runtime would take them out again.

    def __add__(self, other: Term | float) -> Term:
        right = self.like(other)
        if right.is_all(0):
            return self.spread(right)
        return right.spread(self) if self.is_all(0) else self.binary("Add", right)

    def __sub__(self, other: Term | float) -> Term:
        right = self.like(other)
        return self.spread(right) if right.is_all(0) else self.binary("Sub", right)

    def __mul__(self, other: Term | float) -> Term:
        right = self.like(other)
        if right.is_all(1):
            return self.spread(right)
        return right.spread(self) if self.is_all(1) else self.binary("Mul", right)

    def __truediv__(self, other: Term | float) -> Term:
        right = self.like(other)
        if right.is_all(1):
            return self.spread(right)
        if self.is_all(1) and self.dtype in _FLOATS:
            # As a Div by name, ONNX Runtime makes b / a of 1 / a * b, and (up to 1.32 at least) forgets in its graph
            # that b is read: what makes b can then be taken away, and the graph is refused (its issue 32413).
            return right.apply("Reciprocal").spread(self)
        return self.binary("Div", right)

    def __radd__(self, other: float) -> Term:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Term:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other) / self

    def __pow__(self, other: Term | float) -> Term:
        return self.binary("Pow", other)

    def __neg__(self) -> Term:
        return self.apply("Neg")

    def __lt__(self, other: Term | float) -> Term:
        return self.binary("Less", other, "bool")

    def __le__(self, other: Term | float) -> Term:
        return self.binary("LessOrEqual", other, "bool")

    def __gt__(self, other: Term | float) -> Term:
        return self.binary("Greater", other, "bool")

    def __ge__(self, other: Term | float) -> Term:
        return self.binary("GreaterOrEqual", other, "bool")

    def __matmul__(self, other: Term) -> Term:
        shape = (*np.broadcast_shapes(self.shape[:-2], other.shape[:-2]), self.shape[-2], other.shape[-1])
        return self.graph.node("MatMul", self, other, shape=shape)

    def equals(self, other: Term | float) -> Term:
        """Element-wise comparison."""
        return self.binary("Equal", other, "bool")

    def apply(self, operator: str, **attributes: Any) -> Term:
        """An element-wise function of one operand."""
        return self.graph.node(operator, self, shape=self.shape, **attributes)

    def where(self, chosen: Term | float, other: Term | float) -> Term:
        """``chosen`` where this (bool) holds, else ``other``; one of them must be a term."""
        model = chosen if isinstance(chosen, Term) else other
        assert isinstance(model, Term)
        one, two = model.like(chosen), model.like(other)
        shape = np.broadcast_shapes(self.shape, one.shape, two.shape)
        return self.graph.node("Where", self, one, two, shape=shape, dtype=model.dtype)

    def cast(self, dtype: str) -> Term:
        """The same numbers as another type; floats to integers are cut off."""
        if dtype == self.dtype:
            return self
        code = _TYPES[dtype]
        made = self.graph.node("Cast", self, shape=self.shape, dtype=dtype, to=code)
        return self.graph.rearranged(self, made) if self.is_all(0) or self.is_all(1) else made

    def reshape(self, *shape: int) -> Term:
        """The same elements, C order. No size may be -1."""
        if shape == self.shape:
            return self
        if math.prod(shape) != self.size:
            raise ValueError(f"{self.shape} as {shape}")
        made = self.graph.node("Reshape", self, self.graph.constant(shape, "int64"), shape=shape, allowzero=1)
        return self.graph.rearranged(self, made)

    def transpose(self, *order: int) -> Term:
        """Axes in another order."""
        if order == tuple(range(len(self.shape))):
            return self
        made = self.graph.node("Transpose", self, shape=tuple(self.shape[axis] for axis in order), perm=list(order))
        return self.graph.rearranged(self, made)

    def expand(self, *shape: int) -> Term:
        """Repeated along axes of size 1."""
        if shape == self.shape:
            return self
        made = self.graph.node("Expand", self, self.graph.constant(shape, "int64"), shape=shape)
        return self.graph.rearranged(self, made)

    def reduce(self, operator: str, axes: Iterable[int] | None = None) -> Term:
        """ReduceSum, ReduceMean, ReduceMax ... over axes (default: all), which stay with size 1."""
        gone = tuple(range(len(self.shape))) if axes is None else tuple(axes)
        if not gone:
            return self
        shape = tuple(1 if axis in gone else size for axis, size in enumerate(self.shape))
        return self.graph.node(operator, self, self.graph.constant(gone, "int64"), shape=shape, keepdims=1)

    def sum(self, axes: Iterable[int] | None = None) -> Term:
        return self.reduce("ReduceSum", axes)

    def mean(self, axes: Iterable[int] | None = None) -> Term:
        return self.reduce("ReduceMean", axes)

    def slice(self, axis: int, start: int, stop: int, step: int = 1) -> Term:
        """Every ``step``-th element from ``start`` to ``stop`` (exclusive) of one axis."""
        if (start, stop, step) == (0, self.shape[axis], 1):
            return self
        shape = list(self.shape)
        shape[axis] = len(range(start, stop, step))
        places = [self.graph.constant([place], "int64") for place in (start, stop, axis, step)]
        return self.graph.rearranged(self, self.graph.node("Slice", self, *places, shape=tuple(shape)))

    def reversed(self, axis: int) -> Term:
        """The other way round along one axis."""
        last = self.graph.constant([-1], "int64")
        end = self.graph.constant([np.iinfo(np.int64).min], "int64")
        axes = self.graph.constant([axis], "int64")
        return self.graph.node("Slice", self, last, end, axes, last, shape=self.shape)

    def pad(self, before: Sequence[int], after: Sequence[int]) -> Term:
        """Zeros around."""
        if not any((*before, *after)):
            return self
        shape = tuple(size + a + b for size, a, b in zip(self.shape, before, after, strict=True))
        return self.graph.node(
            "Pad", self, self.graph.constant([*before, *after], "int64"), shape=shape, mode="constant"
        )

    def concat(self, axis: int, *others: Term) -> Term:
        """This and the others side by side."""
        terms: tuple[Term, ...] = (self, *others)
        if len(terms) == 1:
            return self
        shape = list(self.shape)
        shape[axis] = sum(term.shape[axis] for term in terms)
        return self.graph.node("Concat", *terms, shape=tuple(shape), axis=axis)


def _digest(array: NDArray[Any]) -> bytes:
    """What tells contents apart, without a second copy of large ones."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()


_FLOATS = ("float16", "float32", "float64")
#: numbers of TensorProto.DataType, so that a graph can be made without the library
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
