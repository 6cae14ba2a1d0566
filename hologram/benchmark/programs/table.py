"""The programs by their names: everything of that kind in the modules that declare some."""

from __future__ import annotations

from hologram.benchmark.programs import decoders, halves, jitted, looped, trained
from hologram.benchmark.programs.declared import Program

PROGRAMS = {
    p.name: p
    for module in (decoders, trained, halves, jitted, looped)
    for value in vars(module).values()
    for p in (value if isinstance(value, tuple) else (value,))
    if isinstance(p, Program)
}
