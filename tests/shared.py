"""Where the shared reference files are: recorded runs, conformance cases, public model files.

They are not part of this repository. The environment variable ``NNTRAINER_SHARED`` names their folder. Unset: tests
that need them are skipped, and the terminal summary says how many. Set, and the file is not there: the test fails,
because a mistyped folder must not look like a pass.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "NNTRAINER_SHARED"
SKIP_REASON = f"needs the shared reference files ({VARIABLE} is not set)"


def shared_folder() -> Path | None:
    """Return the folder that ``NNTRAINER_SHARED`` names, or None where it is unset or empty.

    Raises FileNotFoundError where it is set and is no folder.
    """
    value = os.environ.get(VARIABLE, "")
    if not value:
        return None
    folder = Path(value).resolve()
    if not folder.is_dir():
        raise FileNotFoundError(f"{VARIABLE} is set to {value!r}, which is no folder")
    return folder


def shared_path(*parts: str) -> Path:
    """Return the path of a shared file or folder; skip the calling test where there are none, fail where it is missing.

    To be called inside a test or a fixture. For parametrization at import time see :func:`shared_files`.
    """
    folder = shared_folder()
    if folder is None:
        pytest.skip(SKIP_REASON)
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.fail(f"{VARIABLE} is set, but {'/'.join(parts)} is not there")
    return path


def shared_files(pattern: str) -> list[Path]:
    """Return the shared files that match ``pattern`` (relative, as in ``ini/*.ini``), sorted, for parametrization.

    Empty where ``NNTRAINER_SHARED`` is unset: pytest then skips the parametrized test. Raises FileNotFoundError where
    it is set and nothing matches.
    """
    folder = shared_folder()
    if folder is None:
        return []
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{VARIABLE} is set, but nothing matches {pattern}")
    return found
