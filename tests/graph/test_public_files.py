"""NNTrainer's public model files: each is accepted, or refused with every word named that is not supported."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared import shared_files

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_ini
from nntrainer_py.graph.ini import read
from nntrainer_py.graph.order import arrange
from nntrainer_py.graph.save import to_text

#: file name without ending -> what it is refused for; all others are accepted
REFUSED = {
    "test__test_models__models__mnist_inf": [
        "9: [mnist] backbone: 'mnist.ini' cannot be read: No such file or directory"
    ],
    "test__test_models__models__simple_fc": [" a [Model] section is required"],
    "test__test_models__models__simple_fc_backbone": [
        "2: [] backbone: 'simple_fc.ini' cannot be read: No such file or directory",
        " a [Model] section is required",
    ],
}
#: keys that these files hold without effect
SILENT = {"type", "tensor_format", "learning_rate", "labeldata", "input_shape"}


def _refusals(path: Path) -> list[str]:
    try:
        load_ini(path)
    except DescriptionError as error:
        return [str(fault).replace(f"{path}:", "", 1).replace(str(path), "") for fault in error.faults]
    return []


@pytest.mark.parametrize("path", shared_files("ini/*.ini") + shared_files("parity/*.ini"), ids=lambda path: path.stem)
def test_u011_public_files(path: Path) -> None:
    """U011: no file crashes, and none is accepted with a key ignored in silence."""
    found = _refusals(path)
    assert found == REFUSED.get(path.stem, []), found
    if found:
        return
    spec = load_ini(path)
    assert {notice.key for notice in spec.notices} <= SILENT
    assert all(notice.line > 0 for notice in spec.notices)
    ini = read(path)
    warned = {(notice.line, notice.key) for notice in spec.notices}
    used = len(spec.model.explicit()) + sum(len(made.layer.explicit()) + 1 for made in spec.layers)
    used += sum(len(section.entries) for section in spec.sections.values())
    for configured in (spec.optimizer, spec.scheduler):
        used += len(configured.explicit()) + 1 if configured is not None else 0
    written = [(entry.line, entry.key) for section in ini.sections for entry in section.entries]
    # each key is warned of, or is in one of the properties; the older forms say some things twice or leave the type out
    assert len(written) <= used + len(warned)
    assert arrange(spec, True).nodes
    again = to_text(spec)
    assert again.count("\n[") + 1 >= len(spec.layers)
