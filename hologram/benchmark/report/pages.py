"""The files of a report: JSON, Markdown, and, where the libraries of the extra `bench` are, plots and the HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from hologram.benchmark.report import html, markdown, plots
from hologram.benchmark.report.records import Report

REQUIRED = ("matplotlib", "jinja2")  # the extra `bench`


def missing() -> str:
    """What is not installed of what plots and the HTML page need, nothing where all of it is."""
    return " and ".join(name for name in REQUIRED if find_spec(name) is None)


def write(report: Report, folder: Path, *, drawn: bool = True) -> Iterator[Path]:
    """Writes them one after the other, the measurements first; what is `drawn` takes seconds."""
    report.save(folder / "report.json")
    yield folder / "report.json"
    (folder / "report.md").write_text(markdown.page(report), encoding="utf-8")
    yield folder / "report.md"
    if not drawn or missing():
        return
    drawings = list(plots.plots(report))
    for plot in drawings:
        path = folder / f"{plot.stem}.png"
        path.write_bytes(plot.png())
        yield path
    (folder / "report.html").write_text(html.page(report, drawings), encoding="utf-8")
    yield folder / "report.html"
