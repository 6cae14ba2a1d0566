"""A report as one HTML file that needs nothing else: pictures inside, light and dark, wide and narrow."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

from hologram.benchmark.report.plots import NARROW, WIDE, Plot, dark
from hologram.benchmark.report.records import Report
from hologram.benchmark.report.tables import tables

TEMPLATE = Path(__file__).with_name("page.html")


def page(report: Report, plots: Iterable[Plot]) -> str:
    """The template, filled."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(report=report, tables=list(tables(report)), plots=list(map(_inside, plots)))


def _inside(plot: Plot) -> dict[str, str]:
    wide, narrow = plot.svg(WIDE), plot.svg(NARROW)
    looks = {"wide": wide, "narrow": narrow, "wide_dark": dark(wide), "narrow_dark": dark(narrow)}
    return {"stem": plot.stem, "title": plot.title} | {name: _address(svg) for name, svg in looks.items()}


def _address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
