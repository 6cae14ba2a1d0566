"""Blocks of GGUF files as planes; the layouts of the blocks are those of ggml-common.h."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.opset.packed.formats import FORMATS

Planes = dict[str, np.ndarray]
BLOCK = 256  # columns of a block of the K kinds


def planes_of(kind: str, data: np.ndarray, rows: int, columns: int) -> Planes:
    """The planes of a matrix whose blocks are bytes of a file, u8 of any shape; repacked, not rounded.

    Raises UnsupportedDType for a kind that is not known, ShapeError for bytes that are not those of the matrix.
    """
    if kind not in READERS:
        raise UnsupportedDType(f"GGUF kind must be one of {' '.join(READERS)}, got {kind}")
    size, nbytes, read = READERS[kind]
    flat = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    if columns % size or flat.size != rows * columns // size * nbytes:
        raise ShapeError(
            f"{kind}: {rows} rows of {columns} are blocks of {size} columns in {nbytes} bytes, got {flat.size} bytes"
        )
    found = read(flat.reshape(-1, nbytes))
    codes, small = (
        found.pop("codes"),
        {n: found.pop(n).reshape(rows, -1) for n in tuple(found) if "codes" in n and n != "codes"},
    )
    scales = {name: plane.reshape(rows, -1) for name, plane in found.items()}
    return FORMATS[kind].packed(codes.reshape(rows, columns), **scales, **small)


def _halves(blocks: np.ndarray, at: int) -> np.ndarray:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2")


def _parts(data: np.ndarray, bits: int, run: int) -> np.ndarray:
    """Codes of so many bits, whose bytes hold columns that lie `run` apart."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(1, 1, -1, 1)
    parts = data.reshape(len(data), -1, 1, run) >> shifts & np.uint8((1 << bits) - 1)
    return parts.reshape(len(data), -1)


def _fifth(blocks: np.ndarray, at: int) -> np.ndarray:
    """The fifth bits of 32 codes, one word a block."""
    words = np.ascontiguousarray(blocks[:, at : at + 4]).view("<u4")
    return (words >> np.arange(32, dtype=np.uint32) & np.uint32(1)).astype(np.uint8) << np.uint8(4)


def _q8_0(b: np.ndarray) -> Planes:
    return {"codes": b[:, 2:] ^ np.uint8(128), "scale": _halves(b, 0)}


def _q4_0(b: np.ndarray) -> Planes:
    return {"codes": _parts(b[:, 2:], 4, 16), "scale": _halves(b, 0)}


def _q4_1(b: np.ndarray) -> Planes:
    return {"codes": _parts(b[:, 4:], 4, 16), "scale": _halves(b, 0), "minimum": _halves(b, 2)}


def _q5_0(b: np.ndarray) -> Planes:
    return {"codes": _parts(b[:, 6:], 4, 16) | _fifth(b, 2), "scale": _halves(b, 0)}


def _q5_1(b: np.ndarray) -> Planes:
    codes = _parts(b[:, 8:], 4, 16) | _fifth(b, 4)
    return {"codes": codes, "scale": _halves(b, 0), "minimum": _halves(b, 2)}


def _q2_k(b: np.ndarray) -> Planes:
    return {
        "codes": _parts(b[:, 16:80], 2, 32),
        "scale": _halves(b, 80),
        "scale_codes": b[:, :16] & 15,
        "minimum": -_halves(b, 82),
        "minimum_codes": b[:, :16] >> 4,
    }


def _q3_k(b: np.ndarray) -> Planes:
    low, high = _parts(b[:, 32:96], 2, 32), _parts(b[:, :32], 1, 32)
    scales = b[:, 96:108]
    lower = np.concatenate([scales[:, :8] & 15, scales[:, :8] >> 4], axis=1)
    upper = np.concatenate([scales[:, 8:] >> shift & 3 for shift in (0, 2, 4, 6)], axis=1)
    return {
        "codes": low | high << np.uint8(2),
        "scale": _halves(b, 108),
        "scale_codes": (lower | upper << np.uint8(4)).astype(np.int8) - np.int8(32),
    }


def _k_scales(b: np.ndarray) -> Planes:
    """Of the 4- and 5-bit kinds: a block's scale and minimum, and 6 bits of each for its eight groups."""
    low, middle, both = (b[:, at : at + 4] for at in (4, 8, 12))
    return {
        "scale": _halves(b, 0),
        "scale_codes": np.concatenate([low & 63, both & 15 | low >> 2 & 48], axis=1),
        "minimum": -_halves(b, 2),
        "minimum_codes": np.concatenate([middle & 63, both >> 4 | middle >> 2 & 48], axis=1),
    }


def _q4_k(b: np.ndarray) -> Planes:
    return {"codes": _parts(b[:, 16:], 4, 32), **_k_scales(b)}


def _q5_k(b: np.ndarray) -> Planes:
    codes = _parts(b[:, 48:], 4, 32) | _parts(b[:, 16:48], 1, 32) << np.uint8(4)
    return {"codes": codes, **_k_scales(b)}


def _q6_k(b: np.ndarray) -> Planes:
    codes = _parts(b[:, :128], 4, 64) | _parts(b[:, 128:192], 2, 32) << np.uint8(4)
    return {"codes": codes, "scale": _halves(b, 208), "scale_codes": b[:, 192:208].view(np.int8)}


def _mxfp4(b: np.ndarray) -> Planes:
    exponent = b[:, :1].astype(np.uint32)  # 2^(e - 128): the table's numbers are doubled
    bits = np.where(exponent < 2, np.uint32(0x00200000) << exponent, exponent - 1 << 23)
    return {"codes": _parts(b[:, 1:], 4, 16), "scale": bits.astype(np.uint32).view(np.float32)}


READERS: dict[str, tuple[int, int, Callable[[np.ndarray], Planes]]] = {  # columns and bytes of a block
    "Q8_0": (32, 34, _q8_0),
    "Q4_0": (32, 18, _q4_0),
    "Q4_1": (32, 20, _q4_1),
    "Q5_0": (32, 22, _q5_0),
    "Q5_1": (32, 24, _q5_1),
    "Q2_K": (BLOCK, 84, _q2_k),
    "Q3_K": (BLOCK, 110, _q3_k),
    "Q4_K": (BLOCK, 144, _q4_k),
    "Q5_K": (BLOCK, 176, _q5_k),
    "Q6_K": (BLOCK, 210, _q6_k),
    "IQ4_NL": (32, 18, _q4_0),
    "MXFP4": (32, 17, _mxfp4),
}
