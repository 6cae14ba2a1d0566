"""What packed weights are, as Atlas programs: one weight, or four neighbours at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hologram.atlas.builder import Builder, Value, select
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
            return self._scaled(row, column, [self.codes.at(row, column).to(f32)])[0]
        quad, lane = column / 4, (column % 4).to(u32)
        word = self._bytes(row, quad / (UNIT // 4), quad % (UNIT // 4))
        return self._scaled(row, column, self._codes([(word >> (lane * 8)) & 255]))[0]

    def four(self, row: Value, unit: Value, quad: Value) -> list[Value]:
        """The four neighbours from 32 * unit + 4 * quad on."""
        first = unit * UNIT + quad * 4
        if self.format.code is not None:
            codes = [self.codes.at(row, first + k).to(f32) for k in range(4)]
        else:
            word = self._bytes(row, unit, quad)
            codes = self._codes([(word >> (8 * k)) & 255 for k in range(4)])
        return self._scaled(row, first, codes)

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

    def _scaled(self, row: Value, column: Value, codes: Sequence[Value]) -> list[Value]:
        """Codes of a group, the column of one of which is given, as weights."""
        format, width = self.format, 1 + self.format.minima
        group = column / format.group
        factor = group * width
        if format.zeros:
            codes = [code - self._byte(row, group) for code in codes]
        elif format.centre:
            codes = [code - format.centre for code in codes]
        block = column / format.block if format.block else self.builder.constant(0, index)
        scale = self.scales.at(row, block * width).to(f32)
        if format.factored:
            scale = scale * self._byte(row, factor).to(f32)
        weights = [scale * code.to(f32) for code in codes]
        if not format.minima:
            return weights
        minimum = self.scales.at(row, block * 2 + 1).to(f32)
        if format.factored:
            minimum = minimum * self._byte(row, factor + 1).to(f32)
        return [weight - minimum for weight in weights]

    def _byte(self, row: Value, number: Value) -> Value:
        """A signed byte of the plane `factors`, in i32."""
        word = self.factors.at(row, number / 4)
        return _signed((word >> ((number % 4).to(u32) * 8)) & 255)


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
