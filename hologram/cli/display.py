"""How the commands show things: two consoles, plain tables, and sizes and times as people read them."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

output = Console()
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document, for machines: never coloured or wrapped."""
    print(json.dumps(value, indent=2))


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A table without lines between rows; `numbers` are the columns to align right."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


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
