"""Vectors of complex numbers, real and imaginary parts apart: what transforms compute, and how they come and go."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer, literal, register_type
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen
class Vectors:
    """Writes what happens to vectors of so many lanes."""

    w: Writer
    part: DType  # f32 or f64
    lanes: int

    @property
    def scalar(self) -> str:
        return register_type(self.part)

    @property
    def type(self) -> str:
        return f"<{self.lanes} x {self.scalar}>"

    def all_of(self, x: float) -> str:
        """A constant of equal numbers."""
        return f"<{', '.join([f'{self.scalar} {literal(x, self.part)}'] * self.lanes)}>"

    def spread(self, value: str) -> str:
        """A vector of copies of a register."""
        one = self.w(f"insertelement {self.type} poison, {self.scalar} {value}, i32 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.w(f"shufflevector {self.type} {one}, {self.type} poison, {zeros}")

    def shuffled(self, x: str, y: str, picked: Sequence[int], lanes: int = 0) -> str:
        """Elements of two vectors of `lanes`."""
        kind = f"<{lanes or self.lanes} x {self.scalar}>"
        mask = f"<{len(picked)} x i32> <{', '.join(f'i32 {k}' for k in picked)}>"
        return self.w(f"shufflevector {kind} {x}, {kind} {y}, {mask}")

    def binary(self, operation: str, x: str, y: str) -> str:
        return self.w(f"{operation} {self.type} {x}, {y}")

    def negated(self, x: str) -> str:
        return self.w(f"fneg {self.type} {x}")

    def fused(self, x: str, y: str, z: str) -> str:
        """x y + z."""
        name = f"llvm.fmuladd.v{self.lanes}f{self.part.bits}"
        return self.w.intrinsic(name, self.type, *((self.type, v) for v in (x, y, z)))

    def product(self, z: Pair, re: str, im: str) -> Pair:
        """A product with a complex number."""
        below = self.w(f"fneg {self.type} {self.binary('fmul', z.im, im)}")
        return Pair(self, self.fused(z.re, re, below), self.fused(z.re, im, self.binary("fmul", z.im, re)))

    def load(self, address: str) -> Pair:
        """Parts that lie one behind the other."""
        return Pair(self, self._loaded(address, 0), self._loaded(address, 1))

    def _loaded(self, address: str, k: int) -> str:
        place = self.w.element(address, self.type, str(k))
        return self.w(f"load {self.type}, ptr {place}, align {self.part.itemsize}")

    def store(self, z: Pair, address: str) -> None:
        for k, part in enumerate((z.re, z.im)):
            place = self.w.element(address, self.type, str(k))
            self.w.do(f"store {self.type} {part}, ptr {place}, align {self.part.itemsize}")

    def load_numbers(self, address: str) -> Pair:
        """Complex numbers one behind the other."""
        both = self.w(f"load <{2 * self.lanes} x {self.scalar}>, ptr {address}, align {self.part.itemsize}")
        parts = [self.shuffled(both, both, range(k, 2 * self.lanes, 2), 2 * self.lanes) for k in (0, 1)]
        return Pair(self, *parts)

    def store_numbers(self, z: Pair, address: str) -> None:
        picked = [k // 2 + k % 2 * self.lanes for k in range(2 * self.lanes)]
        both = self.shuffled(z.re, z.im, picked)
        self.w.do(
            f"store <{2 * self.lanes} x {self.scalar}> {both}, ptr {address}, align {self.part.itemsize}"
        )

    def load_each(self, addresses: Sequence[str]) -> Pair:
        """A complex number from each address."""
        parts = []
        for k in (0, 1):
            vector = "poison"
            for lane, address in enumerate(addresses):
                place = self.w.element(address, self.scalar, str(k))
                value = self.w(f"load {self.scalar}, ptr {place}, align {self.part.itemsize}")
                vector = self.w(f"insertelement {self.type} {vector}, {self.scalar} {value}, i32 {lane}")
            parts.append(vector)
        return Pair(self, *parts)

    def store_each(self, z: Pair, addresses: Sequence[str]) -> None:
        for lane, address in enumerate(addresses):
            for k, part in enumerate((z.re, z.im)):
                value = self.w(f"extractelement {self.type} {part}, i32 {lane}")
                place = self.w.element(address, self.scalar, str(k))
                self.w.do(f"store {self.scalar} {value}, ptr {place}, align {self.part.itemsize}")

    def turned(self, rows: Sequence[Pair]) -> list[Pair]:
        """As many vectors as lanes: lane k of vector i becomes lane i of vector k."""
        parts = [self._turned([getattr(z, name) for z in rows]) for name in ("re", "im")]
        return [Pair(self, re, im) for re, im in zip(*parts, strict=True)]

    def _turned(self, rows: list[str]) -> list[str]:
        """A bit of the vector's number is exchanged with the same bit of the lane's at a time."""
        n, bit = self.lanes, 1
        while bit < n:
            low = [n + k - bit if k & bit else k for k in range(n)]
            high = [n + k if k & bit else k + bit for k in range(n)]
            for i in range(n):
                if not i & bit:
                    one, other = rows[i], rows[i + bit]
                    rows[i], rows[i + bit] = self.shuffled(one, other, low), self.shuffled(one, other, high)
            bit *= 2
        return rows


@frozen
class Pair:
    """Real and imaginary parts, in registers."""

    of: Vectors
    re: str
    im: str

    def __add__(self, other: Pair) -> Pair:
        return self._with("fadd", other)

    def __sub__(self, other: Pair) -> Pair:
        return self._with("fsub", other)

    def _with(self, operation: str, other: Pair) -> Pair:
        v = self.of
        return Pair(v, v.binary(operation, self.re, other.re), v.binary(operation, self.im, other.im))

    def __mul__(self, number: float) -> Pair:
        v = self.of
        factor = v.all_of(number)
        return Pair(v, v.binary("fmul", self.re, factor), v.binary("fmul", self.im, factor))


def turned(z: Pair, angle: float) -> Pair:
    """A number times e^(2 pi i angle)."""
    v, eighths = z.of, round(angle * 8 % 8, 9)
    if eighths == int(eighths):
        quarters, half = divmod(int(eighths) % 8, 2)
        if half:  # (1 + i) / sqrt(2)
            z = Pair(v, v.binary("fsub", z.re, z.im), v.binary("fadd", z.re, z.im)) * math.sqrt(0.5)
        if quarters >= 2:
            z = Pair(v, v.negated(z.re), v.negated(z.im))
        return Pair(v, v.negated(z.im), z.re) if quarters % 2 else z
    root = cmath.exp(2j * math.pi * angle)
    return v.product(z, v.all_of(root.real), v.all_of(root.imag))
