"""What a step that somebody else wrote runs as: itself, or the plan of an operation that it is recognised as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram.foundation import debug, lazy
from hologram.foundation.debug import Rung
from hologram.machine.plan import Plan, Step, Target

if TYPE_CHECKING:
    from hologram.compiler.recognition import recognise
else:  # needed to compute, not to open
    recognise = lazy.module("hologram.compiler.recognition.recognise")


def chosen(step: Step, sizes: Sequence[int], target: Target, apart: bool) -> Plan:
    """The plan for a step whose operand k has `sizes[k]` elements, however they were viewed.

    A program whose buffers share memory (which is not `apart`) may work in place, so it runs as it is written.
    """
    if apart and not step.kernel.stem:
        recognition = recognise.recognise(step.program, step.grid, step.scalars, sizes)
        if recognition is not None and recognition.pays(target.limits):
            if debug.shows(Rung.LAUNCH):
                debug.show(Rung.LAUNCH, f"{step.kernel.name}: {recognition}")
            return recognition.plan(target)
    return Plan((step,))
