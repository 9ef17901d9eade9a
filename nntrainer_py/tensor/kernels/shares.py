"""What each part of a kernel does: whole units of a flat array, or of the rows, planes or channels of another."""

from __future__ import annotations

from nntrainer_py.tensor.kernels.compile import kernel

CHUNK = 16384  # elements of a flat array that stay together: 64 KiB an array, inside the second cache


@kernel()
def share(part: int, parts: int, size: int, unit: int) -> tuple[int, int]:
    """First and last (exclusive) of ``size`` things that part ``part`` of ``parts`` does.

    Cut only at multiples of ``unit``: where that is a multiple of any vector's length, the elements that a loop does
    one by one after its vectors are those at the end of the whole array, whatever the number of parts.
    """
    units = (size + unit - 1) // unit
    return part * units // parts * unit, min((part + 1) * units // parts * unit, size)
