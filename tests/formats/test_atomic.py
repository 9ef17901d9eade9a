"""Atomic writing takes the place of regular files only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nntrainer_py.errors import WeightFileError
from nntrainer_py.formats.atomic import write_atomically


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path, linked: bool) -> None:
    # a device such as /dev/null would be lost to the whole machine where root writes weights there
    pipe = target = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        target = tmp_path / "link"
        target.symlink_to(pipe)
    with pytest.raises(WeightFileError, match="is not a regular file"):
        write_atomically(target, [b"weights"])
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert target.is_symlink() == linked
    assert sorted(path.name for path in tmp_path.iterdir()) == (["link", "pipe"] if linked else ["pipe"])
