"""How things are shown to people: sizes and times with few digits, and tables without lines."""

from __future__ import annotations

import io
from types import FunctionType
from typing import TYPE_CHECKING, TypeVar

from hologram.foundation import lazy

if TYPE_CHECKING:
    from rich import console
    from rich import table as tables
else:  # only what is shown needs them
    console, tables = lazy.module("rich.console"), lazy.module("rich.table")

Kind = TypeVar("Kind", bound=type)
WIDTH = 110  # of a table as text


def called_by_name(kind: Kind) -> Kind:
    """A class whose methods Python's own errors call by their names alone: users see the classes that inherit them."""
    for name, method in vars(kind).items():
        if isinstance(method, FunctionType):
            method.__qualname__ = name
    return kind


def table(*columns: str, numbers: tuple[str, ...] = ()) -> tables.Table:
    """A table without lines between rows; `numbers` are the columns to align right."""
    made = tables.Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def plain(shown: tables.Table) -> str:
    """A table as text without colours."""
    page = console.Console(file=io.StringIO(), width=WIDTH, color_system=None)
    page.print(shown)
    return "\n".join(line.rstrip() for line in page.file.getvalue().splitlines())  # type: ignore[attr-defined]


def size(count_bytes: int) -> str:
    """Bytes in the unit that leaves few digits."""
    amount, units = float(count_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if amount == int(amount) else f"{amount:.1f} {units[0]}"


def duration(seconds: float) -> str:
    """A time with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            amount = seconds / scale
            return f"{amount:.{max(0, 2 - len(str(int(amount))) + 1)}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
