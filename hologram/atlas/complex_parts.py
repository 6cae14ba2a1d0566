"""Complex numbers in Atlas programs; of a real number the real part is itself, the imaginary part 0."""

from __future__ import annotations

from hologram.atlas.builder import Number, Value
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
