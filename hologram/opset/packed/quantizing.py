"""Arrays as packed weights: integers with a scale (and a zero point) for each group, or floats of 8 bits."""

from __future__ import annotations

import numpy as np

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.opset.packed.formats import Format
from hologram.opset.packed.repacking import Planes, planes_of


def quantized(weights: np.ndarray, format: Format) -> Planes:
    """The planes of weights (rows, columns), rounded to nearest, ties to even.

    Symmetric formats take the largest magnitude of a group for their scale; those with zero points its range with 0.
    """
    if format.scale.bits != 32 or format.minima:
        raise UnsupportedDType(f"packed: arrays are quantised to int8, i8, int4, uint8, uint4, f8e4m3 or f8e5m2, got "
                               f"{format.name}; Packed.from_gguf takes what is quantised already")  # fmt: skip
    if weights.ndim != 2:
        raise ShapeError(f"packed: weights must have two axes, got shape {weights.shape}")
    rows, columns = weights.shape
    size = format.block or max(columns, 1)
    count = -(-columns // size) if format.block else 1
    padded = np.zeros((rows, count * size), np.float32)
    padded[:, :columns] = weights
    codes, scales, zeros = _rounded(padded.reshape(rows, count, size), format)
    zeros = None if zeros is None else zeros[:, : format.groups(columns)]
    return planes_of(format, codes.reshape(padded.shape)[:, :columns], scales, zeros)


def _rounded(groups: np.ndarray, format: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Codes (rows, groups, size), scales and zero points (rows, groups)."""
    if format.code is not None and format.code.is_float:
        scales = np.abs(groups).max(axis=2) / np.float32(format.code.largest)
        return (groups / _nonzero(scales)[..., None]).astype(format.code.numpy), scales, None
    if not format.zeros:
        largest = 2 ** (format.bits - 1) - 1
        scales = np.abs(groups).max(axis=2) / np.float32(largest)
        codes = np.clip(np.rint(groups / _nonzero(scales)[..., None]), -largest, largest)
        return (codes.astype(np.int8) + np.int8(format.centre)), scales, None
    low, high = np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)
    steps, shift = 2**format.bits - 1, 128 if format.bits == 8 else 0  # bytes are signed
    scales = (high - low) / np.float32(steps)
    zeros = np.clip(np.rint(-low / _nonzero(scales)), 0, steps)
    codes = np.clip(np.rint(groups / _nonzero(scales)[..., None]) + zeros[..., None], 0, steps)
    return (codes - shift).astype(np.int8), scales, (zeros - shift).astype(np.int8)


def _nonzero(scales: np.ndarray) -> np.ndarray:
    return np.where(scales == 0, np.float32(1), scales)
