"""The HTML page in a browser: nothing wider than the screen, every plot drawn, the right one for screen and light."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hologram.benchmark.report import html, plots
from hologram.benchmark.report.records import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# What the page says of itself, once all of it is there; in a frame, as windows have a least width and frames none.
ASKED = """<script>addEventListener("load", () => parent.postMessage({
  width: innerWidth, needs: document.documentElement.scrollWidth,
  ink: getComputedStyle(document.body).color,
  pictures: [...document.images].map(i => ({
    shown: i.complete && i.naturalWidth > 0, width: i.clientWidth, height: i.clientHeight,
    which: [...i.parentNode.querySelectorAll("source")].map(s => s.srcset).indexOf(i.currentSrc) })),
}, "*"))</script>"""
FRAME = """<meta name="color-scheme" content="light dark"><pre></pre>
<iframe src="asked.html" width="WIDTH" height="900" style="border: 0"></iframe>
<script>addEventListener("message", m => document.querySelector("pre").textContent = JSON.stringify(m.data))</script>"""
# The sources of a picture; on paper and wide light screens it is the same.
LIGHT, DARK_NARROW, NARROW, DARK = range(4)


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    drawn = list(plots.plots(report))
    text = html.page(report, drawn)
    assert text.count("<figure") == len(drawn) == 3
    assert not re.findall(r'(?:src|href|srcset)="(?!data:)[^"]*"', text), "the page needs something else"
    (folder / "asked.html").write_text(text.replace("</body>", ASKED + "</body>"), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)])
def test_the_page_in_a_browser(width: int, dark: bool, page: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("there is no chromium")
    (page / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width + 100},1000"]
    command += [
        f"--user-data-dir={page / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
    ]
    command += ["--virtual-time-budget=20000", "--dump-dom", (page / "frame.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout.partition("<pre>")[2].partition("</pre>")[0])
    assert found["width"] == width
    assert found["needs"] <= width, "the page is wider than the screen"
    wanted = (DARK_NARROW if dark else NARROW) if width < 640 else (DARK if dark else LIGHT)
    assert len(found["pictures"]) == 3
    for picture in found["pictures"]:
        assert picture["shown"]
        assert picture["which"] == wanted
        assert min(width - 60, 700) <= picture["width"] <= width
        assert picture["height"] > 150
    light = sum(map(int, re.findall(r"\d+", found["ink"])[:3])) > 3 * 128
    assert light is dark
