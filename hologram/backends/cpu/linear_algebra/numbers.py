"""Numbers in registers, real or complex, one or a vector of them; and matrices of such in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.writer import Writer, literal, register_type
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen(eq=False)
class Field:
    """Writes what happens to numbers of a dtype; vectors have so many lanes."""

    w: Writer
    dtype: DType
    lanes: int

    @property
    def part(self) -> DType:
        return self.dtype.part

    @property
    def count(self) -> int:
        """Of parts."""
        return 2 if self.dtype.is_complex else 1

    @property
    def scalar(self) -> str:
        return register_type(self.part)

    def type(self, lanes: int) -> str:
        return self.scalar if lanes == 1 else f"<{lanes} x {self.scalar}>"

    def _suffix(self, lanes: int) -> str:
        return f"f{self.part.bits}" if lanes == 1 else f"v{lanes}f{self.part.bits}"

    def binary(self, operation: str, x: str, y: str, lanes: int = 1) -> str:
        return self.w(f"{operation} {self.type(lanes)} {x}, {y}")

    def negated(self, x: str, lanes: int = 1) -> str:
        return self.w(f"fneg {self.type(lanes)} {x}")

    def fused(self, x: str, y: str, z: str, lanes: int = 1) -> str:
        """x y + z."""
        kind = self.type(lanes)
        return self.w.intrinsic(f"llvm.fmuladd.{self._suffix(lanes)}", kind, (kind, x), (kind, y), (kind, z))

    def function(self, name: str, *operands: str) -> str:
        """One of LLVM's, of real numbers."""
        return self.w.intrinsic(
            f"llvm.{name}.{self._suffix(1)}", self.scalar, *((self.scalar, x) for x in operands)
        )

    def wide(self, name: str, *operands: str) -> str:
        """The same, of vectors."""
        kind = self.type(self.lanes)
        return self.w.intrinsic(
            f"llvm.{name}.{self._suffix(self.lanes)}", kind, *((kind, x) for x in operands)
        )

    def picked(self, which: str, x: str, y: str) -> str:
        """Lanes of two vectors."""
        kind = self.type(self.lanes)
        return self.w(f"select <{self.lanes} x i1> {which}, {kind} {x}, {kind} {y}")

    def literal(self, x: float) -> str:
        return literal(x, self.part)

    def real(self, x: str | float) -> Number:
        """A real number, from a register or a constant."""
        return Number(self, (x if isinstance(x, str) else self.literal(x),))

    def number(self, x: float) -> Number:
        """A constant, with all parts."""
        return Number(self, (self.literal(x), self.literal(0.0))[: self.count])

    def zeros(self) -> Number:
        """A vector of zeros."""
        return Number(self, ("zeroinitializer",) * self.count, self.lanes)

    def compared(self, how: str, x: str, y: str | float) -> str:
        return self.w(f"fcmp {how} {self.scalar} {x}, {y if isinstance(y, str) else self.literal(y)}")

    def chosen(self, condition: str, x: str, y: str) -> str:
        return self.w(f"select i1 {condition}, {self.scalar} {x}, {self.scalar} {y}")

    def loop(
        self,
        start: str,
        stop: str,
        step: str,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], Sequence[str]],
    ) -> list[str]:
        """See Writer.loop. It stays as it is written: unrolled by LLVM it takes as long, and 2.5 times to compile."""
        return self.w.loop(start, stop, step, carried, body, kept=True)

    def each(self, start: str, stop: str, body: Callable[[str], object], step: int = 1) -> None:
        """A loop that carries nothing."""

        def one(i: str, _: list[str]) -> Sequence[str]:
            body(i)
            return ()

        self.loop(start, stop, str(step), (), one)

    def carried(self, z: Number) -> list[tuple[str, str]]:
        """As what a loop carries."""
        return [(self.type(z.lanes), x) for x in z.parts]


