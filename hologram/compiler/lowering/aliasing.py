"""Parameters that are one memory made one parameter, where a device binds a memory once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hologram.atlas.program import Access, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.compiler.passes import Goal, Pass, Stage, Trial


def merge(program: Program, shared: Sequence[int]) -> Program:
    """The program with each parameter replaced by the one `shared` names for it, which is then read and written."""
    merged = {}
    for buffer, position in zip(program.buffers, shared, strict=True):
        accesses = {b.access for b, s in zip(program.buffers, shared, strict=True) if s == position}
        access = buffer.access if len(accesses) == 1 else Access.READ_WRITE
        merged[buffer.name] = replace(program.buffers[position], access=access)
    return rewrite(program, lambda *_: None, parameters=Parameters(buffer=lambda b: merged[b.name]))


def _tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    """What shares memory is one array, before as well."""
    names = [b.name for b in program.buffers]
    one = {name: trial.buffers[names[k]] for name, k in zip(names, goal.shared, strict=True)}
    return goal, replace(trial, buffers=one), replace(trial, buffers=one)


MERGE = Pass(
    "merge parameters of one memory",
    "a parameter is another name of its memory",
    Stage.BINDING,
    lambda program, goal: merge(program, goal.shared),
    wanted=lambda goal: any(first != k for k, first in enumerate(goal.shared)),
    tried=_tried,
)
