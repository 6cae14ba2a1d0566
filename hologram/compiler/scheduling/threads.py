"""Loops that all threads of a workgroup go through alike, and whether to go through them together.

The threads of a workgroup are a loop, which LLVM turns into vectors if no other loop stands in it. So a loop within is
put around the threads (loop interchange) where it begins and ends alike for all of them, and where vectors of threads
read and write memory that lies together more often than vectors of turns would.
"""

from __future__ import annotations

from collections.abc import Mapping

from hologram.atlas.opcodes import ATOMICS, EFFECTS, LOOPS, STRUCTURED, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import deep, definitions
from hologram.compiler.scheduling.ahead import ahead

O = Opcode
_ALIKE = frozenset({O.CONSTANT, O.SCALAR, O.EXTENT})
_PASSES = frozenset({O.ADD, O.SUB, O.MUL, O.DIV, O.REM, O.MIN, O.MAX, O.NEG, O.CONVERT, O.MAD})
_MEMORY = frozenset({O.LOAD, O.STORE, O.SHARED_LOAD, O.SHARED_AGREED, O.SHARED_STORE})
_LOCAL = frozenset({O.LOCAL_LOAD, O.LOCAL_STORE})
_MUCH = 8  # operations beside an access that are worth the reading of neighbours' elements far apart
_FAR = 1 << 20  # a step that is no number of elements known here


class Threads:
    """What the threads of a program's workgroups do alike."""

    def __init__(
        self,
        made: Mapping[int, Instruction],
        counters: frozenset[int],
        meets: bool,
        innermost: int,
        short: bool = False,
    ) -> None:
        self.made = made
        self.short = short  # loops have too few turns to compute any ahead
        self.innermost = innermost  # axis of the grid, along which threads are neighbours
        self.counters = counters
        # Of threads that never meet, those side by side may be of two workgroups.
        self.same = _ALIKE | {O.WORKGROUP} if meets else _ALIKE
        self._alike: dict[int, bool] = {}

    @staticmethod
    def of(program: Program, short: bool = False) -> Threads:
        everything = tuple(program.body.walk())
        loops = (i for i in everything if i.opcode is O.LOOP)
        counters = frozenset(i.blocks[0].arguments[0] for i in loops)
        return Threads(
            definitions(everything),
            counters,
            bool(program.shared) or O.BARRIER in program.opcodes,
            program.rank - program.reduced - 1,
            short,
        )

    def alike(self, value: int) -> bool:
        """Whether a value is the same for all threads, in loops that they go through together."""
        if value not in self._alike:
            i = self.made.get(value)
            self._alike[value] = (
                value in self.counters
                if i is None
                else i.opcode in self.same or (i.opcode in _PASSES and all(map(self.alike, i.operands)))
            )
        return self._alike[value]

    def go_together(self, loop: Instruction) -> bool:
        """Whether a loop goes around the threads."""
        if loop.opcode is O.WHILE:
            return not any(
                i.opcode in EFFECTS or i.opcode in LOOPS for i in deep(loop.blocks[0].instructions)
            )
        if loop.opcode is not O.LOOP or not all(map(self.alike, loop.operands[:3])):
            return False
        body = loop.blocks[0].instructions
        inner = [i for i in body if i.opcode in (O.LOOP, O.WHILE)]
        if inner:
            return any(map(self.go_together, inner)) and all(map(self._parts, body))
        return not any(
            i.opcode in ATOMICS or i.opcode in (O.LOOP, O.WHILE) for i in deep(body)
        ) and self._gains(loop)

    def _parts(self, i: Instruction) -> bool:
        """Whether what stands beside a loop may run for all threads in turn."""
        return i.opcode not in STRUCTURED or self.go_together(i) or i.opcode is O.IF

    def _gains(self, loop: Instruction) -> bool:
        """Whether vectors of threads are better than those of turns.

        Where a loop carries values there seldom are vectors of turns. But rows that lie in order and are only added up
        are read faster one by one than side by side, and so are those of whose turns much can be computed ahead.
        """
        counter, *carried = loop.blocks[0].arguments
        threads, turns = self._rough(loop, None), self._rough(loop, counter)
        if not carried or threads <= turns:
            return bool(carried) or threads < turns
        inside = list(deep(loop.blocks[0].instructions))
        accesses = sum(i.opcode in _MEMORY for i in inside)
        computed = sum(len(i.results) == 1 and i.type.is_float for i in inside) - accesses
        return computed > _MUCH * accesses and (self.short or ahead(loop) is None)

    def _rough(self, loop: Instruction, along: int | None) -> int:
        """Accesses that neighbours make at places that are neither the same nor side by side."""
        count = 0
        for i in deep(loop.blocks[0].instructions):
            if i.opcode in _LOCAL:
                count += along is not None  # each thread's element lies beside that of the next
            elif i.opcode in _MEMORY:
                count += self._step(i.operands[0], along) not in (0, 1)
        return count

    def _step(self, value: int, along: int | None) -> int:
        """By how much a value grows from one thread to the next, or along a counter."""
        if value == along:
            return 1
        i = self.made.get(value)
        if i is None:
            return 0 if value in self.counters else _FAR
        if i.opcode is O.COORDINATE and i.attribute != self.innermost:
            return 0
        if i.opcode in (O.THREAD, O.COORDINATE, O.LANE):
            return int(along is None)
        if i.opcode in self.same:
            return 0
        steps = [self._step(v, along) for v in i.operands]
        if not any(steps):
            return 0
        if i.opcode is O.CONVERT:
            return steps[0]
        if i.opcode in (O.ADD, O.SUB):
            return steps[0] + (steps[1] if i.opcode is O.ADD else -steps[1])
        if i.opcode is O.MUL:
            factor = self.made.get(i.operands[0 if steps[1] else 1])
            if factor is not None and factor.opcode is O.CONSTANT:
                return int(factor.attribute) * max(steps, key=abs)  # type: ignore[arg-type]
        return _FAR
