"""Shapes that matrix products refuse: a sum of nothing would leave its result unwritten."""

from __future__ import annotations

import pytest

from nntrainer_py.tensor.operations.emitter import Emitter
from nntrainer_py.tensor.operations.record import Role


def _values(*shapes: tuple[int, ...]) -> tuple[Emitter, list[object]]:
    emitter = Emitter()
    return emitter, [emitter.value("x", shape, Role.INPUT) for shape in shapes]


@pytest.mark.parametrize("transpose_b", [False, True])
def test_an_inner_size_of_zero_is_refused(transpose_b: bool) -> None:
    emitter, (a, b) = _values((2, 1, 3, 0), (1, 1, 4, 0) if transpose_b else (1, 1, 0, 4))
    with pytest.raises(ValueError, match="there is nothing to add up"):
        emitter.run("matmul", a=a, b=b, transpose_b=transpose_b)


def test_a_gradient_of_no_rows_is_refused() -> None:
    emitter, (x, g) = _values((0, 1, 3, 5), (0, 1, 3, 4))
    with pytest.raises(ValueError, match="there is nothing to add up"):
        emitter.run("matmul_gradient", x=x, g=g)
