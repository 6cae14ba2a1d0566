"""Complex numbers in Atlas programs; of a real number the real part is itself, the imaginary part 0."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.builder import Number, Value
from hologram.atlas.functions import absolute, select, sqrt
from hologram.atlas.opcodes import Opcode


def real(z: Value) -> Value:
    """The real part."""
    return z.builder.emit(Opcode.REAL, z.dtype.part, z) if z.dtype.is_complex else z


def imag(z: Value) -> Value:
    """The imaginary part."""
    if z.dtype.is_complex:
        return z.builder.emit(Opcode.IMAG, z.dtype.part, z)
    return z.builder.constant(0, z.dtype)


def pair(x: Value, y: Value | Number) -> Value:
    """The complex number of two parts."""
    return x.builder.emit(Opcode.PAIR, x.dtype.complex, x, x.builder.value(y, x.dtype))


def conjugate(z: Value) -> Value:
    """The number mirrored at the real axis; a real number itself."""
    return pair(real(z), -imag(z)) if z.dtype.is_complex else z


def parts(z: Value) -> tuple[Value, ...]:
    """A number as what a loop can carry: its parts, one or two."""
    return (real(z), imag(z)) if z.dtype.is_complex else (z,)


def number(of: Sequence[Value]) -> Value:
    """The number of those parts."""
    return pair(*of) if len(of) == 2 else of[0]


def plus(total: Sequence[Value], x: Value) -> tuple[Value, ...]:
    """A sum of numbers as its parts."""
    return tuple(a + b for a, b in zip(total, parts(x), strict=True))


def less(total: Sequence[Value], x: Value) -> tuple[Value, ...]:
    """A difference of numbers as its parts."""
    return tuple(a - b for a, b in zip(total, parts(x), strict=True))


def polar(z: Value) -> tuple[Value, Value]:
    """A size and a phase whose product is z: of a real number itself and 1."""
    if not z.dtype.is_complex:
        return z, z.builder.constant(1.0, z.dtype)
    u, v = absolute(real(z)), absolute(imag(z))
    wide = select(u > v, u, select(v == v, v, u + v))
    whole = select(wide > 0.0, wide, select(wide == wide, 1.0, wide))
    x, y = real(z) / whole, imag(z) / whole
    size = sqrt(x * x + y * y)
    safe = select(size == 0.0, 1.0, size)
    return size * wide, pair(select(size == 0.0, 1.0, x / safe), y / safe)
