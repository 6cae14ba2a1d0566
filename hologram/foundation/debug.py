"""HOLOGRAM_DEBUG: what the library prints to stderr of what it does, one layer more on each rung.

The environment is asked where something is opened, bound or compiled, never where it is launched.
"""

from __future__ import annotations

import sys
from enum import IntEnum

from hologram.foundation.config import config


class Rung(IntEnum):
    """What is printed from which number on; the value of HOLOGRAM_DEBUG is that of the last rung to print."""

    DEVICE = 1  # what was selected, and why
    LAUNCH = 2  # each kernel that ran, with its grid and its time
    PROGRAM = 3  # the Atlas text of each program, when it is first compiled
    SOURCE = 4  # the text generated from it
    REWRITE = 5  # each pass that changed a program


def shows(rung: Rung) -> bool:
    """Whether the environment asks for it now."""
    return config.debug >= rung


def show(rung: Rung, title: str, body: str = "") -> None:
    """Prints one entry: a line that names the rung, and indented lines below it."""
    lines = [
        f"hologram {rung.name.lower()}: {title}",
        *(f"    {line}".rstrip() for line in body.splitlines()),
    ]
    sys.stderr.write("\n".join([*lines, ""]))  # in one piece, so that threads do not mix theirs
