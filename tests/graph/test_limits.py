"""Sizes that nobody can mean: an honest figure or a clean error with its line, never an overflow or a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import command
from keyword_rows import LAYER_ROWS

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph import limits
from nntrainer_py.graph.limits import require_addressable_values
from nntrainer_py.memory.machine import machine_memory

MODEL = """\
[Model]
loss = mse
batch_size = 32
[Optimizer]
type = sgd
[in]
type = input
input_shape = {shape}
[mid]
{layer}
"""
FLATTEN, POOLING = "type = flatten", "type = pooling2d\npooling = max\npool_size = 2,2"


def write(folder: Path, text: str) -> Path:
    path = folder / "model.ini"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("shape", "layer", "outputs"),
    [("1:100000:100000", FLATTEN, [10**10]), ("3:30000:30000", POOLING, [3 * 29999 * 29999, 3 * 30000**2])],
)
def test_a_figure_beyond_the_machine_is_told_with_a_warning(
    shape: str, layer: str, outputs: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write(tmp_path, MODEL.format(shape=shape, layer=layer))
    found = json.loads(command(capsys, "train", "--check", ini, "--json").out)
    assert found["memory"]["arena"] >= 32 * 4 * sum(outputs)
    (note,) = found["notes"]
    assert re.fullmatch(r"the planned memory, [0-9.]+ TiB, is more than this machine has \([0-9.]+ [MGT]iB\)", note)
    assert f"note: {note}" in command(capsys, "train", "--check", ini).out
    assert f"warning: {note}" in command(capsys, "inspect", ini).err


def test_no_warning_where_it_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = machine_memory()
    assert there is not None
    assert there > 1 << 24
    ini = write(tmp_path, MODEL.format(shape="1:10:10", layer=FLATTEN))
    assert json.loads(command(capsys, "train", "--check", ini, "--json").out)["notes"] == []


@pytest.mark.parametrize(
    ("shape", "layer", "place"),
    [
        ("1000000:1000000:1000000", FLATTEN, ":6: [in] input: a tensor of 32:1000000:1000000:1000000"),
        ("4000000000:4000000000:4000000000", FLATTEN, ":6: [in] input: a tensor of 32:4000000000"),
        ("1:1:1000000", "type = fully_connected\nunit = 4000000000", ":9: [mid] fully_connected: a tensor of "),
    ],
)
def test_what_nobody_can_address_is_refused_at_its_layer(
    shape: str, layer: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write(tmp_path, MODEL.format(shape=shape, layer=layer))
    for module in (("train", "--check"), ("inspect",)):
        done = command(capsys, *module, ini)
        assert done.code == 2
        assert f"{ini}{place}" in done.err
        assert "more than a process can address" in done.err


def test_what_a_layer_computes_on_its_way_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ini = write(tmp_path, MODEL.format(shape="1:10:10", layer="type = fully_connected\nunit = 5"))
    operations = Model.from_ini(ini).compile(threads=1).lowered("train").operations
    require_addressable_values(operations)
    monkeypatch.setattr(limits, "MOST_BYTES", 32 * 4 * 50 - 1)
    with pytest.raises(
        DescriptionError, match=re.escape(f"{ini}:9: [mid] matmul: a tensor of 32:1:10:5 takes 6.4e+03")
    ):
        require_addressable_values(operations)


@pytest.mark.parametrize("factor", [10**4, 10**8])
@pytest.mark.parametrize("keyword", LAYER_ROWS)
def test_every_layer_with_absurd_inputs(
    keyword: str, factor: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes, properties = LAYER_ROWS[keyword]
    names = [f"in{number}" for number, _ in enumerate(shapes.split())]
    text = "[Model]\nbatch_size = 8\n[Optimizer]\ntype = sgd\n"
    for name, shape in zip(names, shapes.split(), strict=True):
        huge = ":".join(str(int(size) * factor) for size in shape.split(":")[1:])
        text += f"[{name}]\ntype = input\ninput_shape = {shape.split(':')[0]}:{huge}\n"
    above = f"input_layers = {', '.join(names)}\n" if names else ""
    text += f"[it]\ntype = {keyword}\n{above}{properties}\n[loss]\ntype = mse\n"
    done = command(capsys, "train", "--check", write(tmp_path, text), "--json")
    assert done.code in (0, 2), done.err
    assert "internal error" not in done.err
    if done.code == 0:
        memory = json.loads(done.out)["memory"]
        assert 0 <= memory["lower_bound"] <= memory["arena"]
        assert memory["arena"] <= 1.02 * memory["lower_bound"]
