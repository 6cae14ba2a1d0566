"""GGUF's blocks as planes: where each kind keeps its codes and scales.

The kinds are those of ggml; the package `gguf` has references of them, which tests compare with bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.opset.packed.formats import FORMATS
from hologram.opset.packed.repacking import Planes, planes_of

# Of blocks (n, bytes): codes (n, size), scales (n, 1 or 2), and the bytes of groups (n, groups[, 2]) if there are.
Parts = tuple[np.ndarray, np.ndarray, np.ndarray | None]
AT_ONCE = 1 << 21  # weights that are repacked together: their codes take a byte each meanwhile


@frozen
class Kind:
    """Blocks of a kind: its number in files, weights and bytes of each, and what takes them apart."""

    number: int
    size: int
    nbytes: int
    parts: Callable[[np.ndarray], Parts]


def _halves(part: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(part).view("<f2")


def _fields(part: np.ndarray, bits: int, run: int) -> np.ndarray:
    """Codes of `bits` bits: of each `run` bytes the lowest bits of all come first, then the next ones."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    n = part.shape[0]
    return ((part.reshape(n, -1, 1, run) >> shifts) & np.uint8((1 << bits) - 1)).reshape(n, -1)


def _with_minimum(numbers: np.ndarray) -> np.ndarray:
    """(scale, minimum) of kinds that add the minimum: formats subtract it."""
    return (numbers.view(np.uint16) ^ np.array([0, 1 << 15], np.uint16)).view(np.float16)


def _q8_0(b: np.ndarray) -> Parts:
    return b[:, 2:].view(np.int8), _halves(b[:, :2]), None


def _q4_0(b: np.ndarray) -> Parts:
    return _fields(b[:, 2:], 4, 16), _halves(b[:, :2]), None


def _q4_1(b: np.ndarray) -> Parts:
    return _fields(b[:, 4:], 4, 16), _with_minimum(_halves(b[:, :4])), None


def _fifth(part: np.ndarray) -> np.ndarray:
    """The fifth bits of 32 codes, in their order, as 16."""
    return np.unpackbits(part, axis=1, bitorder="little") << np.uint8(4)


def _q5_0(b: np.ndarray) -> Parts:
    return _fields(b[:, 6:], 4, 16) | _fifth(b[:, 2:6]), _halves(b[:, :2]), None


def _q5_1(b: np.ndarray) -> Parts:
    return _fields(b[:, 8:], 4, 16) | _fifth(b[:, 4:8]), _with_minimum(_halves(b[:, :4])), None


def _q2_k(b: np.ndarray) -> Parts:
    pairs = np.stack([b[:, :16] & 15, b[:, :16] >> 4], axis=2)
    return _fields(b[:, 16:80], 2, 32), _halves(b[:, 80:84]), pairs


def _q3_k(b: np.ndarray) -> Parts:
    codes = _fields(b[:, 32:96], 2, 32) | _fields(b[:, :32], 1, 32) << np.uint8(2)
    factors = _fields(b[:, 96:104], 4, 8) | _fields(b[:, 104:108], 2, 4) << np.uint8(4)
    return codes, _halves(b[:, 108:110]), factors.view(np.int8) - np.int8(32)


def _six_bits(b: np.ndarray) -> np.ndarray:
    """The 8 (factor, offset) pairs of 6 bits each that 12 bytes hold."""
    low, high, rest = b[:, :4], b[:, 4:8], b[:, 8:12]
    factors = np.concatenate([low & 63, (rest & 15) | (low >> 6) << 4], axis=1)
    offsets = np.concatenate([high & 63, (rest >> 4) | (high >> 6) << 4], axis=1)
    return np.stack([factors, offsets], axis=2)


def _q4_k(b: np.ndarray) -> Parts:
    return _fields(b[:, 16:], 4, 32), _halves(b[:, :4]), _six_bits(b[:, 4:16])


def _q5_k(b: np.ndarray) -> Parts:
    codes = _fields(b[:, 48:], 4, 32) | _fields(b[:, 16:48], 1, 32) << np.uint8(4)
    return codes, _halves(b[:, :4]), _six_bits(b[:, 4:16])


def _q6_k(b: np.ndarray) -> Parts:
    codes = _fields(b[:, :128], 4, 64) | _fields(b[:, 128:192], 2, 32) << np.uint8(4)
    return codes, _halves(b[:, 208:210]), b[:, 192:208].view(np.int8)


def _mxfp4(b: np.ndarray) -> Parts:
    """Scales are exponents e: half of 2**(e - 127), as bfloat16 has it, denormals included."""
    exponents = b[:, :1].astype(np.uint16)
    bits = np.where(exponents < 2, np.uint16(0x20) << exponents, (exponents - np.uint16(1)) << np.uint16(7))
    return _fields(b[:, 1:], 4, 16), bits.view(FORMATS["MXFP4"].scale.numpy), None


KINDS: dict[str, Kind] = {
    "Q8_0": Kind(8, 32, 34, _q8_0),
    "Q4_0": Kind(2, 32, 18, _q4_0),
    "Q4_1": Kind(3, 32, 20, _q4_1),
    "Q5_0": Kind(6, 32, 22, _q5_0),
    "Q5_1": Kind(7, 32, 24, _q5_1),
    "Q2_K": Kind(10, 256, 84, _q2_k),
    "Q3_K": Kind(11, 256, 110, _q3_k),
    "Q4_K": Kind(12, 256, 144, _q4_k),
    "Q5_K": Kind(13, 256, 176, _q5_k),
    "Q6_K": Kind(14, 256, 210, _q6_k),
    "IQ4_NL": Kind(20, 32, 18, _q4_0),
    "MXFP4": Kind(39, 32, 17, _mxfp4),
}


def planes_of_gguf(data: np.ndarray, name: str, shape: tuple[int, int], at_once: int = AT_ONCE) -> Planes:
    """The planes of a matrix (rows, columns) whose blocks lie in `data` (uint8), row by row.

    As many weights are repacked together: `at_once`, or a row's.

    Raises UnsupportedDType for an unknown kind, and ShapeError where rows are no whole blocks or bytes are missing or
    left over.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise UnsupportedDType(f"packed: GGUF's kind must be one of {', '.join(KINDS)}, got {name!r}")
    rows, columns = shape
    if columns % kind.size or min(shape) < 0:
        raise ShapeError(f"packed: rows of {name} must be whole blocks of {kind.size}, got shape {shape}")
    row_bytes = columns // kind.size * kind.nbytes
    if data.dtype != np.uint8 or data.size != rows * row_bytes:
        raise ShapeError(
            f"packed: {shape} weights of {name} are {rows * row_bytes} bytes of uint8, got {data.size} of {data.dtype}"
        )
    blocks = np.ascontiguousarray(data).reshape(rows, row_bytes)
    format = FORMATS[name]
    planes = {n: np.empty(size, dtype.numpy) for n, (dtype, size) in format.planes(rows, columns).items()}
    step = max(1, at_once // max(columns, 1))
    for first in range(0, rows if columns else 0, step):
        part = blocks[first : first + step]
        count = part.shape[0]
        codes, scales, factors = kind.parts(part.reshape(-1, kind.nbytes))
        groups = factors if factors is None else factors.reshape(count, -1)
        made = planes_of(format, codes.reshape(count, columns), scales.reshape(count, -1), groups)
        for n, plane in made.items():
            planes[n][first : first + count] = plane
    return planes
