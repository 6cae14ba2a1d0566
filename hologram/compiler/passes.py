"""What HOLOGRAM_DEBUG=5 prints of the passes that programs go through."""

from __future__ import annotations

from hologram.atlas.program import Program
from hologram.foundation import debug
from hologram.foundation.debug import Rung


def log_pass(name: str, before: Program, after: Program) -> Program:
    """Shows what a pass of that name made of a program, if it changed it; gives the result on."""
    if debug.shows(Rung.REWRITE) and after != before:
        sizes = " -> ".join(str(sum(1 for _ in p.body.walk())) for p in (before, after))
        debug.show(Rung.REWRITE, f"{before.name}: {name}, {sizes} instructions")
    return after
