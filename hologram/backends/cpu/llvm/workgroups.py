"""Programs whose threads meet at barriers: one workgroup after the other, its body cut at the barriers.

Between two barriers the threads of a workgroup run as a loop; a value that lives across one waits in an array with a
place for each thread. A loop or an `if` that holds a barrier is the same for all threads by definition, so it runs
once, around such pieces. (Loop fission, as in Karrenberg and Hack, Improving Performance of OpenCL on CPUs, 2012.)
Other loops that are the same for all threads run so too, where the threads' loop then becomes vectors (threads.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hologram.atlas.opcodes import POSITIONS, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.ssa import deep, definitions, enters, makes
from hologram.backends.cpu.llvm.arguments import open_frame
from hologram.backends.cpu.llvm.lane import Frame, Lane, Locals, zero_fill
from hologram.backends.cpu.llvm.listening import Loop, Way, turned, turns
from hologram.backends.cpu.llvm.loops import GROUP, decompose, positions
from hologram.backends.cpu.llvm.writer import Writer, memory_type, register_type
from hologram.compiler.scheduling.loops import WORKGROUP, Variant
from hologram.compiler.scheduling.threads import Threads
from hologram.foundation.dtypes import DType, index
from hologram.foundation.frozen import frozen

O = Opcode
_ANYWHERE = POSITIONS | {O.CONSTANT, O.SCALAR}
_PLACING = frozenset({O.ADD, O.SUB, O.MUL})


def anywhere(program: Program) -> dict[int, Instruction]:
    """What is cheaper to compute again than to keep: positions, numbers, and places made of them.

    Vectors of threads then know which places are the same for all, and which are neighbours.
    """
    found: dict[int, Instruction] = {}
    for i in program.body.walk():
        placing = i.opcode in _PLACING and i.type == index and found.keys() >= set(i.operands)
        if i.opcode in _ANYWHERE or placing:
            found[i.result] = i
    return found


@frozen
class Piece:
    """What a workgroup's threads run as one loop."""

    instructions: tuple[Instruction, ...]


@frozen
class Whole:
    """A loop or `if` that all threads go through together."""

    instruction: Instruction
    bodies: tuple[tuple[Piece | Whole, ...], ...]


def has_barrier(instruction: Instruction) -> bool:
    """Whether threads meet in it."""
    return any(i.opcode is O.BARRIER for i in deep((instruction,)))


def cut(instructions: Sequence[Instruction], threads: Threads) -> tuple[Piece | Whole, ...]:
    """The body in pieces."""
    pieces: list[Piece | Whole] = []
    current: list[Instruction] = []

    def close() -> None:
        if current:
            pieces.append(Piece(tuple(current)))
            current.clear()

    for i in instructions:
        if not has_barrier(i) and not threads.go_together(i):
            current.append(i)
            continue
        close()
        if i.opcode is not O.BARRIER:
            pieces.append(Whole(i, tuple(cut(b.instructions, threads) for b in i.blocks)))
    close()
    return tuple(pieces)


