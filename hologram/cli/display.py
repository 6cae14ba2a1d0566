"""How the commands show things: two consoles, and JSON for machines."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

output = Console()
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document, for machines: never coloured or wrapped."""
    print(json.dumps(value, indent=2))
