"""3x3 convolution of stride 1 by Winograd's transforms: forward, input derivative, weight gradient (float32, NCHW).

Tiles of ``size`` x ``size`` outputs (4 or 2) turn into ``(size + 2)^2`` matrix products over the channels.  Images are
turned into vectors of LANES channels by register transposes, transformed, multiplied on the register tile, transformed
back and turned again.  Channels and filters must be multiples of CHANNELS, padding at most 2 a side.

The work goes chunk by chunk of tiles and block by block of filters, so that the scratch is bounded (``plan``).  A
tile's result depends on neither its chunk nor its neighbours.  Errors relative to the largest result, measured
against float64 with 32 to 1024 channels: 3e-7 to 1.4e-6 for size 2, 1.3e-6 to 7.6e-6 for size 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.micro_kernel import LANES, ROWS
from nntrainer_py.tensor.kernels.winograd_phases import (
    add_groups_part,
    gradient_multiply_part,
    multiply_part,
    outputs_part,
    tiles_part,
    weights_back_part,
    weights_part,
)

Array = npt.NDArray[np.float32]
Cut = npt.NDArray[np.int64]

CHANNELS = 32  # channels and filters come in multiples of this
_RESIDENT = 2_500_000  # bytes: transformed weights up to this are made once and kept for all chunks
_NEAR = 1_200_000  # bytes of transformed tiles worked on at a time, about the second cache
_WIDEST = 3_500_000  # bytes of one transformed row of tiles
_GROUPS = 4  # sums of a weight gradient that are formed apart, so that as many threads need not wait for each other
_GROUP_TILES = 64  # tiles that a group of a weight gradient has at least: below this adding the groups costs too much
_PAD = LANES  # floats between the planes of a transformed array: planes 4 KiB apart would share one set of the cache


class Plan(NamedTuple):
    """How a product is cut: ``rows`` of tiles per chunk, ``filters`` per block, floats of the pieces of the scratch.

    With as many filters per block as there are, the transformed weights stay and each part does chunks of its own, in
    one of ``copies`` of the transformed tiles. Otherwise all parts share each phase of a chunk.
    """

    rows: int
    filters: int
    weights: int
    inputs: int
    outputs: int
    slab: int  # for each part
    copies: int
    parts: int

    @property
    def nbytes(self) -> int:
        return 4 * (self.weights + self.copies * (self.inputs + self.outputs) + self.parts * self.slab)


def _slab(height: int, width: int, rows: int, size: int) -> int:
    """Floats of one part's turned image rows for ``rows`` rows of tiles, or of its turned weights."""
    image = min(height, rows * size + 2) * width
    return (max(image, 9 * LANES) + LANES + (size + 2) ** 2) * LANES


