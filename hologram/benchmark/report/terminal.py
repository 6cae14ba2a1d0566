"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from hologram.benchmark.report.tables import Cell, Table
from hologram.foundation.display import table


def show(tables: Iterable[Table], console: Console) -> None:
    """Prints them, each with its title above and its notes below."""
    for one in tables:
        numbers = tuple(c for c in one.columns[1:] if c not in one.words)
        shown = table(*map(escape, one.columns), numbers=numbers)
        shown.padding = (0, 1, 0, 0)
        shown.columns[0].no_wrap = True
        for row in one.rows:
            shown.add_row(*(_cell(text) for text in row))
        console.print(f"\n[bold]{escape(one.title)}[/]", highlight=False)
        console.print(shown)
        for note in one.notes:
            console.print(f"[dim]{escape(note)}[/]", highlight=False)


def _cell(text: str) -> str:
    style = text.style if isinstance(text, Cell) else ""
    return f"[{style}]{escape(text)}[/]" if style else escape(text)
