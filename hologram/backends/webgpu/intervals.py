"""Which elements of each buffer a launch can touch: interval arithmetic over a program's index expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.backends.webgpu.aliasing import ADDRESSING

Number = int | float | bool
Interval = tuple[int, int]  # both ends included


def _add(x: Interval, y: Interval) -> Interval:
    return x[0] + y[0], x[1] + y[1]


def _sub(x: Interval, y: Interval) -> Interval:
    return x[0] - y[1], x[1] - y[0]


def _mul(x: Interval, y: Interval) -> Interval:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _div(x: Interval, y: Interval) -> Interval | None:
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else None


def _rem(x: Interval, y: Interval) -> Interval | None:
    if x[0] < 0 or y[0] <= 0:
        return None
    return x if x[1] < y[0] else (0, min(x[1], y[1] - 1))


_RULES: dict[Opcode, Callable[..., Interval | None]] = {
    Opcode.ADD: _add,
    Opcode.SUB: _sub,
    Opcode.MUL: _mul,
    Opcode.DIV: _div,
    Opcode.REM: _rem,
    Opcode.MIN: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    Opcode.MAX: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    Opcode.MAD: lambda x, y, z: _add(_mul(x, y), z),
    Opcode.NEG: lambda x: (-x[1], -x[0]),
    Opcode.CONVERT: lambda x: x,
}


def _hull(x: Interval, y: Interval) -> Interval:
    return min(x[0], y[0]), max(x[1], y[1])


def _fits(interval: Interval, i: Instruction) -> bool:
    """Whether the result's dtype holds the interval; `index` arithmetic does not overflow."""
    if i.type.kind == "index":
        return True
    signed = i.type.kind == "int"
    low, high = (-(1 << i.type.bits - 1), 1 << i.type.bits - 1) if signed else (0, 1 << i.type.bits)
    return low <= interval[0] and interval[1] < high


@dataclass
class Reach:
    """Computes, for one page of a grid, the interval of positions each buffer is accessed at.

    `axes` gives the coordinates' intervals, `scalars` the launch's numbers by name. A buffer that is accessed at a
    position which is not index arithmetic (a gather) is missing from the result of `of`.
    """

    program: Program
    axes: Sequence[Interval]
    extents: Sequence[int]
    scalars: Mapping[str, Number]

    def of(self) -> dict[str, Interval]:
        self._known: dict[int, Interval] = {}
        self._reach: dict[str, Interval | None] = {}
        self._block(self.program.body)
        return {name: interval for name, interval in self._reach.items() if interval is not None}

    def _block(self, block: Block) -> None:
        for i in block.instructions:
            if i.opcode in ADDRESSING:
                self._access(str(i.attribute), self._known.get(i.operands[0]))
            if i.opcode is Opcode.LOOP:
                self._loop(i)
            for inner in i.blocks:
                self._block(inner)
            found = self._value(i) if len(i.results) == 1 else None
            if found is not None:
                self._known[i.result] = found

    def _access(self, buffer: str, position: Interval | None) -> None:
        before = self._reach.get(buffer, position)
        self._reach[buffer] = None if position is None or before is None else _hull(position, before)

    def _loop(self, i: Instruction) -> None:
        start, stop = self._known.get(i.operands[0]), self._known.get(i.operands[1])
        if start is not None and stop is not None:
            self._known[i.blocks[0].arguments[0]] = start[0], max(start[0], stop[1] - 1)

    def _value(self, i: Instruction) -> Interval | None:
        attribute = i.attribute
        if i.opcode is Opcode.CONSTANT:
            return (int(attribute), int(attribute)) if isinstance(attribute, int) else None
        if i.opcode is Opcode.SCALAR:
            number = self.scalars[str(attribute)]
            return (int(number), int(number)) if isinstance(number, int) else None
        if i.opcode is Opcode.COORDINATE:
            return self.axes[int(attribute or 0)]
        if i.opcode is Opcode.EXTENT:
            return self.extents[int(attribute or 0)], self.extents[int(attribute or 0)]
        if i.opcode is Opcode.LANE:
            return self._lane()
        if i.type.is_float or i.type.kind == "bool":
            return None
        if i.opcode is Opcode.SELECT:
            x, y = self._known.get(i.operands[1]), self._known.get(i.operands[2])
            return None if x is None or y is None else _hull(x, y)
        rule = _RULES.get(i.opcode)
        operands = [self._known.get(o) for o in i.operands]
        found = rule(*operands) if rule is not None and None not in operands else None
        return found if found is not None and _fits(found, i) else None

    def _lane(self) -> Interval:
        low = high = 0
        for axis in range(self.program.rank - self.program.reduced):
            low = low * self.extents[axis] + self.axes[axis][0]
            high = high * self.extents[axis] + self.axes[axis][1]
        return low, high
