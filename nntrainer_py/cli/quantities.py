"""Numbers as people read them: bytes, counts, times, figures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

#: figures of an epoch that are fractions and read better as percentages
_PERCENT = ("accuracy",)


def amount(size: float) -> str:
    """Bytes with the unit that fits: ``1.50 MiB``."""
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{int(size)} B"


def duration(seconds: float) -> str:
    """``0.25 s``, ``12.3 s``, ``4 min 5 s``, ``1 h 2 min``."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def figure(name: str, value: float) -> str:
    """``accuracy 98.22 %``, ``loss 0.0612``."""
    if name.removeprefix("valid_") in _PERCENT:
        return f"{name} {100 * value:.2f} %"
    return f"{name} {value:.4g}" if value == 0 or 1e-4 <= abs(value) < 1e5 else f"{name} {value:.3e}"


def figures(values: Mapping[str, float | None], prefix: str = "") -> str:
    """Several, separated by commas; those that are None are left out."""
    return ", ".join(figure(prefix + name, value) for name, value in values.items() if value is not None)


def shape(sizes: Sequence[int]) -> str:
    """The shape of a sample as the INI writes it, ``1:28:28``."""
    return ":".join(map(str, sizes))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lines of aligned columns in plain ASCII rules; ``right`` are the columns aligned to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
