"""``nntrainer-train --check``: everything that training does before its first step, and without data."""

from __future__ import annotations

import json

from nntrainer_py.cli.layout import Layout, layer_table, memory_lines


def check(layout: Layout, name: str, *, as_json: bool, quiet: bool) -> int:
    """Print the layer table and the planned memory."""
    if as_json:
        record = layout.as_record()
        del record["picture"]
        record["memory"]["total"] = layout.memory.total
        record |= {"parameters": layout.parameters, "trainable_parameters": layout.trainable}
        print(json.dumps(record))
    elif not quiet:
        print(layer_table(layout), end="\n\n")
        print(memory_lines(layout))
        for note in layout.notes:
            print(f"\nnote: {note}")
        print(f"\n{name}: no fault was found")
    return 0
