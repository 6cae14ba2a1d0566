"""Formats of packed weights: each is one declaration, from which every backend's programs follow.

A weight is

    scale * factor * (code - centre) - minimum * offset

where `code` is an integer of few bits (or its entry in a table, or a number of 8 bits), `scale` and `minimum` are
floats that a block of neighbours along a row shares, and `factor` and `offset` integers that a group within it shares.
What a format has not is 1 or 0. Of integers with zero points, `centre` is an integer of each group.

Planes, the memory of a packed matrix, each with a row for each of its rows:

- `codes`, words of 32 bits. Of 32 neighbours with `bits` bits each, code k lies in byte k % (4 bits), shifted by
  bits * (k // (4 bits)): a word, shifted and masked, has four neighbours in its four bytes. Codes with a dtype of their
  own, floats and integers of 8 bits, lie one after the other.
- `high`, of codes with a number of bits that is no power of two: the upper bits, in the same order.
- `factors`, words of four signed bytes: factors, (factor, offset) pairs, or zero points.
- `scales`, floats: scales, or (scale, minimum) pairs.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hologram.foundation.dtypes import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i8, u32
from hologram.foundation.errors import UnsupportedDType
from hologram.foundation.frozen import frozen

UNIT = 32  # neighbours whose codes fill whole words
WORD = u32


@frozen
class Format:
    """How weights are packed; see the module."""

    name: str
    bits: int = 4  # of a code, in the plane `codes`
    high: int = 0  # and above them in the plane `high`
    centre: int = 0
    table: tuple[int, ...] = ()  # what codes stand for, where that is not themselves
    code: DType | None = None  # of codes that are elements of 8 bits
    group: int = 32  # neighbours that share a factor, an offset or a zero point; a multiple of 4
    block: int = 32  # neighbours that share a scale; a multiple of `group`; 0: a row
    scale: DType = f16
    minima: bool = False  # there is a minimum beside each scale
    factored: bool = False  # there is a factor, and with minima an offset
    zeros: bool = False  # there is a zero point

    @property
    def group_bytes(self) -> int:
        """Signed bytes that a group has."""
        return (1 + self.minima) * self.factored + self.zeros

    @property
    def signed(self) -> bool:
        """Whether codes are signed bytes."""
        return self.bits == 8 and (self.code is None or self.code.is_integer)

    @property
    def constants(self) -> tuple[tuple[str, int | float | bool], ...]:
        """What a hand-written kernel's prelude says of it; the dtypes of planes say the rest."""
        numbers = ("bits", "high", "centre", "group", "block", "minima", "factored", "zeros")
        table = tuple((f"ENTRY_{k}", entry) for k, entry in enumerate(self.table))
        return (*((name.upper(), getattr(self, name)) for name in numbers), *table)

    def groups(self, columns: int) -> int:
        """Groups of a row."""
        return -(-columns // self.group)

    def planes(self, rows: int, columns: int) -> dict[str, tuple[DType, tuple[int, ...]]]:
        """The planes of a matrix: dtype and shape of each."""
        units = -(-columns // UNIT)
        numbers = (-(-columns // self.block) if self.block else 1) * (1 + self.minima)
        codes = (WORD, (rows, units * self.bits)) if self.code is None else (self.code, (rows, units * UNIT))
        planes = {"codes": codes, "scales": (self.scale, (rows, numbers))}
        if self.high:
            planes["high"] = (WORD, (rows, units * self.high))
        if self.group_bytes:
            planes["factors"] = (WORD, (rows, -(-self.groups(columns) * self.group_bytes // 4)))
        return planes


# The values of the 16 codes, of ggml and of the Open Compute Project's microscaling formats (there halved).
_IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)

FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("Q8_0", bits=8),
        Format("Q4_0", centre=8),
        Format("Q4_1", minima=True),
        Format("Q5_0", high=1, centre=16),
        Format("Q5_1", high=1, minima=True),
        Format("Q2_K", bits=2, group=16, block=256, minima=True, factored=True),
        Format("Q3_K", bits=2, high=1, centre=4, group=16, block=256, factored=True),
        Format("Q4_K", block=256, minima=True, factored=True),
        Format("Q5_K", high=1, block=256, minima=True, factored=True),
        Format("Q6_K", high=2, centre=32, group=16, block=256, factored=True),
        Format("IQ4_NL", table=_IQ4_NL),
        Format("MXFP4", table=_E2M1, scale=bf16),
    )
}
# What arrays are quantised to. Behind it a name may say the scales' dtype, where that is not f32, and the number of
# neighbours that share a scale, where that is not a row.
_MADE = {
    "int8": Format("int8", bits=8, scale=f32),
    "int4": Format("int4", centre=8, scale=f32),
    "uint8": Format("uint8", bits=8, scale=f32, zeros=True),
    "uint4": Format("uint4", scale=f32, zeros=True),
    "int4m": Format("int4m", centre=8, scale=f32, minima=True),
    "i8": Format("i8", bits=8, code=i8, scale=f32),
    "f8e4m3": Format("f8e4m3", bits=8, code=f8e4m3fn, scale=f32),
    "f8e5m2": Format("f8e5m2", bits=8, code=f8e5m2, scale=f32),
}
_NAME = re.compile(r"(u?int[48]|int4m|i8|f8e\dm\d)(b?f16)?(?:g(\d{1,5}))?")
_SCALES = {None: f32, "f16": f16, "bf16": bf16}


@lru_cache(maxsize=256)
def format_of(name: str) -> Format:
    """The format of a name: "Q4_K", "int8", "int4g128" (128 neighbours share a scale); raises UnsupportedDType."""
    if name in FORMATS:
        return FORMATS[name]
    match = _NAME.fullmatch(name)
    made = _MADE.get(match[1]) if match else None
    if match is None or made is None:
        known = ", ".join((*FORMATS, *_MADE))
        raise UnsupportedDType(f"packed: the format must be one of {known}, got {name!r}")
    size = int(match[3] or 0)
    if match[3] and (size < 4 or size % 4):
        raise UnsupportedDType(f"packed: a group must be a multiple of 4, got {name!r}")
    values = {n: getattr(made, n) for n in ("bits", "centre", "code", "minima", "zeros")}
    return Format(name, **values, scale=_SCALES[match[2]], group=size or _WHOLE, block=size)


_WHOLE = 1 << 30  # a group as long as any row
