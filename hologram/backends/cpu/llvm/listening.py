"""Loops of so many turns that they ask for interrupts (Ctrl-C, see workers.ll).

A loop whose end nobody knows asks in one turn of so many. One that counts is known to be long by its constants,
or by those of the loops inside: where all bounds are told at run time it does not ask, for short ones would take up to
twice as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Program
from hologram.backends.cpu.llvm.writer import Writer

PART = 1 << 20  # turns, with those of loops inside, after which a long loop asks
_UNKNOWN = 1 << 12  # turns that a loop inside is taken to have where its constants do not tell


def numbers(program: Program) -> dict[int, int]:
    """The program's constants that loops may count with, by their values."""
    constants = (i for i in program.body.walk() if i.opcode is Opcode.CONSTANT)
    return {i.result: i.attribute for i in constants if isinstance(i.attribute, int)}


def apart(block: Block, known: Mapping[int, int], unknown: int = _UNKNOWN) -> int:
    """Turns after which a loop with this body asks: fewer, the more turns the loops inside take."""
    return max(1, PART // max(1, _turns(block, known, unknown)))


def rarely(block: Block, known: Mapping[int, int], most: int) -> int:
    """The same where it must be a power of two, at most that one."""
    return min(most, 1 << (apart(block, known).bit_length() - 1))


def _turns(block: Block, known: Mapping[int, int], unknown: int) -> int:
    """Turns of the loops in a block, those without a known end counted as `unknown`."""
    total = 0
    for i in block.instructions:
        inside = max((_turns(b, known, unknown) for b in i.blocks), default=0)
        if i.opcode is Opcode.LOOP and all(v in known for v in i.operands[:3]):
            start, stop, step = (known[v] for v in i.operands[:3])
            total += len(range(start, stop, max(step, 1))) * max(inside, 1)
        elif i.opcode in (Opcode.LOOP, Opcode.WHILE):
            total += max(inside, unknown)
        else:
            total += inside
    return total


def asks(block: Block, known: Mapping[int, int], bounds: tuple[str, str, str]) -> bool:
    """Whether a loop is to ask: it has many turns by its constants, or each of its turns is long by theirs."""
    start, stop, step = bounds
    if not step.isdigit():
        return False
    turns = apart(block, known, unknown=0)
    if not all(x.removeprefix("-").isdigit() for x in (start, stop)):
        return turns <= PART // _UNKNOWN and turns * int(step) < 1 << 31
    return int(stop) - int(start) > turns * int(step)


def in_parts(
    w: Writer,
    bounds: tuple[str, str, str],
    carried: Sequence[tuple[str, str]],
    body: Any,
    flags: Any,
    turns: int,
) -> list[str]:
    """A loop of any length, as Writer.loop, in parts of so many turns; between two it asks for interrupts."""
    (start, stop, step), t = bounds, flags["counter"]
    before, head, inside, done = w.block, *(w.label(s) for s in ("head", "part", "done"))
    w.jump(head)
    w.place(head)
    begin, phis = w.name("i"), [w.name("c") for _ in carried]
    slot = len(w.lines)
    w.lines += [""] * (1 + len(carried))
    w.branch(w(f"icmp {flags['less']} {t} {begin}, {stop}"), inside, done)
    w.place(inside)
    long = w(f"icmp ugt {t} {w(f'sub {t} {stop}, {begin}')}, {turns * int(step)}")
    end = w(f"select i1 {long}, {t} {w(f'add {t} {begin}, {turns * int(step)}')}, {t} {stop}")
    parts = [(type_, phi) for (type_, _), phi in zip(carried, phis, strict=True)]
    results = w.loop(begin, end, step, parts, body, **flags)
    heard = w.interrupted(long)
    w.branch(heard, done, head)
    for k, (type_, phi, x, y) in enumerate(
        zip([t, *(c for c, _ in carried)], [begin, *phis], [start, *(x for _, x in carried)], [end, *results],
            strict=True)
    ):  # fmt: skip
        w.lines[slot + k] = f"  {phi} = phi {type_} [ {x}, %{before} ], [ {y}, %{w.block} ]"
    w.place(done)
    return phis