@dataclass
class Workgroup:
    """Emits the pieces of one workgroup."""

    w: Writer
    frame: Frame
    number: str
    first: str  # number of its first lane
    threads: str
    size: int
    definitions: dict[int, Instruction]  # of what is computed again where it is needed
    kept: frozenset[int]  # what must outlive the piece that makes it
    arrays: dict[int, str] = field(default_factory=dict)
    uniform: dict[int, str] = field(default_factory=dict)
    locals: dict[str, str] = field(
        default_factory=dict
    )  # of all threads: element by element, not thread by thread

    def turns(self, block: Block) -> int:
        """Of all threads, in a turn of theirs."""
        return self.size * turns(block, self.frame.numbers)

    def dtype(self, value: int) -> DType:
        """Of a value, or of the copy of one that is known by its complement."""
        return self.frame.program.types[value if value >= 0 else ~value]

    def array(self, value: int) -> str:
        if value not in self.arrays:
            t = _stored(self.dtype(value))
            self.arrays[value] = self.w.alloca(t, self.size)
        return self.arrays[value]

    def load(self, value: int, thread: str) -> str:
        w, d = self.w, self.dtype(value)
        t = _stored(d)
        address = w.element(self.array(value), t, thread)
        loaded = w(f"load {t}, ptr {address}, align {_bytes(d)}{GROUP}")
        return w(f"trunc i8 {loaded} to i1") if d.kind == "bool" else loaded

    def store(self, value: int, thread: str, register: str) -> None:
        w, d = self.w, self.dtype(value)
        t = _stored(d)
        if d.kind == "bool":
            register = w(f"zext i1 {register} to i8")
        w.do(f"store {t} {register}, ptr {w.element(self.array(value), t, thread)}, align {_bytes(d)}{GROUP}")

    def lane(self, thread: str) -> Lane:
        axes = range(self.frame.program.rank)
        number = self.w(f"add nsw i64 {self.first}, {thread}")
        coordinates = dict(zip(axes, decompose(self.w, self.frame, axes, number), strict=True))
        usual = positions(self.frame, coordinates)
        # Not by the lane's number: after a remainder LLVM would not know that neighbours read neighbouring memory.
        own = {O.THREAD: thread, O.WORKGROUP: self.number}
        lane = Lane(self.frame, lambda opcode, axis: own.get(opcode) or usual(opcode, axis), group=GROUP)
        if self.locals:
            lane.locals = Locals(self.locals, thread, self.size)
        return lane

    def begin(self) -> None:
        """Gives each thread its local arrays."""
        for array in self.frame.program.local:
            zero_fill(self.w, self.locals[array.name], array, self.size)

    def fetch(self, lane: Lane, thread: str, value: int) -> str:
        """A value of an earlier piece, for a thread."""
        if value in self.uniform:
            return self.uniform[value]
        definition = self.definitions.get(value)
        if definition is None:
            return self.load(value, thread)
        if value not in lane.values:
            lane.values |= {v: self.fetch(lane, thread, v) for v in definition.operands}
            lane.instructions((definition,))
        return lane.values[value]

    def each_thread(self, instructions: Sequence[Instruction], moves: Sequence[tuple[int, int]] = ()) -> None:
        """Runs instructions for every thread, keeps what later pieces may need, then moves values between arrays."""
        made, needed = makes(instructions), enters(instructions)

        def body(thread: str, _: list[str]) -> list[str]:
            lane = self.lane(thread)
            for value in needed:
                lane.values[value] = self.fetch(lane, thread, value)
            lane.instructions(instructions)
            for i in instructions:
                for value in i.results:
                    if value in self.kept and value not in self.definitions:
                        self.store(value, thread, lane.values[value])
            moved = [(t, lane.values[s] if s in made else self.fetch(lane, thread, s)) for t, s in moves]
            for target, register in moved:
                self.store(target, thread, register)
            return []

        self.w.loop("0", self.threads, "1", [], body, lanes=True)

    def run(self, pieces: Sequence[Piece | Whole], moves: Sequence[tuple[int, int]] = ()) -> None:
        """Runs pieces, then moves values between arrays: in the last one, where it ends in one."""
        last = pieces[-1] if pieces else None
        for piece in pieces:
            if piece is last and isinstance(piece, Piece):
                self.each_thread(piece.instructions, moves)
                return
            if isinstance(piece, Piece):
                self.each_thread(piece.instructions)
            elif piece.instruction.opcode is O.LOOP:
                self._loop(piece)
            elif piece.instruction.opcode is O.WHILE:
                (self._while if has_barrier(piece.instruction) else self._while_any)(piece)
            else:
                self._if(piece)
        if moves:
            self.each_thread((), moves)

    def same(self, value: int) -> str:
        """A value that is the same for all threads: the first one's."""
        return self.fetch(self.lane("0"), "0", value)

    def _loop(self, whole: Whole) -> None:
        i = whole.instruction
        block = i.blocks[0]
        counter, *carried = block.arguments
        # A loop's results live where its carried values do.
        for argument, result in zip(carried, i.results, strict=True):
            self.arrays[result] = self.array(argument)
        self.each_thread((), list(zip(carried, i.operands[3:], strict=True)))

        start, stop, step = (self.same(v) for v in i.operands[:3])
        bounds, d, known = (start, stop, step), block.argument_types[0], self.frame.numbers
        flags: dict[str, Any] = {
            "counter": register_type(d),
            "less": "slt" if d.is_signed else "ult",
            "flags": "",
        }
        each = self.turns(block)

        def write(way: Way) -> list[str]:
            def body(number: str, _: list[str]) -> list[str]:
                self.uniform[counter] = number
                self.run(whole.bodies[0], list(zip(carried, block.yields, strict=True)))
                if way is not Way.AS_IT_IS:
                    turned(self.w, each, way is Way.AROUND)
                return []

            self.w.loop(*bounds, [], body, **flags)
            return []

        Loop(i, bounds, flags, each, write).written(self.w, known, self.frame.brief)

    def _while(self, whole: Whole) -> None:
        i, w = whole.instruction, self.w
        (block,) = i.blocks
        for argument, result in zip(block.arguments, i.results, strict=True):
            self.arrays[result] = self.array(argument)
        on = ~block.yields[0]  # whether to go on, kept beside what is carried
        self.each_thread((), list(zip((on, *block.arguments), i.operands, strict=True)))
        head, inside, done = w.label("head"), w.label("body"), w.label("done")
        w.jump(head)
        w.place(head)
        w.branch(self.load(on, "0"), inside, done)
        w.place(inside)
        self.run(whole.bodies[0], list(zip((on, *block.arguments), block.yields, strict=True)))
        turned(w, self.turns(block))
        w.jump(head)
        w.looped()
        w.place(done)

    def _while_any(self, whole: Whole) -> None:
        """Runs until the last thread has ended; the others keep what they have."""
        i, w = whole.instruction, self.w
        (block,) = i.blocks
        for argument, result in zip(block.arguments, i.results, strict=True):
            self.arrays[result] = self.array(argument)
        on, *following = block.yields
        flag = ~on
        self.each_thread((), list(zip((flag, *block.arguments), i.operands, strict=True)))
        body = [x for piece in whole.bodies[0] if isinstance(piece, Piece) for x in piece.instructions]
        needed = {*enters(body), *block.yields} - makes(body)

        def turn(thread: str, now: list[str]) -> list[str]:
            lane = self.lane(thread)
            for value in (*needed, *block.arguments):
                lane.values[value] = self.fetch(lane, thread, value)
            lane.instructions(body)
            active = self.load(flag, thread)
            for argument, value in zip(block.arguments, following, strict=True):
                t, old = register_type(self.dtype(argument)), lane.values[argument]
                new = w(f"select i1 {active}, {t} {lane.values[value]}, {t} {old}")
                self.store(argument, thread, new)
            on_still = w(f"select i1 {active}, i1 {lane.values[on]}, i1 false")
            self.store(flag, thread, on_still)
            return [w(f"or i8 {now[0]}, {w(f'zext i1 {on_still} to i8')}")]

        head, more, done = w.label("head"), w.label("more"), w.label("done")
        w.jump(head)
        w.place(head)
        (some,) = w.loop("0", self.threads, "1", [("i8", "0")], turn, lanes=True)
        w.branch(w(f"icmp ne i8 {some}, 0"), more, done)
        w.place(more)
        turned(w, self.turns(block))
        w.jump(head)
        w.looped()
        w.place(done)

    def _if(self, whole: Whole) -> None:
        i, w = whole.instruction, self.w
        labels, done = (w.label("then"), w.label("else")), w.label("done")
        w.branch(self.same(i.operands[0]), *labels)
        for label, block, body in zip(labels, i.blocks, whole.bodies, strict=True):
            w.place(label)
            self.run(body, list(zip(i.results, block.yields, strict=True)))
            w.jump(done)
        w.place(done)


