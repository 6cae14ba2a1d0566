"""What a step that somebody else wrote runs as: itself, or the plan of an operation that it is recognised as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram import debug, lazy
from hologram.atlas.program import Program
from hologram.debug import Rung
from hologram.limits import Limits
from hologram.plan import Plan, Step
from hologram.runtime.buffer import Buffer

if TYPE_CHECKING:
    from hologram.compiler.recognition import recognise
else:  # needed to compute, not to open
    recognise = lazy.module("hologram.compiler.recognition.recognise")


def chosen(step: Step, buffers: Sequence[Buffer], limits: Limits) -> Plan:
    """The plan for a step of which operand k is all of buffer k, however it is viewed.

    A program whose buffers share memory may work in place, so it runs as it is written.
    """
    blocks = {id(b.live_block()) for b in buffers}
    if isinstance(step.kernel, Program) and len(blocks) == len(buffers):
        sizes = [b.size for b in buffers]
        found = recognise.recognise(step.kernel, step.grid, step.scalars, sizes)
        if found is not None and found.pays(limits):
            if debug.shows(Rung.LAUNCH):
                debug.show(Rung.LAUNCH, f"{step.kernel.name}: {found}")
            return found.plan(limits)
    return Plan((step,))
