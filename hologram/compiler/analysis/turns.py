"""How many turns the loops of one thread take in a launch, all together.

Software drivers may end every loop of a thread once they took so many turns together, without a word
(`Limits.loop_turns`). What surely takes more is unrolled, so that one turn does several rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.rewrite import AS_IT_IS, NONE, Unrolling
from hologram.compiler.analysis.ranges import Lanes, Range, ranges
from hologram.foundation.dtypes import index
from hologram.foundation.frozen import frozen

MOST_INSTRUCTIONS = 8192  # of a program that is unrolled: more take a driver seconds to compile
COPIED = 64  # instructions that compile as quickly as a branch or a loop


@frozen
class Rounds:
    """Those of one loop at most; `fixed`: that many, in every lane and each time."""

    most: int
    fixed: bool


@frozen
class Turns:
    """The loops of a program in a launch, by the values that are their counters; None: nothing bounds them."""

    program: Program
    rounds: Mapping[int, Rounds | None]

    @staticmethod
    def of(program: Program, lanes: Lanes) -> Turns:
        """With a launch's numbers."""
        return Turns._of(program, ranges(program.body.walk(), lanes), lanes)

    @staticmethod
    def always(program: Program) -> Turns:
        """In any launch: as far as the program itself says it."""
        lanes = Lanes(program, {}, (), ())
        constants = (i for i in program.body.walk() if i.opcode is Opcode.CONSTANT)
        return Turns._of(program, ranges(constants, lanes), lanes)

    @staticmethod
    def _of(program: Program, known: Mapping[int, Range], lanes: Lanes) -> Turns:
        rounds: dict[int, Rounds | None] = {}
        for i in program.body.walk():
            if i.opcode is Opcode.LOOP:
                most = _rounds(i, known, lanes)
                fixed = all(v in known and known[v].number is not None for v in i.operands[:3])
                rounds[_counter(i)] = None if most is None else Rounds(most, fixed)
        return Turns(program, rounds)

    def most(self, unrolled: Mapping[int, Unrolling] = NONE) -> int | None:
        """The turns at most, both sides of each branch; None where nothing bounds them."""
        return self._block(self.program.body, unrolled, certain=False)

    def certain(self, unrolled: Mapping[int, Unrolling] = NONE) -> int:
        """The same of loops that no branch can skip and no data can shorten."""
        return self._block(self.program.body, unrolled, certain=True) or 0

    def _block(self, block: Block, unrolled: Mapping[int, Unrolling], certain: bool) -> int | None:
        total = 0
        for i in block.instructions:
            if not i.blocks or (certain and i.opcode is Opcode.IF):
                continue
            if i.opcode is Opcode.WHILE:  # data decide
                if certain:
                    continue
                return None
            parts = [self._block(inner, unrolled, certain) for inner in i.blocks]
            if i.opcode is Opcode.LOOP:
                rounds = self.rounds[_counter(i)]
                if rounds is None and certain:
                    continue
                how = unrolled.get(_counter(i), AS_IT_IS)
                parts = [None if rounds is None or p is None else _turns(rounds.most, p, how) for p in parts]
            if None in parts:
                return None
            total += sum(part for part in parts if part is not None)
        return total

    def unrolling(self, limit: int) -> dict[int, Unrolling]:
        """What must become of the loops for their certain turns to be within the limit; nothing if that is no use."""
        unrollings: dict[int, Unrolling] = {}
        fewest = self.certain()
        while fewest > limit:
            best = min(self._further(unrollings), key=self.certain, default=unrollings)
            fewer, code = self.certain(best), _instructions(self.program.body, best)
            if fewer >= fewest or code > MOST_INSTRUCTIONS:
                return {}
            unrollings, fewest = best, fewer
        return unrollings

    def _further(self, unrollings: dict[int, Unrolling]) -> Iterator[dict[int, Unrolling]]:
        """Ways to unroll one loop more. Loops that count in less than words stay: languages do not compute in those."""
        for loop, rounds in self.rounds.items():
            how, dtype = unrollings.get(loop, AS_IT_IS), self.program.types[loop]
            if rounds is None or how.whole or (dtype is not index and dtype.bits < 32):
                continue
            whole = rounds.fixed and 4 * how.copies >= rounds.most
            yield unrollings | {loop: Unrolling(rounds.most if whole else 2 * how.copies, whole)}


def _turns(rounds: int, inner: int, how: Unrolling) -> int:
    """Of a loop, with the one that ends it: an unrolled one has a second for the rounds that are left."""
    own = 0 if how.whole else rounds + 1 if how.copies == 1 else sum(divmod(rounds, how.copies)) + 2
    return own + rounds * inner


def _counter(loop: Instruction) -> int:
    return loop.blocks[0].arguments[0]


def _rounds(loop: Instruction, known: Mapping[int, Range], lanes: Lanes) -> int | None:
    start, stop, step = (known.get(v) for v in loop.operands[:3])
    if start is None or stop is None or step is None or step.low <= 0:
        return None
    counted = loop.blocks[0].argument_types[0] is not index or all(
        r.within(lanes.index) for r in (start, stop, step)
    )
    return max(0, -(-(stop.high - start.low) // step.low)) if counted else None


def _instructions(block: Block, unrolled: Mapping[int, Unrolling]) -> int:
    total = 0
    for i in block.instructions:
        how = unrolled.get(_counter(i), AS_IT_IS) if i.opcode is Opcode.LOOP else AS_IT_IS
        copies = how.copies + (how.copies > 1 and not how.whole)
        total += (1 if not i.blocks else COPIED) + copies * sum(
            _instructions(inner, unrolled) for inner in i.blocks
        )
    return total
