"""How the commands show things: two consoles, and JSON for machines."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from hologram.backends import registry

BACKENDS = ", ".join(("auto", *registry.discover()))  # for the help of options
output = Console()
errors = Console(stderr=True)


def grid() -> Table:
    """What is known of several things: a name, what is said of it, and the words, which alone run over lines."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(style="cyan", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def print_json(value: Any) -> None:
    """One JSON document, for machines: never coloured or wrapped."""
    print(json.dumps(value, indent=2))
