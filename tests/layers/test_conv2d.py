"""conv2d through the harness: strides, paddings, dilations, groups, both sides of every algorithm's border."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.conv2d import Conv2D


def _conv(**properties: object) -> Conv2D:
    return Conv2D(**{"filters": 4, "kernel_size": (3, 3), **properties})


CASES = [
    Case(lambda: _conv(), [(2, 3, 6, 7)], "plain"),
    Case(lambda: _conv(filters=1, kernel_size=(1, 1)), [(1, 1, 1, 1)], "one of each"),
    Case(lambda: _conv(kernel_size=(1, 1)), [(2, 5, 4, 3)], "1x1"),
    Case(lambda: _conv(kernel_size=(1, 1), stride=(2, 2)), [(2, 5, 5, 4)], "1x1 with stride"),
    Case(lambda: _conv(kernel_size=(2, 3), padding="1,0,2,1", stride=(2, 1)), [(2, 3, 5, 6)], "four sides"),
    Case(lambda: _conv(dilation=(2, 1), padding="same"), [(2, 2, 7, 6)], "dilation"),
    Case(lambda: _conv(stride=(3, 2), padding="same"), [(3, 2, 8, 7)], "stride beyond the kernel's middle"),
    Case(lambda: _conv(stride=(4, 4), kernel_size=(2, 2)), [(2, 2, 9, 9)], "stride beyond the kernel"),
    Case(lambda: _conv(groups=2, filters=6), [(2, 4, 5, 5)], "groups"),
    Case(lambda: _conv(groups=4, filters=4, padding="same"), [(2, 4, 6, 5)], "depthwise"),
    Case(
        lambda: _conv(groups=3, filters=6, padding="same", stride=(2, 2)), [(1, 3, 6, 5)], "depthwise, two filters each"
    ),
    Case(lambda: _conv(disable_bias=True), [(2, 3, 5, 5)], "no bias"),
    Case(
        lambda: _conv(filters=32, padding="same"), [(2, 32, 9, 7)], "winograd takes over", numeric=False, tolerance=5e-5
    ),
    Case(
        lambda: _conv(filters=40, padding="same"),
        [(3, 33, 8, 8)],
        "not a multiple of a panel",
        numeric=False,
        tolerance=5e-5,
    ),
    Case(lambda: _conv(filters=64, padding="same"), [(4, 64, 16, 16)], "two threads", numeric=False, tolerance=5e-5),
    Case(lambda: _conv(filters=6, kernel_size=(5, 5)), [(4, 1, 28, 28)], "first layer of a digit net", numeric=False),
    Case(lambda: _conv(filters=64, padding="same"), [(2, 3, 32, 32)], "first layer of a picture net", numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("kernel", range(1, 6))
@pytest.mark.parametrize("padding", ["valid", "same", "1", "2,1"])
def test_u026_gradient_has_the_shape_of_the_weight(kernel: int, padding: str) -> None:
    """Any stride, dilation and size: right gradients, none of which knows the batch size."""
    for size, stride, dilation in itertools.product((5, 7), (1, 2, 3), (1, 2)):
        extent = (kernel - 1) * dilation + 1
        if (padding == "valid" and extent > size) or (padding != "same" and extent > size + 2):
            continue
        window = {"kernel_size": (kernel, kernel), "stride": (stride, stride), "dilation": (dilation, 1)}
        check(Case(partial(_conv, filters=2, padding=padding, **window), [(2, 2, size, size)]))