@frozen(eq=False)
class Number:
    """Its parts in registers; a real one may meet complex ones."""

    of: Field
    parts: tuple[str, ...]
    lanes: int = 1

    @property
    def real(self) -> str:
        return self.parts[0]

    @property
    def imaginary(self) -> str:
        return self.parts[1] if len(self.parts) > 1 else self.of.literal(0.0)

    def _with(self, parts: Sequence[str]) -> Number:
        return Number(self.of, tuple(parts), self.lanes)

    def _joined(self, operation: str, other: Number) -> Number:
        f, few = self.of, min(len(self.parts), len(other.parts))
        both = [f.binary(operation, x, y, self.lanes) for x, y in zip(self.parts, other.parts, strict=False)]
        rest = self.parts[few:] or [
            f.negated(y, self.lanes) if operation == "fsub" else y for y in other.parts[few:]
        ]
        return self._with([*both, *rest])

    def __add__(self, other: Number) -> Number:
        return self._joined("fadd", other)

    def __sub__(self, other: Number) -> Number:
        return self._joined("fsub", other)

    def __neg__(self) -> Number:
        return self._with([self.of.negated(x, self.lanes) for x in self.parts])

    def __mul__(self, other: Number) -> Number:
        f, lanes = self.of, self.lanes
        if len(self.parts) < len(other.parts):
            return other * self
        if len(other.parts) == 1:
            return self._with([f.binary("fmul", x, other.real, lanes) for x in self.parts])
        re, im = (f.binary("fmul", self.real, y, lanes) for y in other.parts)
        turned = f.negated(self.imaginary, lanes)
        return self._with(
            [f.fused(turned, other.imaginary, re, lanes), f.fused(self.imaginary, other.real, im, lanes)]
        )

    def over(self, divisor: str) -> Number:
        """By a real one."""
        return self._with([self.of.binary("fdiv", x, divisor, self.lanes) for x in self.parts])

    def conjugate(self) -> Number:
        return self._with([self.real, *(self.of.negated(x, self.lanes) for x in self.parts[1:])])

    def plus(self, x: Number, y: Number) -> Number:
        """This and x y, all complex or all real, or x real."""
        f, lanes = self.of, self.lanes
        parts = [f.fused(x.real, y.parts[k], part, lanes) for k, part in enumerate(self.parts)]
        if len(x.parts) > 1:
            parts[0] = f.fused(f.negated(x.imaginary, lanes), y.imaginary, parts[0], lanes)
            parts[1] = f.fused(x.imaginary, y.real, parts[1], lanes)
        return self._with(parts)

    def square(self) -> str:
        """|z|^2."""
        f, lanes = self.of, self.lanes
        made = f.binary("fmul", self.real, self.real, lanes)
        return made if len(self.parts) == 1 else f.fused(self.imaginary, self.imaginary, made, lanes)

    def spread(self) -> Number:
        """A vector of copies."""
        f = self.of
        kind, zeros = f.type(f.lanes), f"<{f.lanes} x i32> zeroinitializer"
        made = []
        for x in self.parts:
            one = f.w(f"insertelement {kind} poison, {f.scalar} {x}, i32 0")
            made.append(f.w(f"shufflevector {kind} {one}, {kind} poison, {zeros}"))
        return Number(f, tuple(made), f.lanes)

    def summed(self) -> Number:
        """The sum of a vector."""
        f, kind = self.of, self.of.type(self.lanes)
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{f.part.bits}"
        f.w.declarations.add(f"declare {f.scalar} @{name}({f.scalar}, {kind})")
        zero = f.literal(0.0)
        return Number(
            f,
            tuple(f.w(f"call reassoc {f.scalar} @{name}({f.scalar} {zero}, {kind} {x})") for x in self.parts),
        )


@frozen(eq=False)
class Matrix:
    """Where numbers lie: rows so many numbers apart; parts of a number beside one another, or in planes."""

    of: Field
    address: str
    row: str = "0"  # numbers from row to row
    plane: str = "0"  # elements from the real part to the imaginary; 0: they lie side by side
    is_real: bool = False

    def _place(self, i: str, j: str, part: int) -> str:
        f, w = self.of, self.of.w
        beside = self.plane == "0" and not self.is_real and f.count > 1
        position = w.i64("add", w.i64("mul", i, self.row), j) if self.row != "0" else j
        if beside:
            position = w.i64("add", w.i64("mul", position, 2), part)
        elif part:
            position = w.i64("add", position, self.plane)
        return w.element(self.address, f.scalar, position)

    def _each(self, i: str, j: str) -> list[str]:
        return [self._place(i, j, part) for part in range(1 if self.is_real else self.of.count)]

    def at(self, i: str, j: str) -> Number:
        f = self.of
        return Number(
            f, tuple(f.w(f"load {f.scalar}, ptr {p}, align {f.part.itemsize}") for p in self._each(i, j))
        )

    def put(self, z: Number, i: str, j: str) -> None:
        for x, place in zip(z.parts, self._each(i, j), strict=False):
            self.of.w.do(f"store {self.of.scalar} {x}, ptr {place}, align {self.of.part.itemsize}")

    def vector(self, i: str, j: str) -> Number:
        """As many as lanes; parts lie in planes."""
        f = self.of
        kind = f.type(f.lanes)
        loaded = (f.w(f"load {kind}, ptr {p}, align {f.part.itemsize}") for p in self._each(i, j))
        return Number(f, tuple(loaded), f.lanes)

    def put_vector(self, z: Number, i: str, j: str) -> None:
        f = self.of
        for x, place in zip(z.parts, self._each(i, j), strict=False):
            f.w.do(f"store {f.type(f.lanes)} {x}, ptr {place}, align {f.part.itemsize}")

    def line(self, i: str) -> Matrix:
        """A row as a list, whose numbers are at(_, j)."""
        f = self.of
        start = f.w.i64("mul", i, self.row)
        if self.plane == "0" and not self.is_real and f.count > 1:
            start = f.w.i64("mul", start, 2)
        return Matrix(f, f.w.element(self.address, f.scalar, start), "0", self.plane, self.is_real)

    def item(self, j: str) -> Number:
        """Of a list."""
        return self.at("0", j)

    def set(self, z: Number, j: str) -> None:
        self.put(z, "0", j)
