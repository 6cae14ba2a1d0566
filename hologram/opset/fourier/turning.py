"""Complex numbers turned about 0, and scaled, in programs."""

from __future__ import annotations

import cmath
import math

from hologram.atlas import complex_parts
from hologram.atlas.builder import Value


def turned(z: Value, angle: float) -> Value:
    """A number times e^(2 pi i angle)."""
    quarters = angle * 4.0
    if quarters == round(quarters):
        x, y = complex_parts.real(z), complex_parts.imag(z)
        return (z, complex_parts.pair(-y, x), -z, complex_parts.pair(y, -x))[int(quarters) % 4]
    return z * z.builder.constant(cmath.exp(2j * math.pi * angle), z.dtype)


def scaled(z: Value, scale: Value) -> Value:
    """A complex number times a real one."""
    return complex_parts.pair(complex_parts.real(z) * scale, complex_parts.imag(z) * scale)
