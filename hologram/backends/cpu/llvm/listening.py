"""Long loops ask for interrupts (Ctrl-C, see interrupts.ll), and leave the function if one came.

A function counts turns down, and asks when none is left. All its loops whose end nobody knows share this count, with
the loops around them. A loop that counts, with none of these inside, asks between parts if its constants make it long.
If its bounds are told at run time, it is written twice: in parts for many turns, and as it is for few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from hologram.atlas.opcodes import LOOPS, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.backends.cpu.llvm.writer import Writer, register_type
from hologram.foundation.frozen import frozen

PART = 1 << 17  # turns, with those of loops inside, after which a function asks
_LONG = 1 << 14  # turns of a loop that is told them, from which on it asks
_WHILE = 1 << 5  # what a turn of a loop without a known end counts at least
_AROUND = 1 << 9  # what a turn around such loops does
_STEP = 1 << 12  # of a counter, from which on a part may overflow 32 bits
_RARELY = '!{!"branch_weights", i32 1, i32 1000000}'

Bounds = tuple[str, str, str]
Carried = Sequence[tuple[str, str]]
Turn = Callable[[str, list[str]], Sequence[str]]


class Way(Enum):
    """Ways to write a loop."""

    AS_IT_IS = "does not ask"
    IN_PARTS = "asks before each part"
    COUNTED = "asks after many turns"
    AROUND = "asks after some turns, as loops are inside that nobody knows"


def numbers(program: Program) -> dict[int, int]:
    """The program's constants that loops may count with, by their values."""
    constants = (i for i in program.body.walk() if i.opcode is Opcode.CONSTANT)
    return {i.result: i.attribute for i in constants if isinstance(i.attribute, int)}


def length(operands: Sequence[int], known: Mapping[int, int]) -> int | None:
    """Turns of a loop whose bounds are constants."""
    start, stop, step = (known.get(v) for v in operands[:3])
    if start is None or stop is None or step is None:
        return None
    return len(range(start, stop, max(step, 1)))


def turns(block: Block, known: Mapping[int, int]) -> int:
    """Turns of a turn with this body: itself, and those of the loops inside that have constant bounds."""
    total = 1
    for i in block.instructions:
        inside = max((turns(b, known) for b in i.blocks), default=1)
        if i.opcode is Opcode.LOOP:
            total += inside * (length(i.operands, known) or 0)
        elif i.opcode is not Opcode.WHILE:
            total += inside - 1
    return min(total, PART)


def long(i: Instruction, known: Mapping[int, int], each: int, brief: bool) -> bool:
    """Whether a loop may have more turns than a part. `brief`: not if its bounds are told at run time."""
    own = length(i.operands, known)
    return not brief if own is None else own * each > PART


def ask(w: Writer) -> None:
    """Asks for interrupts, and returns from the function if one came."""
    w.declarations.add("declare i32 @hologram_heard() cold nounwind")
    leave, on = w.label("leave"), w.label("on")
    w.branch(w(f"icmp ne i32 {w('call i32 @hologram_heard()')}, 0"), leave, on)
    w.place(leave)
    w.do("ret void")
    w.place(on)


def turned(w: Writer, each: int, around: bool = False) -> None:
    """At a turn's end: asks, if the function has used up its turns. `each`: turns of a turn.

    `around`: beside those of loops inside that nobody knows.
    """
    if not w.patience:
        w.patience = w.alloca("i32", 1, 4)
        w.entry.append(f"  store i32 {PART}, ptr {w.patience}")
    share = max(_AROUND if around else _WHILE, each)
    left = w(f"sub i32 {w(f'load i32, ptr {w.patience}')}, {share}")
    w.do(f"store i32 {left}, ptr {w.patience}")
    none, some = w.label("none"), w.label("some")
    _seldom(w, w(f"icmp sle i32 {left}, 0"), none, some)
    w.place(none)
    ask(w)
    w.do(f"store i32 {PART}, ptr {w.patience}")
    w.jump(some)
    w.place(some)


