"""nntrainer-report: one page, whole in itself; a real browser opens it without a complaint or a request."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path

import pytest
from browser import browse, colours, needs_browser
from commands import command, write_problem


class _Page(html.parser.HTMLParser):
    """Elements, addresses and text of a page; fails on tags that are not closed in order."""

    VOID = ("meta", "link", "br", "img", "hr", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def ids(self) -> set[str]:
        return {value for _, attrs in self.found if (value := attrs.get("id"))}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    ini = write_problem(tmp_path / 'work <b>&amp;"', name="net <i>.ini")
    assert command(capsys, "train", ini, "--out", tmp_path / "run", "--quiet").code == 0
    return tmp_path / "run"


def test_the_page_is_whole_in_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "report", run)
    assert (done.code, done.err) == (0, "")
    text = (run / "report.html").read_text(encoding="utf-8")
    page = _Page(text)
    tags = [tag for tag, _ in page.found]
    assert not {"script", "img", "iframe", "object", "form", "a"} & set(tags)
    for tag, attrs in page.found:
        for name in ("src", "href", "action", "xlink:href"):
            assert attrs.get(name) in (None, "data:,"), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs)
    assert "//" not in re.sub(r"<pre>.*</pre>", "", text, flags=re.S)
    assert "url(" not in text
    assert "@import" not in text
    assert {"curves", "confusion", "memory"} <= page.ids()
    words = " ".join(page.texts)
    for word in ("net <i>.ini", "hidden", "fully_connected", "Description", "batch_size = 16", "seed"):
        assert word in words, word


def test_the_numbers_of_the_page_are_those_of_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "report", run).code == 0
    text = (run / "report.html").read_text(encoding="utf-8")
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    assert f"{100 * result['final']['valid_accuracy']:.2f} %" in text
    lines = re.findall(r'<polyline class="line (\w+)" points="([^"]*)"', text)
    assert [len(points.split()) for _, points in lines] == [3] * 5  # loss and accuracy twice, learning rate
    cells = [int(found) for found in re.findall(r"taken for [^:]*: (\d+)</title>", text)]
    assert cells == [count for row in evaluation["confusion"] for count in row]
    layout = json.loads((run / "layout.json").read_text(encoding="utf-8"))
    assert text.count('<rect class="box"') == sum(box[1] > 0 for box in layout["picture"]["boxes"])


def test_out_and_folders_that_are_no_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "report", run, "--out", tmp_path / "page.html").code == 0
    assert (tmp_path / "page.html").is_file()
    assert not (run / "report.html").exists()
    assert command(capsys, "report", tmp_path / "nowhere").code == 2
    assert command(capsys, "report", tmp_path).code == 2
    assert command(capsys, "report", run, "--out", tmp_path / "no" / "page.html").code == 3
    (run / "layout.json").write_text('{"model": 1}', encoding="utf-8")
    assert command(capsys, "report", run).code == 3
    (run / "layout.json").unlink()
    (run / "evaluation.json").unlink()
    assert command(capsys, "report", run).code == 0


@needs_browser
def test_a_browser_opens_it_without_complaint_or_request(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(capsys, "report", run).code == 0
    seen = browse(run / "report.html", tmp_path / "browser")
    assert seen.complaints == []
    assert seen.asked == set()
    # something is drawn: lines, boxes of many colours
    assert len(colours(seen.picture)) > 200


@needs_browser
def test_the_browser_would_notice(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://example.invalid/x.png"><script>nowhere()</script>', encoding="utf-8")
    seen = browse(page, tmp_path / "browser")
    assert any("nowhere" in line for line in seen.complaints)
    assert seen.asked == {"http://example.invalid/x.png"}
