"""Small element-wise launches of different sizes that do not depend on each other, as one that shares out its lanes.

Where a launch is dear and its work is little, as when an optimiser updates many small tensors, this pays. The lanes of
a part lie between two scalars of the launch, so one kernel serves all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import ATOMICS, MEETINGS, Opcode
from hologram.atlas.program import Access, Instruction, Program, ScalarParameter
from hologram.atlas.rewrite import write_into
from hologram.compiler.analysis import cost
from hologram.foundation import dtypes
from hologram.machine.limits import Limits
from hologram.machine.plan import Step

# Lanes that may be dealt out by division, where launches are cheap and where they are not.
TINY, SMALL = 512, 1 << 14
CHEAP = 4096  # instructions, one lane after the other, that cost no more than a cheap launch: branches have no vectors
MOST_LANES = 1 << 18  # of a launch that is short beside what a launch costs
_UNFIT = ATOMICS | MEETINGS | {Opcode.WORKGROUP, Opcode.THREAD}


def bundles(steps: Sequence[Step], limits: Limits, most_buffers: int) -> list[list[int]]:
    """Which steps run together, in the order of their first ones; a step runs at the place of its bundle's first.

    A step joins a bundle if it conflicts with no step from there on.
    """
    so_far: list[list[int]] = []
    for k, step in enumerate(steps):
        host = _host(so_far, steps, k, limits, most_buffers) if _small(step, limits) else None
        if host is None:
            so_far.append([k])
        else:
            host.append(k)
    return so_far


def _host(
    so_far: list[list[int]], steps: Sequence[Step], k: int, limits: Limits, most_buffers: int
) -> list[int] | None:
    """The last bundle that a step can join; where launches are cheap, one that reads what it reads."""
    for bundle in reversed(so_far):
        if any(_conflict(steps[j], steps[k]) for j in bundle):
            return None
        together = sum(len(steps[j].operands) for j in bundle) + len(steps[k].operands)
        alike = not limits.cheap_launches or any(_shared(steps[j], steps[k]) for j in bundle)
        if alike and _small(steps[bundle[0]], limits) and together <= most_buffers:
            return bundle
    return None


def _small(step: Step, limits: Limits) -> bool:
    program, lanes = step.kernel, math.prod(step.grid)
    if not isinstance(program, Program) or program.reduced or program.shared or program.opcodes & _UNFIT:
        return False
    if limits.cheap_launches and lanes * sum(map(cost.instructions, program.body.walk())) > CHEAP:
        return False
    if limits.cheap_launches:
        return lanes <= TINY
    return lanes <= (MOST_LANES if program.rank == 1 else SMALL)


def _shared(a: Step, b: Step) -> bool:
    """Whether two steps read the same memory."""
    return bool((set(a.operands) - _written(a)) & (set(b.operands) - _written(b)))


def _conflict(a: Step, b: Step) -> bool:
    """Whether the two must keep their order."""
    return bool(_written(a) & set(b.operands) or _written(b) & set(a.operands))


def _written(step: Step) -> set[int]:
    pairs = zip(step.operands, step.kernel.buffers, strict=True)
    return {k for k, b in pairs if b.access is not Access.READ}


def bundled(steps: Sequence[Step]) -> Step:
    """Steps as one: each a branch, for the lanes from its start to the next one's."""
    if len(steps) == 1:
        return steps[0]
    programs = [s.program for s in steps]
    sizes = [math.prod(s.grid) for s in steps]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    program = _program(programs)
    scalars = (*starts[1:], *(x for s in steps for x in (*s.grid, *s.scalars)))
    operands = tuple(k for s in steps for k in s.operands)
    return Step(program, operands, scalars, (sum(sizes),))


def _program(programs: Sequence[Program]) -> Program:
    b = Builder(f"{programs[0].name}_and_{len(programs) - 1}_more", rank=1)
    lane = b.coordinate(0)
    memory = [
        {p.name: b.buffer(f"{p.name}_{k}", p.dtype, p.access) for p in program.buffers}
        for k, program in enumerate(programs)
    ]
    # Named as no scalar of a program's is, as those end in the program's number.
    starts = [b.scalar(f"part_{k}_start", dtypes.index) for k in range(1, len(programs))]
    scalars: list[dict[str, tuple[ScalarParameter, ...]]] = []
    sizes: list[list[ScalarParameter]] = []
    for k, program in enumerate(programs):
        axes = range(program.rank)
        sizes.append([ScalarParameter(f"part_{k}_size_{axis}", dtypes.index) for axis in axes])
        own = {s.name: ScalarParameter(f"{s.name}_{k}", s.dtype) for s in program.scalars}
        for parameter in (*sizes[k], *own.values()):
            b.declare(parameter)
        scalars.append({name: (parameter,) for name, parameter in own.items()})

    def part(k: int) -> None:
        here = lane if k == 0 else lane - starts[k - 1]

        def size(builder: Builder, axis: int) -> Value:
            return builder.scalar(sizes[k][axis].name, dtypes.index)

        def rule(builder: Builder, i: Instruction, operands: list[Any]) -> Value | None:
            if i.opcode is Opcode.LANE:
                return here
            if i.opcode is Opcode.COORDINATE:
                axis, place = int(i.attribute), here  # pyright: ignore[reportArgumentType]
                for behind in reversed(range(axis + 1, len(sizes[k]))):
                    place = place // size(builder, behind)
                return place % size(builder, axis) if axis else place
            if i.opcode is Opcode.EXTENT:
                return size(builder, int(i.attribute))  # pyright: ignore[reportArgumentType]
            return None

        write_into(b, programs[k], rule, memory[k], scalars[k])

    def choose(k: int) -> None:
        if k == len(starts):
            part(k)
        else:
            b.if_(lane < starts[k], lambda: part(k), lambda: choose(k + 1))

    choose(0)
    return b.build()