def _seldom(w: Writer, condition: str, then: str, otherwise: str) -> None:
    w.do(f"br i1 {condition}, label %{then}, label %{otherwise}, !prof !{w.node(_RARELY)}")


@frozen
class Loop:
    """A loop that counts. `each`: turns of a turn; `write` writes it, as a way says."""

    instruction: Instruction
    bounds: Bounds
    flags: Mapping[str, Any]
    each: int
    write: Callable[[Way], list[str]]

    def written(self, w: Writer, known: Mapping[int, int], brief: bool) -> list[str]:
        """Its results. `brief`: it has few turns, whatever it is told."""
        block, own = self.instruction.blocks[0], length(self.instruction.operands, known)
        loops = (x for x in block.walk() if x.opcode in LOOPS and not brief)
        if any(x.opcode is Opcode.WHILE or length(x.operands, known) is None for x in loops):
            return self.write(Way.AROUND)
        if not long(self.instruction, known, self.each, brief):
            return self.write(Way.AS_IT_IS)
        bits, step = block.argument_types[0].bits, known.get(self.instruction.operands[2], _STEP)
        # A part may be no number of a narrow counter, or of one with long steps.
        way = Way.IN_PARTS if bits >= 32 and 0 < step < _STEP else Way.COUNTED
        if own is not None:
            return self.write(way)
        return _either(w, self, way) if bits >= 32 else self.write(Way.AS_IT_IS)


def _either(w: Writer, loop: Loop, long_way: Way) -> list[str]:
    """A loop whose bounds are told at run time, written as it is and in a way for many turns."""
    (start, stop, step), type_ = loop.bounds, loop.flags["counter"]
    block, done = loop.instruction.blocks[0], w.label("either")
    distance = w(f"sub {type_} {stop}, {start}")
    labels, ends = (w.label("long"), w.label("short")), []
    # Where this overflows, a loop of few turns is written for many, and gives the same.
    most = w(f"mul {type_} {step}, {max(1, _LONG // loop.each)}")
    _seldom(w, w(f"icmp ugt {type_} {distance}, {most}"), *labels)
    for label, way in zip(labels, (long_way, Way.AS_IT_IS), strict=True):
        w.place(label)
        ends.append((loop.write(way), w.block))
        w.jump(done)
    w.place(done)
    pairs = [[f"[ {x}, %{end} ]" for x in results] for results, end in ends]
    types = [register_type(t) for t in block.argument_types[1:]]
    return [w(f"phi {type_} {x}, {y}") for type_, x, y in zip(types, *pairs, strict=False)]


def in_parts(w: Writer, bounds: Bounds, carried: Carried, body: Turn, each: int, flags: Any) -> list[str]:
    """A loop of any length, as Writer.loop, that asks before each part of it. `each`: turns of a turn."""
    (start, stop, step), t = bounds, flags["counter"]
    most = max(1, PART // each) * int(step)
    before, head, inside, done = w.block, *(w.label(s) for s in ("head", "inside", "done"))
    w.jump(head)
    w.place(head)
    begin, phis = w.name("i"), [w.name("c") for _ in carried]
    slot = len(w.lines)
    w.lines += [""] * (1 + len(carried))
    w.branch(w(f"icmp {flags['less']} {t} {begin}, {stop}"), inside, done)
    w.place(inside)
    some = w.intrinsic(f"llvm.umin.{t}", t, (t, w(f"sub {t} {stop}, {begin}")), (t, str(most)))
    end = w(f"add {t} {begin}, {some}")
    ask(w)
    parts = [(type_, phi) for (type_, _), phi in zip(carried, phis, strict=True)]
    ended = [end, *w.loop(begin, end, step, parts, body, **flags)]
    w.jump(head)
    typed = [(t, start), *carried]
    for k, ((type_, x), phi, y) in enumerate(zip(typed, [begin, *phis], ended, strict=True)):
        w.lines[slot + k] = f"  {phi} = phi {type_} [ {x}, %{before} ], [ {y}, %{w.block} ]"
    w.place(done)
    return phis
