"""Code for products as in blocks.py, with x as integers of 8 bits: four neighbours a step, not two.

An element of x is off by at most 1/254 of the largest of 32 neighbours (llama.cpp's products round x alike). Codes are
unsigned and x is signed, as processors multiply bytes; signed codes are lifted above 0, and what that adds is taken
away with the offsets. Without instructions that add products of bytes to i32 (VNNI), sums of two products are i16,
which add up until they could overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.packed.blocks import Blocks
from hologram.backends.cpu.packed.decoding import Machine, splat
from hologram.backends.cpu.packed.unpacking import QUAD
from hologram.foundation.dtypes import DType
from hologram.opset.packed.formats import UNIT, Format

_LARGEST_SHORT, _LARGEST_BYTE = 32767, 127
# Sums of two products of unsigned and signed bytes, by bits of the vector.
_MULTIPLIES = {256: "llvm.x86.avx2.pmadd.ub.sw", 512: "llvm.x86.avx512.pmaddubs.w.512"}


def lift_of(format: Format) -> int:
    """What is added to what codes stand for, so that it is not negative."""
    return -min(format.table) if format.table else 128 * format.signed


def steps_at_once(format: Format, machine: Machine) -> int:
    """Steps whose sums of two products i16 holds; 0: not even one, or the processor does not multiply bytes."""
    if machine.architecture != "x86" or machine.bits < 256:
        return 0
    if machine.adds_products:
        return UNIT // QUAD
    largest = max(format.table) + lift_of(format) if format.table else (1 << format.bits + format.high) - 1
    return min(UNIT // QUAD, _LARGEST_SHORT // (2 * _LARGEST_BYTE * largest))


class ByteBlocks(Blocks):
    """Writes the functions, for a format of which `steps_at_once` is not 0."""

    integer_bits = 8

    def __init__(self, format: Format, dtype: DType, machine: Machine) -> None:
        self.lift = lift_of(format)
        self.at_once = steps_at_once(format, machine)
        super().__init__(replace(format, table=tuple(x + self.lift for x in format.table)), dtype, machine)

    @property
    def steps(self) -> int:
        return UNIT // QUAD

    @property
    def step_type(self) -> str:
        return f"<{QUAD * self.lanes} x i8>"

    @property
    def has_offsets(self) -> bool:
        return super().has_offsets or bool(self.lift)

    def centre(self, w: Writer, places: dict[str, str], entry: str, count: int, number: str) -> str | None:
        """What codes are counted from, with what they are lifted by."""
        below = super().centre(w, places, entry, count, number)
        if not self.lift:
            return below
        lift = f"{float(self.lift):.1f}" if count == 1 else splat(count, number, f"{float(self.lift):.1f}")
        type_ = number if count == 1 else f"<{count} x {number}>"
        return lift if below is None else w(f"fadd {type_} {below}, {lift}")

    def _codes_of(self, w: Writer, unit: str) -> list[str]:
        quads = self._bytes_of(w, unit)
        if not self.format.signed:
            return quads
        return [w(f"xor {self.step_type} {quad}, {splat(QUAD * self.lanes, 'i8', 128)}") for quad in quads]

    def _totals(self, w: Writer, rows: int, x: str, steps: str, own: range) -> list[str]:
        totals, at_once = ["zeroinitializer"] * rows, min(self.at_once, len(own))
        for first in range(own.start, own.stop, at_once):
            numbers = range(first, min(first + at_once, own.stop))
            codes = [self._step_codes(w, steps, k) for k in numbers]
            for r in range(rows):
                every = [self._step_of(w, x, r, k) for k in numbers]
                totals[r] = self._added_up(w, totals[r], codes, every)
        return totals

    def _added_up(self, w: Writer, total: str, codes: Sequence[str], x: Sequence[str]) -> str:
        """A total with the products of some steps."""
        words, bits = self.lane_words, 32 * self.lanes
        if self.machine.adds_products:
            for pair in zip(codes, x, strict=True):
                one, other = (w(f"bitcast {self.step_type} {v} to {words}") for v in pair)
                total = w.intrinsic(
                    f"llvm.x86.avx512.vpdpbusd.{bits}", words, (words, total), (words, one), (words, other)
                )
            return total
        name, shorts, sum_ = _MULTIPLIES[bits], f"<{2 * self.lanes} x i16>", None
        for one, other in zip(codes, x, strict=True):
            product = w.intrinsic(name, shorts, (self.step_type, one), (self.step_type, other))
            sum_ = product if sum_ is None else w(f"add {shorts} {sum_}, {product}")
        assert sum_ is not None
        return w(
            f"add {words} {total}, {self.multiplied(w, sum_, splat(2 * self.lanes, 'i16', 1), self.lanes)}"
        )
