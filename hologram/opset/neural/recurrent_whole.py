"""All steps of a recurrence in one kernel, for devices whose threads need not wait at barriers: CPUs.

A workgroup is a sequence, a thread a column of its state, so the workgroup has as many threads as the state is wide:
the one size that is compiled in. What threads read of each other, the hidden state or the cotangents of the gates, is
in workgroup memory. A product's loop has a barrier in each turn: it costs nothing where a workgroup's threads are a
loop of one core, and makes that loop the inner one, which runs over neighbouring columns of the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program, SharedArray
from hologram.foundation import dtypes
from hologram.foundation.dtypes import Number
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Step
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place
from hologram.opset.neural import recurrent_cells as cells
from hologram.opset.neural.recurrent_cells import KEEPS, MOVING, WRITES, Cell, Kind

MOST_WEIGHTS = 65_536  # that stay in a core's own cache, where every sequence reads all of them
MOST_COLUMNS = 1024


def taken(kind: Kind, limits: Limits, weight: Layout, projected: bool) -> bool:
    """Whether the kernel is the faster way: larger weights are read once for all sequences by a product of the step."""
    small = weight.size <= MOST_WEIGHTS and weight.shape[1] <= MOST_COLUMNS
    return limits.host_resident and small and not projected


class Turn(Cell):
    """A step within the loop: what a step hands to the next are values here, and what it stores lies at its time."""

    def __init__(
        self, builder: Builder, operands: dict[str, Operand], time: Value, known: dict[str, Value]
    ) -> None:
        self.time = time
        self.known = known
        self.products: Sequence[Value] = ()
        self.handed: dict[str, Value] = {}
        super().__init__(
            builder, operands, builder.position(Opcode.WORKGROUP), builder.position(Opcode.THREAD)
        )
        assert builder.workgroup is not None
        self.width = builder.workgroup

    def now(self) -> Value:
        return self.time

    def place(self, name: str, *where: Value) -> tuple[Value, ...]:
        return (self.time, *where) if name in MOVING else where

    def of(self, name: str) -> Value | None:
        return self.known[name] if name in self.known else super().of(name)

    def parts(self, name: str, count: int) -> list[Value]:
        return list(self.products) if name == "product" else super().parts(name, count)

    def put(self, name: str, value: Value | None) -> None:
        if name in KEEPS and value is not None:
            self.handed[name] = value
        else:
            super().put(name, value)

    def put_parts(self, name: str, values: Sequence[Value]) -> None:
        if name == "parts":
            self.products = values
        else:
            super().put_parts(name, values)


def _summed(
    b: Builder, shared: SharedArray, weight: Operand, groups: Sequence[Term], count: int
) -> tuple[Value, ...]:
    """Sums over `count` terms of what is shared times the weight; a group says where each term of it lies in both."""

    def turn(k: Value, *sums: Value) -> Sequence[Value]:
        b.barrier()
        terms = (
            b.shared_load(shared, mine) * weight.at(*theirs)
            for mine, theirs in (group(k) for group in groups)
        )
        return [total + term for total, term in zip(sums, terms, strict=True)]

    return b.loop(0, count, turn, first=[b.constant(0, shared.dtype)] * len(groups))


Term = Callable[[Value], tuple[Value, tuple[Value, Value]]]
Described = tuple[tuple[str, Address, Access], ...]


@lru_cache(maxsize=256)
def _program(kind: Kind, back: bool, width: int, reverse: bool, described: Described) -> Program:
    dtype = described[0][1].dtype
    way = "backward" if back else "forward"
    b = Builder(f"atlas_{kind.name}_whole_{way}_{dtype}", rank=1, workgroup=width)
    operands = {n: Operand(b, n, address, access, address.dtype) for n, address, access in described}
    row, column = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    states = [n for n in operands if n in KEEPS]
    shared = b.shared("handed", dtype, width * (kind.gates if back else 1))
    times, weight = b.scalar("times", dtypes.index), operands["weight"]

    def at(base: Value, g: int) -> Value:
        return base + g * width if g else base

    def step(number: Value, *carried: Value) -> Sequence[Value]:
        # There and back they are met in opposite orders.
        time = times - 1 - number if reverse != back else number
        known = dict(zip(states, carried, strict=False))
        turn = Turn(b, operands, time, known)
        if back:
            product = carried[-1]
            turn.known["product"] = product
            cells.backward(kind, turn)
            for g, value in enumerate(turn.products):
                b.shared_store(shared, at(column, g), value)
            groups = [lambda k, g=g: (at(k, g), (at(k, g), column)) for g in range(kind.gates)]
            sums = _summed(b, shared, weight, groups, width)
            total = sums[0]
            for more in sums[1:]:
                total = total + more
            handed = (*(turn.handed[n] for n in states), total)
        else:
            b.shared_store(shared, column, known["hidden"])
            groups = [lambda k, g=g: (k, (k, at(column, g))) for g in range(kind.gates)]
            turn.products = _summed(b, shared, weight, groups, width)
            cells.forward(kind, turn)
            handed = tuple(turn.handed[n] for n in states)
        b.barrier()
        return handed

    first = [operands[n].at(row, column) for n in states]
    first += [b.constant(0, dtype)] if back else []
    last = b.loop(0, times, step, first=first)
    for name, value in zip(states, last, strict=False):
        operands[name].put(value + last[-1] if name == "by_hidden" else value, row, column)
    return b.build()


def whole(
    kind: Kind, operands: dict[str, Place | None], weight: Place, times: int, reverse: bool, *, back: bool,
    grid: tuple[int, int],
) -> Step:  # fmt: skip
    """The kernel of all times. On the way there `weight` has a column for each element of the gates."""
    given = {n: p for n, p in operands.items() if p is not None} | {"weight": weight}
    reads = {"kept"} if back else set()
    described = tuple((n, Address.of(p.layout), _access(n, reads)) for n, p in given.items())
    program = _program(kind, back, grid[1], reverse, described)
    numbers: dict[str, Number] = numbers_of(list(given), [p.layout for p in given.values()], {"times": times})
    step = step_of(program, range(len(given)), numbers, (grid[0] * grid[1],))
    return Step(program, tuple(p.position for p in given.values()), step.scalars, step.grid)


def _access(name: str, reads: set[str]) -> Access:
    if name in KEEPS:
        return Access.READ_WRITE
    return Access.WRITE if name in WRITES - reads else Access.READ