def _stored(d: DType) -> str:
    return "i8" if d.kind == "bool" else register_type(d)


def _bytes(d: DType) -> int:
    return d.computed.itemsize


def crossing(pieces: Sequence[Piece | Whole]) -> frozenset[int]:
    """Values that one piece makes and another reads."""
    values: set[int] = set()
    for piece in pieces:
        if isinstance(piece, Piece):
            values.update(enters(piece.instructions))
            continue
        values |= set(piece.instruction.operands)
        for block, body in zip(piece.instruction.blocks, piece.bodies, strict=True):
            ends = body[-1].instructions if body and isinstance(body[-1], Piece) else ()
            values |= (set(block.yields) - set(definitions(ends))) | crossing(body)
    return frozenset(values)


def workgroup_body(w: Writer, program: Program, variant: Variant) -> None:
    """Workgroups from begin to end."""
    frame = open_frame(w, program, variant)
    size = program.workgroup or WORKGROUP
    lanes = "1"
    for axis in range(program.rank):
        lanes = w(f"mul nsw i64 {lanes}, {frame.extents[axis]}")
    pieces = cut(program.body.instructions, Threads.of(program))
    kept = crossing(pieces)
    local = {a.name: w.alloca(memory_type(a.dtype), a.size * size) for a in program.local}

    def one(number: str, _: list[str]) -> list[str]:
        first = w(f"mul nsw i64 {number}, {size}")
        threads = str(size)
        if not variant.whole:
            rest = w(f"sub nsw i64 {lanes}, {first}")
            threads = w.intrinsic("llvm.smin.i64", "i64", ("i64", rest), ("i64", threads))
        for array in program.shared:
            zero_fill(w, frame.memory[array.name], array)
        group = Workgroup(w, frame, number, first, threads, size, anywhere(program), kept)
        group.locals.update(local)
        group.begin()
        group.run(pieces)
        return []

    w.loop("%begin", "%end", "1", [], one)