def _tile_rows(tiles: int, across: int, batch: int, down: int) -> int:
    return max(1, min(tiles // across, batch * down))


def fits(channels: int, filters: int, width: int, size: int) -> bool:
    """Whether one row of tiles, the least that can be done at a time, keeps the scratch within about 8 MB."""
    return 4 * (size + 2) ** 2 * -(-width // size) * max(channels, filters) <= _WIDEST


def product_plan(inner: int, outer: int, batch: int, height: int, width: int, size: int, parts: int) -> Plan:
    """Plan of ``product`` for ``inner`` channels summed over, ``outer`` made, outputs of ``height`` x ``width``."""
    planes = (size + 2) ** 2
    down, across = -(-height // size), -(-width // size)
    private = 4 * planes * across * (inner + outer) <= 2 * _NEAR or parts == 1
    if 4 * planes * inner * outer <= _RESIDENT and private:
        block, copies = outer, parts
        tiles = min(_NEAR, max(2 * _NEAR // parts, _NEAR // 3)) // (4 * planes * (inner + outer))
        rows = min(_tile_rows(max(tiles, ROWS), across, batch, down), -(-batch * down // parts))
    else:
        block, copies = CHANNELS, 1
        rows = _tile_rows(max(2 * _NEAR // (4 * planes * inner), ROWS), across, batch, down)
    tiles = rows * across
    weights, inputs, outputs = inner * block + _PAD, tiles * inner + _PAD, tiles * block + _PAD
    slab = _slab(height + 2, width + 2, rows, size)
    return Plan(rows, block, planes * weights, planes * inputs, planes * outputs, slab, copies, parts)


class GradientPlan(NamedTuple):
    """As ``Plan``, for ``gradient``: ``channels`` x ``filters`` of the weight are made at a time.

    The chunks are dealt to ``groups`` that are summed apart and then added. With more than one each part does groups
    of its own, in one of ``copies`` of the transformed tiles; otherwise all parts share each phase of a chunk. The
    order of summation follows from the plan, so it must not depend on the number of threads (``parts`` and ``copies``
    add room only).
    """

    rows: int
    channels: int
    filters: int
    weights: int
    inputs: int
    outputs: int
    slab: int
    groups: int
    copies: int
    parts: int

    @property
    def nbytes(self) -> int:
        pieces = self.groups * self.weights + self.copies * (self.inputs + self.outputs) + self.parts * self.slab
        return 4 * pieces


def gradient_plan(
    channels: int, filters: int, batch: int, height: int, width: int, size: int, parts: int
) -> GradientPlan:
    """Plan of ``gradient`` for a weight [filters, channels, 3, 3] and outputs of ``height`` x ``width``."""
    planes = (size + 2) ** 2
    down, across = -(-height // size), -(-width // size)
    every = batch * down * across
    groups = 1
    if 4 * planes * channels * filters <= _RESIDENT:
        some, block, tiles = channels, filters, _NEAR // (4 * planes * (channels + filters))
        if 4 * planes * across * (channels + filters) <= _NEAR:  # a row of tiles for each part takes little room
            groups = max(1, min(every // _GROUP_TILES, 1 + _RESIDENT // (4 * planes * channels * filters), _GROUPS))
    elif 4 * planes * channels * every <= _RESIDENT:
        some, block, tiles = channels, CHANNELS, every
    else:
        some, block = min(channels, 4 * CHANNELS), min(filters, 4 * CHANNELS)
        while channels % some:
            some -= CHANNELS
        while filters % block:
            block -= CHANNELS
        tiles = 2 * _NEAR // (4 * planes * (some + block))
    rows = min(_tile_rows(max(tiles, ROWS), across, batch, down), -(-batch * down // groups))
    tiles = rows * across
    weights, inputs, outputs = some * block + _PAD, tiles * some + _PAD, tiles * block + _PAD
    slab, copies = _slab(height + 2, width + 2, rows, size), min(groups, parts)
    pieces = planes * weights, planes * inputs, planes * outputs
    return GradientPlan(rows, some, block, *pieces, slab, groups, copies, parts)


@kernel()
def _chunks_part(
    part: int,
    parts: int,
    x: Array,
    bias: Array,
    rectify: int,
    out: Array,
    top: int,
    left: int,
    size: int,
    chunk: int,
    u: int,
    u_plane: int,
    scratch: int,
    inputs: int,
    outputs: int,
    slab_step: int,
) -> None:
    """Every ``parts``-th chunk of a product whose transformed weights ``u`` are all there."""
    inner, outer = x.shape[1], out.shape[1]
    down, across = (out.shape[2] + size - 1) // size, (out.shape[3] + size - 1) // size
    every = x.shape[0] * down
    v = scratch + part * (inputs + outputs + slab_step)
    m = v + inputs
    slab = m + outputs
    for first in range(part * chunk, every, parts * chunk):
        rows = min(chunk, every - first)
        tiles = rows * across
        v_plane, m_plane = tiles * inner + _PAD, tiles * outer + _PAD
        tiles_part(0, 1, size, 0, x, 0, inner, top, left, down, across, first, rows, v, v_plane, 0, slab, 0)
        multiply_part(0, 1, size, inner, outer, tiles, v, v_plane, u, u_plane, m, m_plane)
        outputs_part(0, 1, size, m, m_plane, out, bias, rectify, 0, outer, down, across, first, rows, slab, 0)


@kernel(forks=True)
def product(
    x: Array,
    w: Array,
    flip: int,
    bias: Array,
    rectify: int,
    out: Array,
    top: int,
    left: int,
    size: int,
    plan: Cut,
    scratch: Array,
    parts: int,
) -> None:
    """``out`` = convolution of ``x`` [N, inner, H, W] with ``w``, plus ``bias`` [outer] or nothing if it is empty.

    ``rectify``: negative results become 0.
    ``flip`` 0: forward, w [outer, inner, 3, 3]. ``flip`` 1: derivative, x is the output's gradient, w is [inner,
    outer, 3, 3] and the padding (top, left) is 2 minus the layer's. ``plan`` is ``product_plan`` as an int64 array,
    ``scratch`` has its ``nbytes``, for as many parts.
    """
    inner, outer = x.shape[1], out.shape[1]
    down, across = (out.shape[2] + size - 1) // size, (out.shape[3] + size - 1) // size
    chunk, block = plan[0], plan[1]
    inputs, outputs, step = 4 * plan[3], 4 * plan[4], 4 * plan[5]
    u = scratch.ctypes.data
    v = u + 4 * plan[2]
    m = v + inputs
    slab = m + outputs
    every = x.shape[0] * down
    u_plane = inner * block + _PAD
    if block == outer and plan[6] == parts:
        fork_join(weights_part, parts, (size, w, flip, 0, outer, inner, u, u_plane, v, step))
        sizes = (inputs, outputs, step)
        fork_join(_chunks_part, parts, (x, bias, rectify, out, top, left, size, chunk, u, u_plane, v, *sizes))
        return
    for first in range(0, every, chunk):
        rows = min(chunk, every - first)
        tiles = rows * across
        v_plane, m_plane = tiles * inner + _PAD, tiles * block + _PAD
        shape = (down, across, first, rows)
        fork_join(tiles_part, parts, (size, 0, x, 0, inner, top, left, *shape, v, v_plane, 0, slab, step))
        for o in range(0, outer, block):
            fork_join(weights_part, parts, (size, w, flip, o, block, inner, u, u_plane, slab, step))
            fork_join(multiply_part, parts, (size, inner, block, tiles, v, v_plane, u, u_plane, m, m_plane))
            fork_join(outputs_part, parts, (size, m, m_plane, out, bias, rectify, o, block, *shape, slab, step))


@kernel()
def _groups_part(
    part: int,
    parts: int,
    x: Array,
    dy: Array,
    top: int,
    left: int,
    size: int,
    chunk: int,
    groups: int,
    u: int,
    u_step: int,
    scratch: int,
    inputs: int,
    outputs: int,
    slabs: int,
    slab_step: int,
) -> None:
    """The sums of every ``parts``-th group; group g has every ``groups``-th chunk from chunk g on."""
    channels, filters = x.shape[1], dy.shape[1]
    down, across = (dy.shape[2] + size - 1) // size, (dy.shape[3] + size - 1) // size
    every, u_plane = x.shape[0] * down, channels * filters + _PAD
    v = scratch + part * (inputs + outputs)
    m = v + inputs
    slab = slabs + part * slab_step
    for group in range(part, groups, parts):
        for first in range(group * chunk, every, groups * chunk):
            rows = min(chunk, every - first)
            tiles = rows * across
            v_plane, m_plane = tiles * channels + _PAD, tiles * filters + _PAD
            tiles_part(0, 1, size, 0, x, 0, channels, top, left, down, across, first, rows, v, v_plane, 0, slab, 0)
            tiles_part(0, 1, size, 1, dy, 0, filters, 0, 0, down, across, first, rows, m, m_plane, 1, slab, 0)
            add = 1 if first > group * chunk else 0
            place = u + group * u_step
            gradient_multiply_part(0, 1, size, channels, filters, tiles, v, v_plane, m, m_plane, place, u_plane, add)


@kernel(forks=True)
def gradient(
    x: Array,
    dy: Array,
    dw: Array,
    top: int,
    left: int,
    size: int,
    accumulate: int,
    plan: Cut,
    scratch: Array,
    parts: int,
) -> None:
    """dw [filters, channels, 3, 3] (+)= gradient of the weight for input ``x`` and output gradient ``dy``.

    ``plan`` is ``gradient_plan`` as an int64 array, ``scratch`` has its ``nbytes``.
    """
    channels, filters = x.shape[1], dy.shape[1]
    down, across = (dy.shape[2] + size - 1) // size, (dy.shape[3] + size - 1) // size
    chunk, some, block = plan[0], plan[1], plan[2]
    groups, u_step, inputs, outputs = plan[7], 4 * plan[3], 4 * plan[4], 4 * plan[5]
    u = scratch.ctypes.data
    v = u + groups * u_step
    m = v + inputs
    slab, step = v + plan[8] * (inputs + outputs), 4 * plan[6]
    every = x.shape[0] * down
    u_plane = some * block + _PAD
    if groups > 1:
        work = min(parts, plan[8])
        sizes = (u, u_step, v, inputs, outputs, slab, step)
        fork_join(_groups_part, work, (x, dy, top, left, size, chunk, groups, *sizes))
        fork_join(add_groups_part, parts, (size, groups, u, u_step, u_plane))
        fork_join(weights_back_part, parts, (size, u, u_plane, dw, 0, some, 0, block, accumulate, slab, step))
        return
    if some == channels and block == filters:
        parts = 1  # too little for the threads to share
    for c in range(0, channels, some):
        for o in range(0, filters, block):
            for first in range(0, every, chunk):
                rows = min(chunk, every - first)
                tiles = rows * across
                v_plane, m_plane = tiles * some + _PAD, tiles * block + _PAD
                shape = (down, across, first, rows)
                if o == 0 or chunk < every:
                    fork_join(tiles_part, parts, (size, 0, x, c, some, top, left, *shape, v, v_plane, 0, slab, step))
                fork_join(tiles_part, parts, (size, 1, dy, o, block, 0, 0, *shape, m, m_plane, 1, slab, step))
                add = 1 if first > 0 else 0
                numbers = (size, some, block, tiles)
                fork_join(gradient_multiply_part, parts, (*numbers, v, v_plane, m, m_plane, u, u_plane, add))
            fork_join(weights_back_part, parts, (size, u, u_plane, dw, c, some, o, block, accumulate, slab, step))
