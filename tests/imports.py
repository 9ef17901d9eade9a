"""The direction of imports: the rooms of the package in falling order, and a reader that finds what climbs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "nntrainer_py"

# From the ground up. A room may import what stands on a lower floor, and from its own floor without going in a circle.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "plugins", "properties", "registry", "version"),
    ("tensor",),
    ("memory",),
    ("layers",),
    ("losses", "optimizers"),
    ("graph",),
    ("data", "formats"),
    ("training",),
    ("model", "estimators", "personalization", "compression"),
    # The package's own face lists the public names of all rooms; only the command line may look at it.
    ("__init__",),
    ("cli", "__main__"),
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


@dataclass(frozen=True)
class Import:
    """One import of a room of the package: where it is written and what it wants."""

    file: str
    line: int
    importer: str
    imported: str


def room_of(path: Path, package_folder: Path) -> str:
    """Return the room that a file of the package belongs to: its first folder, or its own name at the top."""
    first = path.relative_to(package_folder).parts[0]
    return first.removesuffix(".py")


def _dotted_names(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a statement imports, wherever it stands: at the top, in a function, for types."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            # Relative imports would make a second door to every room; the package uses absolute ones throughout.
            yield f"{PACKAGE}.<relative>"
        elif node.module == PACKAGE:
            yield from (f"{PACKAGE}.{alias.name}" for alias in node.names)
        elif node.module:
            yield node.module
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
            yield node.args[0].value


def imports_of(source: str, file: str, importer: str) -> list[Import]:
    """Return every import of a room of the package in ``source``.

    ``from nntrainer_py import name`` counts as an import of the room ``name`` where there is one, else of the face.
    """
    found = []
    for node in ast.walk(ast.parse(source, filename=file)):
        for dotted in _dotted_names(node):
            parts = dotted.split(".")
            if parts[0] != PACKAGE:
                continue
            room = parts[1] if len(parts) > 1 else "__init__"
            if room not in FLOOR_OF and room != "<relative>" and isinstance(node, ast.ImportFrom):
                room = "__init__" if node.module == PACKAGE else room
            found.append(Import(file, getattr(node, "lineno", 0), importer, room))
    return found


def faults(imports: list[Import]) -> list[str]:
    """Return one line per import that climbs, goes in a circle on its floor, is relative, or names no known room."""
    lines = []
    same_floor: dict[tuple[str, str], Import] = {}
    for one in imports:
        where = f"{one.file}:{one.line}: {one.importer} imports {one.imported}"
        if one.importer == one.imported:
            continue
        if one.imported == "<relative>":
            lines.append(f"{where}: imports inside the package are absolute")
        elif one.importer not in FLOOR_OF or one.imported not in FLOOR_OF:
            lines.append(f"{where}: a room without a floor")
        elif FLOOR_OF[one.importer] < FLOOR_OF[one.imported]:
            lines.append(f"{where}, which stands above it")
        elif FLOOR_OF[one.importer] == FLOOR_OF[one.imported]:
            same_floor[one.importer, one.imported] = one
            if (one.imported, one.importer) in same_floor:
                back = same_floor[one.imported, one.importer]
                lines.append(f"{where}, and {back.file}:{back.line} imports it back")
    return lines


def imports_of_package(package_folder: Path) -> list[Import]:
    """Return every import of the package's own rooms in all its files."""
    found = []
    for path in sorted(package_folder.rglob("*.py")):
        file = str(path.relative_to(package_folder.parent))
        found += imports_of(path.read_text(encoding="utf-8"), file, room_of(path, package_folder))
    return found
