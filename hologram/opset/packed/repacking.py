"""Codes of whole matrices as planes, and planes as weights again: what programs read, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from hologram.opset.packed.formats import UNIT, Format

Planes = dict[str, np.ndarray]


def packed_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes (rows, 32 n) of `bits` bits, in uint8, as words (rows, n * bits); see formats.py."""
    rows, columns = codes.shape
    parts = codes.reshape(rows, columns // UNIT, 8 // bits, 4 * bits)
    packed = np.zeros((rows, columns // UNIT, 4 * bits), np.uint8)
    for part in range(8 // bits):
        packed |= parts[:, :, part] << np.uint8(bits * part)
    return packed.reshape(rows, columns * bits // 8).view("<u4")


def unpacked_codes(words: np.ndarray, bits: int) -> np.ndarray:
    """What `packed_codes` packed."""
    rows = words.shape[0]
    units = words.shape[1] // bits
    packed = np.ascontiguousarray(words).view(np.uint8).reshape(rows, units, 1, 4 * bits)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return ((packed >> shifts) & np.uint8((1 << bits) - 1)).reshape(rows, units * UNIT)


def planes_of(
    format: Format, codes: np.ndarray, scales: np.ndarray, factors: np.ndarray | None = None
) -> Planes:
    """Planes of codes (rows, columns), scales (rows, blocks[, 2]) and bytes of groups (rows, groups[, 2]).

    Codes are bytes, signed or not as the format's are, or elements of 8 bits; columns may be any number.
    """
    rows, columns = codes.shape
    padded = np.zeros((rows, -(-columns // UNIT) * UNIT), codes.dtype)
    padded[:, :columns] = codes
    planes: Planes = {"scales": np.ascontiguousarray(_flat(scales), format.scale.numpy)}
    if format.code is not None:
        return planes | {"codes": padded}
    padded = padded.view(np.uint8)
    low = padded & np.uint8((1 << format.bits) - 1) if format.high else padded
    planes["codes"] = packed_codes(low, format.bits)
    if format.high:
        planes["high"] = packed_codes(padded >> np.uint8(format.bits), format.high)
    if factors is not None:
        flat = _flat(factors)
        words = np.zeros((rows, -(-flat.shape[1] // 4) * 4), np.uint8)
        words[:, : flat.shape[1]] = flat.view(np.uint8)
        planes["factors"] = words.view("<u4")
    return planes


def _flat(array: np.ndarray) -> np.ndarray:
    """Rows of numbers."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def weights_of(format: Format, planes: Mapping[str, np.ndarray], columns: int) -> np.ndarray:
    """The weights (rows, columns) in f32, computed by NumPy in the order in which programs do."""
    numbers = planes["scales"].astype(np.float32)
    rows = numbers.shape[0]
    where = np.arange(columns)
    block = where // format.block if format.block else np.zeros(columns, np.intp)
    numbers = numbers.reshape(rows, -1, 1 + format.minima)[:, block]
    scale = numbers[..., 0]
    codes = _codes(format, planes)[:, :columns]
    with np.errstate(all="ignore"):
        if format.group_bytes:
            flat = np.ascontiguousarray(planes["factors"]).view(np.int8)
            count = format.groups(columns) * format.group_bytes
            each = flat[:, :count].reshape(rows, -1, format.group_bytes)[:, where // format.group]
            if format.zeros:
                codes = codes - each[..., 0]
            else:
                scale = scale * each[..., 0].astype(np.float32)
                if format.minima:
                    return scale * codes.astype(np.float32) - numbers[..., 1] * each[..., 1].astype(
                        np.float32
                    )
        weights = scale * (codes - format.centre if format.centre else codes).astype(np.float32)
        return weights - numbers[..., 1] if format.minima else weights


def _codes(format: Format, planes: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the codes stand for: integers, or elements of 8 bits."""
    if format.code is not None:
        return planes["codes"]
    codes = unpacked_codes(planes["codes"], format.bits)
    if format.signed:
        return codes.view(np.int8).astype(np.int32)
    if format.high:
        codes |= unpacked_codes(planes["high"], format.high) << np.uint8(format.bits)
    if format.table:
        return np.array(format.table, np.int32)[codes]
    return codes.astype(np.int32)
