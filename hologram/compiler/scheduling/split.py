"""Few long rows as many short ones: each phase is folded slice by slice into scratch memory, then over the slices.

A row program becomes, for every phase with reductions, a program that sweeps slices of the rows and one that folds
what the slices gave; a last program stores along the row. Slices are of one size; what remains is a launch of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import BUFFER_ACCESSES, REDUCTIONS, Opcode
from hologram.atlas.program import Access, Block, BufferParameter, Instruction, Launchable, Program
from hologram.atlas.rewrite import rewrite
from hologram.atlas.ssa import has_effect, named, sources
from hologram.compiler.analysis.phases import rows
from hologram.compiler.analysis.turns import Turns
from hologram.compiler.lowering.arithmetic import expand_unsupported
from hologram.compiler.passes import Goal, Pass, Promise, Stage, Trial
from hologram.compiler.scheduling.schedule import UNROLLED
from hologram.foundation.dtypes import DType, bool_, index, u32
from hologram.machine.limits import Limits, slice_length
from hologram.machine.plan import Plan, Scratch, Step


def should_split(kernel: Launchable, grid: Sequence[int], limits: Limits) -> bool:
    """Whether the rows are too few to keep the device busy, and long enough that more launches pay off."""
    if not isinstance(kernel, Program) or not kernel.reduced or 0 in grid:
        return False
    lanes, length = _sizes(kernel, grid)
    if limits.software:
        # A thread sweeps a row alone, and its loops may only take so many turns.
        own = 1 + UNROLLED * _element_turns(kernel)
        turns = (
            len(rows(kernel).phases)
            * own
            * (length // UNROLLED + prod(grid[kernel.rank - kernel.reduced : -1]) * UNROLLED)
        )
        return 0 < limits.loop_turns < turns or (length >= 16384 and lanes < 128)
    return length >= 65536 and lanes < 2 * (limits.parallelism or 64)


@lru_cache(maxsize=256)
def _element_turns(program: Program) -> int:
    """Turns of the loops that one element of a row takes, where the program itself says it."""
    return Turns.always(expand_unsupported(program, lambda opcode, dtype: False)).most() or 0


def _parts(program: Program, lanes: int, length: int, limits: Limits) -> int:
    if limits.software:
        own, most = 1 + UNROLLED * _element_turns(program), limits.loop_turns
        fewest = -(-length * own // most) if most else 2  # a quarter of the turns a slice may take
        return max(fewest, min(length // 1024, max(1, 4096 // lanes)))
    return max(2, min(length // 16384, 8 * (limits.parallelism or 64) // lanes))


def _sizes(program: Program, grid: Sequence[int]) -> tuple[int, int]:
    outer = program.rank - program.reduced
    return prod(grid[:outer]), prod(grid[outer:])


def split_rows(step: Step, limits: Limits, parts: int | None = None) -> Plan:
    """The steps that compute what `step`, a row program, does, over its operands.

    `parts` is chosen from the limits if not given.
    """
    return _Splitter(step.program, step, limits, parts).split()


def _carrier(dtype: DType) -> DType:
    """The dtype partial results are kept in: wide enough, and never packed."""
    return u32 if dtype == bool_ else dtype.wide


class _Splitter:
    def __init__(self, program: Program, step: Step, limits: Limits, parts: int | None) -> None:
        self.program, self.step = program, step
        self.outer = program.rank - program.reduced
        self.lanes, length = _sizes(program, step.grid)
        row = step.grid[self.outer :]
        self.axis = self.outer + row.index(max(row))
        extent = step.grid[self.axis]
        wanted = min(parts or _parts(program, self.lanes, length, limits), extent)
        self.size = slice_length(extent, wanted)
        self.whole, self.rest = divmod(extent, self.size)
        self.parts = self.whole + (self.rest > 0)
        self.rows = rows(program)
        self.level = {r.result: k for k, p in enumerate(self.rows.phases) for r in p.reductions}
        self.numbers = dict(zip((s.name for s in program.scalars), step.scalars, strict=True))
        self.numbers |= {"slice_size": self.size, "slices": self.parts}
        self.numbers |= {f"row_extent_{k}": step.grid[k] for k in range(self.outer, program.rank)}
        self.partial: dict[int, BufferParameter] = {}
        self.folded: dict[int, BufferParameter] = {}
        self.scratch: list[Scratch] = []
        self.place = {b.name: k for k, b in enumerate(program.buffers)}
        for p in self.rows.phases:
            for r in p.reductions:
                number = len(self.partial)
                dtype = _carrier(r.type)
                self.partial[r.result] = self._memory(f"partial_{number}", dtype, self.lanes * self.parts)
                self.folded[r.result] = self._memory(f"folded_{number}", dtype, self.lanes)

    def _memory(self, name: str, dtype: DType, size: int) -> BufferParameter:
        self.place[name] = len(self.program.buffers) + len(self.scratch)
        self.scratch.append(Scratch(dtype, size))
        return BufferParameter(name, dtype, Access.READ_WRITE)

    def split(self) -> Plan:
        steps: list[Step] = []
        phases = self.rows.phases
        along = tuple(i for i in phases[-1].sweep if has_effect(i))
        folding = [k for k, p in enumerate(phases) if p.reductions]
        for k in folding:
            steps += self._slices(self._sweep(phases[k].reductions, k, f"part_{k}"))
            # Where nothing is stored along the row, the last fold stores what holds for the whole row as well.
            tail = self.rows.tail if k == folding[-1] and not along else ()
            steps.append(self._fold(phases[k].reductions, k, tail))
        if along:
            steps += self._slices(self._sweep(along, len(phases), "last"))
            if self.rows.tail:
                steps.append(self._uniform())
        return Plan(tuple(steps), tuple(self.scratch))

    # Programs.

    def _needed(self, roots: Iterable[Instruction]) -> Block:
        """The instructions the roots need; reductions other than roots are read from memory, so end there."""
        chosen = set(map(id, roots))

        def read(i: Instruction) -> bool:
            return i.opcode in REDUCTIONS and id(i) not in chosen

        needed = sources(self.program.body.instructions, (), keep=lambda i: id(i) in chosen, ends=read)
        return Block(tuple(replace(i, operands=()) if read(i) else i for i in needed))

    def _sweep(self, roots: Sequence[Instruction], level: int, suffix: str) -> Program:
        """Over the outer axes, the slices, and the row's axes, that of the slices cut short."""

        def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
            if i.opcode is Opcode.COORDINATE:
                k = int(i.attribute or 0)
                here = b.coordinate(k if k < self.outer else k + 1)
                if k != self.axis:
                    return here
                return (
                    b.scalar("slice_start", index)
                    + b.coordinate(self.outer) * b.scalar("slice_size", index)
                    + here
                )
            if i.opcode in REDUCTIONS and self.level[i.result] == level:
                carrier = _carrier(i.type)
                value = b.emit(i.opcode, carrier, operands[0].to(carrier))
                slot = b.scalar("slice_first", index) + b.coordinate(self.outer)
                b.store(self.partial[i.result], self._row(b) * b.scalar("slices", index) + slot, value)
                return value
            return self._shared(b, i)

        return self._program(
            suffix, self.outer + 1 + self.program.reduced, self.program.reduced, self._needed(roots), rule
        )

    def _fold(self, reductions: Sequence[Instruction], level: int, tail: Sequence[Instruction]) -> Step:
        """Over the outer axes and, as the row, the slices."""

        def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
            if i.opcode in REDUCTIONS and self.level[i.result] == level:
                at = self._row(b) * b.extent(self.outer) + b.coordinate(self.outer)
                value = b.emit(i.opcode, _carrier(i.type), b.load(self.partial[i.result], at))
                if not tail:
                    b.store(self.folded[i.result], self._row(b), value)
                return value.to(i.type)
            return self._shared(b, i)

        # The operands of this phase's reductions were folded by the sweep.
        wanted = self._needed(tail)
        own = {r.result for r in reductions}
        kept = tuple(i for i in wanted.instructions if not own & set(i.results))
        block = Block((*(replace(r, operands=()) for r in reductions), *kept))
        program = self._program(f"fold_{level}", self.outer + 1, 1, block, rule)
        return self._step(program, (*self.step.grid[: self.outer], self.parts))

    def _uniform(self) -> Step:
        """Over the outer axes: what is stored once a row."""
        outer = max(self.outer, 1)
        program = self._program(
            "tail", outer, 0, self._needed(self.rows.tail), lambda b, i, _: self._shared(b, i)
        )
        return self._step(program, self.step.grid[: self.outer] or (1,))

    def _row(self, b: Builder) -> Value:
        """The number of the row."""
        row = b.constant(0, index)
        for k in range(self.outer):
            row = b.coordinate(k) if k == 0 else row * b.extent(k) + b.coordinate(k)
        return row

    def _shared(self, b: Builder, i: Instruction) -> Value | None:
        """What every program does alike: reads folded reductions, and knows the original sizes."""
        if i.opcode in REDUCTIONS:
            return b.load(self.folded[i.result], self._row(b)).to(i.type)
        if i.opcode is Opcode.EXTENT and int(i.attribute or 0) >= self.outer:
            return b.scalar(f"row_extent_{i.attribute}", index)
        return self._row(b) if i.opcode is Opcode.LANE else None

    def _program(self, suffix: str, rank: int, reduced: int, body: Block, rule: Any) -> Program:
        memories = (*self.partial.values(), *self.folded.values())
        program = replace(
            self.program,
            name=f"{self.program.name}_{suffix}",
            buffers=self.program.buffers + memories,
            rank=rank,
            reduced=reduced,
            body=body,
        )
        program = rewrite(program, rule)
        touched, read = named(program, BUFFER_ACCESSES), named(program, {Opcode.SCALAR})
        scratch, stored = {m.name for m in memories}, named(program, {Opcode.STORE})

        def access(b: BufferParameter) -> BufferParameter:
            if b.name not in scratch:
                return b
            return replace(b, access=Access.WRITE if b.name in stored else Access.READ)

        return replace(
            program,
            buffers=tuple(access(b) for b in program.buffers if b.name in touched),
            scalars=tuple(s for s in program.scalars if s.name in read),
        )

    # Steps.

    def _slices(self, program: Program) -> list[Step]:
        """The launch over the whole slices and, where the row does not come out even, over what remains."""
        launches = []
        grid = list(self.step.grid)
        if self.whole:
            launches.append((0, 0, self.whole, self.size))
        if self.rest:
            launches.append((self.whole * self.size, self.whole, 1, self.rest))
        steps = []
        for start, first, count, size in launches:
            sizes = (*grid[: self.axis], size, *grid[self.axis + 1 :])
            whole_grid = (*sizes[: self.outer], count, *sizes[self.outer :])
            steps.append(self._step(program, whole_grid, slice_start=start, slice_first=first))
        return steps

    def _step(self, program: Program, grid: Sequence[int], **numbers: int) -> Step:
        known = self.numbers | numbers
        operands = tuple(self.place[b.name] for b in program.buffers)
        return Step(program, operands, tuple(known[s.name] for s in program.scalars), tuple(grid))


def _apply(step: Step, goal: Goal) -> Step | Plan:
    assert goal.limits is not None
    if goal.parts is None and not should_split(step.kernel, step.grid, goal.limits):
        return step
    return split_rows(step, goal.limits, goal.parts)


def _tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    return replace(goal, parts=3), trial, trial


SPREAD = Pass(
    "split few long rows",
    "a fold of a row is a fold of the folds of its slices",
    Stage.PLAN,
    _apply,
    # Where the device does not do that itself.
    wanted=lambda goal: goal.limits is not None and not goal.limits.splits_rows,
    promise=Promise(REDUCTIONS, ulp=8.0),
    tried=_tried,
)
