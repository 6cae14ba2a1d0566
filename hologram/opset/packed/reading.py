"""What packed weights are, as Atlas programs: one weight, or the product of a unit of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.foundation.dtypes import f32, i32, index, u32
from hologram.foundation.frozen import frozen
from hologram.opset.packed.formats import UNIT, Format

BYTES = 0x01010101  # times a mask of 8 bits: that of four bytes


@frozen(eq=False)
class Weights:
    """A packed matrix as a program reads it; planes have `at(row, position)` and `extent(axis)`."""

    format: Format
    codes: Any
    scales: Any
    high: Any = None
    factors: Any = None

    @property
    def builder(self) -> Builder:
        return self.codes.builder

    def at(self, row: Value, column: Value) -> Value:
        """The weight there, in f32."""
        if self.format.code is not None:
            return self._scaled(row, column, self.codes.at(row, column).to(f32))
        quad, lane = column / 4, (column % 4).to(u32)
        word = self._bytes(row, quad / (UNIT // 4), quad % (UNIT // 4))
        return self._scaled(row, column, self._codes([(word >> (lane * 8)) & 255])[0])

    def dot(self, row: Value, unit: Value, x: Callable[[int], Value]) -> Value:
        """The sum of the 32 weights of a unit, each times x of its number in it.

        Codes are added up as they are, group by group, and scaled then.
        """
        width = math.gcd(self.format.group, UNIT)
        codes, total = self._unit(row, unit), None
        for first in range(0, UNIT, width):
            part = range(first, first + width)
            neighbours = [x(k) for k in part]
            scale, offset = self._terms(row, unit * UNIT + first)
            value = scale * sum_of([codes[k].to(f32) * y for k, y in zip(part, neighbours, strict=True)])
            if offset is not None:
                value = value - offset * sum_of(neighbours)
            total = value if total is None else total + value
        assert total is not None
        return total

    def _unit(self, row: Value, unit: Value) -> list[Value]:
        """What the 32 codes of a unit stand for; every word of them is read once."""
        if self.format.code is not None:
            return [self.codes.at(row, unit * UNIT + k).to(f32) for k in range(UNIT)]
        words = self._words(self.codes, self.format.bits, row, unit)
        if self.format.high:
            above = self._words(self.high, self.format.high, row, unit)
            words = [low | (high << self.format.bits) for low, high in zip(words, above, strict=True)]
        return self._codes([(word >> (8 * k)) & 255 for word in words for k in range(4)])

    @staticmethod
    def _words(plane: Any, bits: int, row: Value, unit: Value) -> list[Value]:
        """The codes of `bits` bits of a unit from a plane, as the bytes of eight words."""
        stored = [plane.at(row, unit * bits + k) for k in range(bits)]
        if bits == 8:
            return stored
        mask = BYTES * ((1 << bits) - 1)
        return [(stored[quad % bits] >> (quad // bits * bits)) & mask for quad in range(UNIT // 4)]

    def _bytes(self, row: Value, unit: Value, quad: Value) -> Value:
        """The codes of four neighbours, as the four bytes of a word."""
        low = _plane(self.codes, self.format.bits, row, unit, quad)
        if not self.format.high:
            return low
        return low | (_plane(self.high, self.format.high, row, unit, quad) << self.format.bits)

    def _codes(self, codes: Sequence[Value]) -> list[Value]:
        """What codes stand for, in i32."""
        if self.format.table:
            return [_signed(_looked_up(self.format.table, code)) for code in codes]
        return [_signed(code) if self.format.signed else code.to(i32) for code in codes]

    def _scaled(self, row: Value, column: Value, code: Value) -> Value:
        """The weight of a code in a column, in the order of operations of the format's definition."""
        if self.format.zeros:
            code = code - self._byte(row, column / self.format.group)
        elif self.format.centre:
            code = code - self.format.centre
        scale, minimum = self._factors(row, column)
        weight = scale * code.to(f32)
        return weight if minimum is None else weight - minimum

    def _terms(self, row: Value, column: Value) -> tuple[Value, Value | None]:
        """Of the group of a column: what codes are multiplied by, and what is taken away then."""
        scale, minimum = self._factors(row, column)
        offsets = [] if minimum is None else [minimum]
        if self.format.zeros:
            offsets.append(scale * self._byte(row, column / self.format.group).to(f32))
        elif self.format.centre:
            offsets.append(scale * float(self.format.centre))
        return scale, sum_of(offsets) if offsets else None

    def _factors(self, row: Value, column: Value) -> tuple[Value, Value | None]:
        """The scale and the minimum of the group of a column."""
        format, width = self.format, 1 + self.format.minima
        factor = column / format.group * width
        block = column / format.block if format.block else self.builder.constant(0, index)
        scale = self.scales.at(row, block * width).to(f32)
        if format.factored:
            scale = scale * self._byte(row, factor).to(f32)
        if not format.minima:
            return scale, None
        minimum = self.scales.at(row, block * 2 + 1).to(f32)
        return scale, minimum * self._byte(row, factor + 1).to(f32) if format.factored else minimum

    def _byte(self, row: Value, number: Value) -> Value:
        """A signed byte of the plane `factors`, in i32."""
        word = self.factors.at(row, number / 4)
        return _signed((word >> ((number % 4).to(u32) * 8)) & 255)


def sum_of(values: Sequence[Value]) -> Value:
    """The sum, by halves: additions one after the other would wait for each other."""
    middle = len(values) // 2
    return values[0] if middle == 0 else sum_of(values[:middle]) + sum_of(values[middle:])


def _plane(plane: Any, bits: int, row: Value, unit: Value, quad: Value) -> Value:
    """Four codes of `bits` bits from a plane, as the bytes of a word."""
    word = plane.at(row, unit * bits + quad % bits).to(u32)
    if bits == 8:
        return word
    return (word >> ((quad / bits).to(u32) * bits)) & (BYTES * ((1 << bits) - 1))


def _signed(byte: Value) -> Value:
    """The lowest byte of a word, signed, in i32."""
    return (byte.to(i32) << 24) >> 24


def _looked_up(table: Sequence[int], code: Value) -> Value:
    """The byte of a table of 16 that a code stands for; it lies in four words."""
    words = [
        sum((entry & 255) << (8 * k) for k, entry in enumerate(table[first : first + 4]))
        for first in range(0, 16, 4)
    ]
    b = code.builder
    lower = select(code < 4, b.constant(words[0], u32), words[1])
    upper = select(code < 12, b.constant(words[2], u32), words[3])
    return (select(code < 8, lower, upper) >> ((code & 3) * 8)) & 255
