"""Put the performance table into the README: ``python benchmarks/readme_table.py`` reads results.md beside this file.

Replaces what stands between ``<!-- performance -->`` and ``<!-- /performance -->``. With ``--check`` nothing is written
and the exit code says whether the table is current.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- performance -->", "<!-- /performance -->"
SECTIONS = ("Training step", "Peak resident memory in training", "Inference")


def section(results: str, title: str) -> str:
    """The table under a heading of the results; empty where it was not measured."""
    found = re.search(rf"^## {re.escape(title)}\n\n((?:\|.*\n)+)", results, re.MULTILINE)
    return found.group(1) if found else ""


def table(results: str) -> str:
    """What belongs between the marks."""
    lines = results.splitlines()
    parts = [line for line in lines[2:4] if line]
    for title in SECTIONS:
        rows = section(results, title)
        if rows:
            parts += ["", f"**{title}**", "", rows.rstrip()]
    return "\n".join(parts)


def updated(readme: str, results: str) -> str:
    """The README with the table; ValueError where the marks are missing."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"the README needs one {BEGIN} and one {END}")
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readme", type=Path, default=HERE.parent / "README.md")
    parser.add_argument("--results", type=Path, default=HERE / "results.md")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    readme = given.readme.read_text(encoding="utf-8")
    made = updated(readme, given.results.read_text(encoding="utf-8"))
    if given.check:
        return int(made != readme)
    given.readme.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
