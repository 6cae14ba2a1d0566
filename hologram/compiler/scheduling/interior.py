"""The inside of a grid, where what a program asks of its border is decided: neighbours exist, nothing wraps around.

A stencil asks of each element whether it lies at the border, or takes its neighbours' positions modulo a size. Away
from the border the answers are the same everywhere, accesses lie side by side, and the loop becomes vectors. So a map
runs as two bodies: the program as it is for the few lanes near the border, and what is left of it for all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import COMPARISONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.analysis.ranges import Lanes, Range, positions_from, quotient, ranges
from hologram.foundation.dtypes import bool_
from hologram.foundation.frozen import frozen

O = Opcode
_ASKS = COMPARISONS | {O.DIV, O.REM, O.MIN, O.MAX}
WIDTHS = (1, 2, 3, 4, 8)  # of the border, that are tried
# Times as long as its border an axis must be: along vectors, and across them, where whole vectors are border, and their
# lanes come one after the other.
_LEAST, _LEAST_ACROSS = 16, 128

Margins = tuple[tuple[int, int], ...]  # of each axis: lanes before the inside, and behind it


@frozen
class Interior:
    """The inside of a launch's grid, and what is decided there.

    Of a comparison 1 or 0, of a quotient or remainder the quotient, of a minimum or maximum which operand it is.
    """

    margins: Margins
    decided: tuple[tuple[int, int], ...]


def interior(program: Program, lanes: Lanes, along: int) -> Interior | None:
    """The largest inside where most is decided; None where no border makes a difference. Vectors lie along one axis."""
    everything = tuple(program.body.walk())
    asked = [i for i in everything if i.opcode in _ASKS and not i.blocks]
    if not asked:
        return None
    needed = positions_from(everything, {v for i in asked for v in (i.result, *i.operands)})

    def open_questions(margins: Sequence[tuple[int, int]]) -> int:
        known = ranges(needed, _within(lanes, margins))
        return sum(_asks_of_positions(i, known) and _decision(i, known) is None for i in asked)

    none = [(0, 0)] * len(lanes.extents)
    before = open_questions(none)
    least = [_LEAST if axis == along else _LEAST_ACROSS for axis in range(len(lanes.extents))]
    long = {
        w: [(w, w) if n >= 2 * w * times else (0, 0) for n, times in zip(lanes.extents, least, strict=True)]
        for w in WIDTHS
    }
    left = {w: open_questions(margins) for w, margins in long.items()} if before else {}
    width = min(left, key=lambda w: (left[w], w), default=0)
    if not width or left[width] == before:
        return None
    margins = long[width]
    for axis, (first, last) in enumerate(margins):
        for fewer in ((0, 0), (0, last), (first, 0)):
            tried = [*margins[:axis], fewer, *margins[axis + 1 :]]
            if fewer != margins[axis] and open_questions(tried) == left[width]:
                margins = tried
                break
    known = ranges(needed, _within(lanes, margins))
    found = {i.result: _decision(i, known) for i in asked}
    return Interior(tuple(margins), tuple((v, choice) for v, choice in found.items() if choice is not None))


def inside(program: Program, decided: Sequence[tuple[int, int]]) -> Program:
    """The program with its decisions written into it."""
    choices = dict(decided)

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        choice = choices.get(i.result) if len(i.results) == 1 else None
        if choice is None:
            return None
        if i.opcode in COMPARISONS:
            return b.constant(bool(choice), bool_)
        if i.opcode is O.DIV:
            return b.constant(choice, i.type)
        if i.opcode is O.REM:
            return operands[0] - operands[1] * choice if choice else operands[0]
        return operands[choice]

    return rewrite(program, rule)


def _within(lanes: Lanes, margins: Sequence[tuple[int, int]]) -> Lanes:
    axes = [(low + a, high - b) for (low, high), (a, b) in zip(lanes.axes, margins, strict=True)]
    return replace(lanes, axes=axes)


def _asks_of_positions(i: Instruction, known: Mapping[int, Range]) -> bool:
    """Whether it is about numbers that follow from where a lane is."""
    operands = [known.get(v) for v in i.operands]
    return all(r is not None for r in operands) and any(r.number is None for r in operands if r is not None)


def _decision(i: Instruction, known: Mapping[int, Range]) -> int | None:
    x, y = (known.get(v) for v in i.operands)
    if x is None or y is None:
        return None
    if i.opcode in COMPARISONS:
        found = known.get(i.result)
        return None if found is None else found.number
    if i.opcode in (O.MIN, O.MAX):
        first, second = (x, y) if i.opcode is O.MIN else (y, x)
        return 0 if first.high <= second.low else 1 if second.high <= first.low else None
    return quotient(x, y)
