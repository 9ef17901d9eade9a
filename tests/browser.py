"""A real browser for tests: headless Chromium (Debian package chromium), where there is one."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium (Debian package chromium)")


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page.

    Attributes:
        complaints: the lines of its console.
        asked: addresses that the page itself asked for.
        picture: a screenshot, PNG.
    """

    complaints: list[str]
    asked: set[str]
    picture: Path


def browse(page: Path, folder: Path) -> Seen:
    """Open a page; ``folder`` is made for the browser's own files."""
    assert BROWSER is not None
    folder.mkdir()
    network, picture = folder / "network.json", folder / "page.png"
    words = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", f"--log-net-log={network}",
        "--enable-logging=stderr", "--window-size=1200,2600", f"--screenshot={picture}", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert picture.is_file(), done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG"), done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    asked = set()
    for line in network.read_text(encoding="utf-8").splitlines():
        if '"url":' in line and '"initiator":' in line:
            parameters = json.loads(line.rstrip().rstrip(",").removesuffix("]}"))["params"]
            # the browser's own housekeeping has no initiator
            if parameters["initiator"] != "not an origin":
                asked.add(parameters["url"])
    return Seen(complaints, asked, picture)


def colours(picture: Path) -> dict[tuple[int, int, int], int]:
    """How often each colour (red, green, blue) is in a picture."""
    image = pytest.importorskip("PIL.Image", reason="needs the extra images")
    with image.open(picture) as opened:
        found = opened.convert("RGB").getcolors(1 << 24)
    return {colour: count for count, colour in found}
