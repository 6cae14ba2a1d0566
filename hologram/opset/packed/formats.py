"""Formats of packed weights, a declaration each: how a matrix (rows, columns) lies in planes of memory.

A weight is `scale * (code - zero)`, or `scale * code + minimum`, or `scale * table[code]`, in f32 and in this order.
Scales and minima belong to groups of neighbouring columns. In formats of two levels a scale is that of a block of
columns times a small whole number of the group. Codes lie in u32 words in the order of the columns, the lowest bits
first; those of 3, 5 and 6 bits are two planes, so that none crosses a word.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cached_property

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, f8e4m3fn, f8e5m2, f16, f32, i8, u32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen

PLANES = ("codes", "high", "scale", "scale_codes", "minimum", "minimum_codes")  # in the order of operands
WORD = 32  # bits


@frozen
class Format:
    """What a format's planes hold. `element`: codes are numbers of a dtype that is only stored, not whole ones."""

    name: str
    bits: int
    group: int  # columns that share a scale
    zero: int = 0
    has_minimum: bool = False
    block: int = 0  # columns that share the upper level of their scales; 0: there is one level
    table: tuple[int, ...] = ()
    scales: DType = f16
    element: DType | None = None

    @cached_property
    def low_bits(self) -> int:
        return self.bits if self.bits in (2, 4, 8) else {3: 2, 5: 4, 6: 4}[self.bits]

    @property
    def high_bits(self) -> int:
        return self.bits - self.low_bits

    @property
    def unit(self) -> int:
        """What columns must be a multiple of."""
        in_words = WORD // min(self.low_bits, self.high_bits or WORD) if self.element is None else 1
        return math.lcm(self.block or 1, self.group, in_words)

    def planes(self, rows: int, columns: int) -> dict[str, tuple[DType, tuple[int, int]]]:
        """The dtype and shape of each plane of a matrix."""
        if columns % self.unit or not columns:
            raise ShapeError(f"{self.name}: columns must be a multiple of {self.unit}, got {columns}")
        groups, scales = columns // self.group, columns // (self.block or self.group)
        found: dict[str, tuple[DType, tuple[int, int]]] = {
            "codes": (u32, (rows, columns * self.low_bits // WORD))
            if self.element is None
            else (self.element, (rows, columns))
        }
        if self.high_bits:
            found["high"] = u32, (rows, columns * self.high_bits // WORD)
        for level, needed in (("scale", True), ("minimum", self.has_minimum)):
            if needed:
                found[level] = self.scales, (rows, scales)
                if self.block:
                    found[f"{level}_codes"] = i8, (rows, groups)
        return found

    def weights(self, planes: dict[str, np.ndarray]) -> np.ndarray:
        """The matrix in f32, as everything that reads the planes computes it."""
        if self.element is None:
            codes = unpacked(planes["codes"], self.low_bits)
            if self.high_bits:
                codes |= unpacked(planes["high"], self.high_bits) << self.low_bits
            exact = np.array(self.table)[codes] if self.table else codes.astype(np.int32) - self.zero
        else:
            exact = planes["codes"]
        numbers = exact.astype(np.float32)
        with np.errstate(all="ignore"):
            weights = self._of_columns(planes, "scale", numbers.shape[1]) * numbers
            return (
                weights + self._of_columns(planes, "minimum", numbers.shape[1])
                if self.has_minimum
                else weights
            )

    def _of_columns(self, planes: dict[str, np.ndarray], level: str, columns: int) -> np.ndarray:
        found = planes[level].astype(np.float32)
        if self.block:
            codes = planes[f"{level}_codes"].astype(np.float32)
            found = np.repeat(found, self.block // self.group, axis=1) * codes
        return np.repeat(found, self.group, axis=1)[:, :columns]

    def packed(
        self, codes: np.ndarray, scale: np.ndarray, minimum: np.ndarray | None = None, **small: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Planes of codes (rows, columns), as u8 or the format's element, and scales."""
        found = {"codes": codes if self.element else stored(codes & (1 << self.low_bits) - 1, self.low_bits)}
        if self.high_bits:
            found["high"] = stored(codes >> self.low_bits, self.high_bits)
        found["scale"] = scale.astype(self.scales.numpy)
        if minimum is not None:
            found["minimum"] = minimum.astype(self.scales.numpy)
        found |= {name: plane.astype(np.int8) for name, plane in small.items()}
        return {name: np.ascontiguousarray(found[name]) for name in PLANES if name in found}


def stored(codes: np.ndarray, bits: int) -> np.ndarray:
    """u8 codes of so many bits (rows, columns) as words of u32."""
    each = 8 // bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    parts = codes.astype(np.uint8, copy=False).reshape(codes.shape[0], -1, each) << shifts
    return np.ascontiguousarray(np.bitwise_or.reduce(parts, axis=-1)).view("<u4")


def unpacked(words: np.ndarray, bits: int) -> np.ndarray:
    """The u8 codes of words of u32."""
    each = 8 // bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    codes = np.ascontiguousarray(words).view(np.uint8)[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return codes.reshape(words.shape[0], -1)


IQ4_NL_TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
FP4_TABLE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)  # e2m1, doubled

_FORMATS = (
    Format("Q8_0", 8, 32, zero=128),
    Format("Q4_0", 4, 32, zero=8),
    Format("Q4_1", 4, 32, has_minimum=True),
    Format("Q5_0", 5, 32, zero=16),
    Format("Q5_1", 5, 32, has_minimum=True),
    Format("Q2_K", 2, 16, has_minimum=True, block=256),
    Format("Q3_K", 3, 16, zero=4, block=256),
    Format("Q4_K", 4, 32, has_minimum=True, block=256),
    Format("Q5_K", 5, 32, has_minimum=True, block=256),
    Format("Q6_K", 6, 16, zero=32, block=256),
    Format("IQ4_NL", 4, 32, table=IQ4_NL_TABLE),
    Format("MXFP4", 4, 32, table=FP4_TABLE, scales=f32),
)
FORMATS = {f.name: f for f in _FORMATS}


def integers(bits: int, group: int, *, symmetric: bool = True, scales: DType = f32) -> Format:
    """int4 or int8 with a scale for each `group` columns; not symmetric: with a minimum too (AWQ, GPTQ, torchao)."""
    if bits not in (2, 4, 8) or group < 1:
        raise UnsupportedDType(f"packed integers have 2, 4 or 8 bits and a group, got {bits} bits by {group}")
    kind = "" if symmetric else "_minimum"
    zero = 1 << bits - 1 if symmetric else 0
    name = f"int{bits}{kind}_{group}_{scales}"
    return Format(name, bits, group, zero=zero, has_minimum=not symmetric, scales=scales)


def floats8(element: DType, group: int) -> Format:
    """8-bit floats with an f32 scale for each `group` columns."""
    if element not in (f8e4m3fn, f8e5m2) or group < 1:
        raise UnsupportedDType(f"packed floats are f8e4m3fn or f8e5m2 with a group, got {element} by {group}")
    return replace(Format(f"{element}_{group}", 8, group, scales=f32), element=element)


def named(name: str) -> Format:
    """The format of such a name; raises UnsupportedDType for one that is none."""
    if name in FORMATS:
        return FORMATS[name]
    whole = re.fullmatch(r"int(\d)(_minimum)?_(\d+)_(f16|f32)", name)
    if whole is not None:
        bits, minimum, group, scales = whole.groups()
        return integers(int(bits), int(group), symmetric=minimum is None, scales=dtypes.named(scales))
    element, _, group = name.rpartition("_")
    if element in (f8e4m3fn.name, f8e5m2.name) and group.isdigit():
        return floats8(dtypes.named(element), int(group))
    raise UnsupportedDType(f"packed weights: {name!r} is no format; GGUF's are {' '.join(FORMATS)}")
