"""Which values of a row are worth keeping from one sweep to the next instead of computing them again.

compiler/analysis/phases.py computes varying values anew in every sweep that needs them. For a load and some
arithmetic that is right; an exponential of every element (softmax) costs more than a place in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import definitions, mentions, sources
from hologram.compiler.analysis.cost import instructions
from hologram.compiler.analysis.phases import Phase
from hologram.foundation.frozen import frozen

ELEMENTS = 8192  # of the longest row whose values are kept
WORTH = 12  # instructions that a kept value must save


@frozen
class Sweep:
    """A phase's sweep with kept values: the instructions left, what is fetched before and what is stored after them."""

    instructions: tuple[Instruction, ...]
    fetched: tuple[int, ...]
    stored: tuple[int, ...]


def recomputed(phases: Sequence[Phase]) -> tuple[Sweep, ...]:
    """The sweeps as they are, nothing kept."""
    return tuple(Sweep(p.sweep, (), ()) for p in phases)


def kept(program: Program, phases: Sequence[Phase]) -> tuple[Sweep, ...]:
    """The sweeps with every value kept that is worth it."""
    home: dict[int, int] = {}  # value -> the last sweep so far that computes it
    stored: list[set[int]] = [set() for _ in phases]
    sweeps: list[tuple[tuple[Instruction, ...], tuple[int, ...]]] = []
    for k, phase in enumerate(phases):
        fetched = _fetched(program, phase, home)
        for value in fetched:
            stored[home[value]].add(value)
        left = _left(phase, fetched)
        sweeps.append((left, fetched))
        home |= {v: k for i in left for v in i.results}
    return tuple(
        Sweep(left, fetched, tuple(sorted(s))) for (left, fetched), s in zip(sweeps, stored, strict=True)
    )


def _fetched(program: Program, phase: Phase, home: dict[int, int]) -> tuple[int, ...]:
    """Values an earlier sweep computes, used here by something new, and costly to compute."""
    old = [i for i in phase.sweep if any(v in home for v in i.results)]
    used = {i.operands[0] for i in phase.reductions}
    for i in phase.sweep:
        if not any(v in home for v in i.results):
            used.update(mentions(i))
    chosen = []
    for value in sorted(used & set(definitions(old))):
        if program.types[value].kind != "index" and _cost(value, old) >= WORTH:
            chosen.append(value)
    return tuple(chosen)


def _cost(value: int, old: Sequence[Instruction]) -> int:
    """Of the instructions that lead to a value."""
    return sum(map(instructions, sources(old, (value,))))


def _left(phase: Phase, fetched: Sequence[int]) -> tuple[Instruction, ...]:
    """The sweep's instructions that are still needed."""
    folded = {i.operands[0] for i in phase.reductions}
    return sources(phase.sweep, folded, keep=lambda i: not i.results or bool(i.blocks), known=fetched)
