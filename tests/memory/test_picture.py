"""The picture of a plan: files of every kind, what is in them, and errors that say what to do."""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path

import pytest
from memory.request_sets import convolution_sizes, training_step

from nntrainer_py.errors import MissingExtraError, UsageError
from nntrainer_py.memory.planner import Request, place

pytest.importorskip("matplotlib")

from nntrainer_py.memory.picture import draw

REQUESTS = training_step(convolution_sizes(12, random.Random(8)), random.Random(9))


def svg_of(path: Path, requests: list[Request], **options: object) -> str:
    """The drawing as SVG with its texts left as text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        draw(requests, place(requests), path, **options)  # type: ignore[arg-type]
    return path.read_text(encoding="utf-8")


def test_png_has_colours_and_the_red_of_the_peak(tmp_path: Path) -> None:
    from matplotlib import image

    path = tmp_path / "plan.png"
    draw(REQUESTS, place(REQUESTS), path, title="twelve convolutions", phases=[("forward", 0), ("backward", 12)])
    pixels = image.imread(path)
    assert pixels.shape[0] >= 600
    assert pixels.shape[1] >= 1000
    crimson = (abs(pixels[..., :3] - [0.863, 0.078, 0.235]) < 0.02).all(axis=-1)
    assert crimson.sum() > 200  # the two edges of the peak's operation run over the whole height


def test_texts_name_figures_phases_and_the_largest(tmp_path: Path) -> None:
    placement = place(REQUESTS)
    text = svg_of(tmp_path / "plan.svg", REQUESTS, title="a title", phases=[("backward pass", 12)], labels=5)
    assert "a title" in text
    assert f"ratio {placement.ratio:.4f} ({placement.method})" in text
    assert "backward pass" in text
    assert "alive at operation" in text
    largest = sorted(REQUESTS, key=lambda request: -request.size)
    for request in largest[:5]:
        assert f"{request.first}-{request.last}  {request.name}" in text
    smallest = largest[-1]
    assert f"{smallest.first}-{smallest.last}  {smallest.name}" not in text


def test_one_box_for_each_buffer_that_has_bytes(tmp_path: Path) -> None:
    few = [Request(64, 0, 0, "a"), Request(64, 1, 1, "b"), Request(0, 0, 1, "empty")]
    one, two = svg_of(tmp_path / "1.svg", few[:1]), svg_of(tmp_path / "2.svg", few)
    boxes = [text.split('id="PatchCollection_1"')[1].split("</g>")[0].count("<path") for text in (one, two)]
    assert boxes == [1, 2]


def test_pdf_and_a_name_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "PLAN.PDF"
    draw(REQUESTS, place(REQUESTS), str(path))
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    "requests",
    [[], [Request(0, 0, 0)], [Request(1, 5, 5, "$\\frac{$ _^")], [Request(1 << 33, 0, 3, "x" * 300)]],
    ids=["none", "no bytes", "signs of TeX", "long name"],
)
def test_odd_plans_are_drawn_without_a_warning(requests: list[Request], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(requests, place(requests), tmp_path / "odd.png", title="$odd_")
    assert (tmp_path / "odd.png").stat().st_size > 1000


def test_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"plan\.doc': expected a file ending in one of .*png"):
        draw(REQUESTS[:3], place(REQUESTS[:3]), tmp_path / "plan.doc")


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*No such file"):
        draw(REQUESTS[:3], place(REQUESTS[:3]), tmp_path / "nowhere" / "plan.png")


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"nntrainer_py\[plot\]"):
        draw(REQUESTS[:3], place(REQUESTS[:3]), tmp_path / "plan.png")


def test_offsets_of_other_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 requests, but 3 offsets"):
        draw(REQUESTS[:2], place(REQUESTS[:3]), tmp_path / "plan.png")
