"""A report as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hologram.benchmark.report.records import Report
from hologram.benchmark.report.tables import Table, noise, tables


def page(report: Report) -> str:
    """Facts of the machine, and all tables."""
    return document("hologram bench", tables(report), tuple(_facts(report)))


def document(title: str, shown: Iterable[Table], facts: tuple[str, ...] = ()) -> str:
    """Tables below a title."""
    lines = [f"# {title}", *(("", *facts) if facts else ())]
    for one in shown:
        lines += ["", f"## {one.title}", "", *table(one)]
    return "\n".join(lines) + "\n"


def _facts(report: Report) -> Iterator[str]:
    for name, value in report.machine.items():
        yield f"- {name}: {value}"
    for backend, reason in report.absent.items():
        yield f"- {backend} is not here: {reason}"
    yield f"- measured in {report.seconds:.0f} s"
    if report.unfinished:
        yield f"- not finished: {report.unfinished}"
    if noise(report):
        yield f"- {noise(report)}"


def table(one: Table) -> Iterator[str]:
    """A table and its notes."""
    yield _line(one.columns)
    yield _line("---" if k == 0 or c in one.words else "--:" for k, c in enumerate(one.columns))
    yield from map(_line, one.rows)
    for note in one.notes:
        yield ""
        yield f"*{note}*"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
