"""Layouts of checkpoints as planes: AWQ's (Lin et al. 2023, its GEMM version) and GPTQ's (Frantar et al. 2022).

Both keep (in features, out features) in words of 32 bits: AWQ has 8 columns in a word, in an order of its own; GPTQ
has 8 rows of 4 bits, or 4 of 8 bits. Zero points lie as AWQ's columns do, GPTQ's in order and, but in its second
version, less 1. By activation order (GPTQ's `desc_act`), the rows of a group are anywhere: g_idx says of which group
each is. Here they are put together, and what says where they were goes with the matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.opset.packed.formats import format_of
from hologram.opset.packed.repacking import Planes, planes_of

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # where in its word each of 8 columns is


def planes_of_awq(qweight: Any, qzeros: Any, scales: Any) -> tuple[Planes, str, tuple[int, int]]:
    """Planes, format and shape (out, in) of qweight (in, out / 8), qzeros (groups, out / 8), scales (groups, out)."""
    codes, zeros = (_fields("awq", x, 4)[..., AWQ_ORDER] for x in (qweight, qzeros))
    return _planes("awq", codes.reshape(len(codes), -1), zeros.reshape(len(zeros), -1), np.asarray(scales), 4)


def planes_of_gptq(
    qweight: Any, qzeros: Any, scales: Any, g_idx: Any = None, bits: int = 4, version: int = 1
) -> tuple[Planes, str, tuple[int, int], np.ndarray | None]:
    """Planes, format and shape (out, in) of qweight (in bits / 32, out), qzeros (groups, out bits / 32) and scales.

    And of which input each column is (in), where `g_idx` (in) has groups whose rows are not neighbours in order. Raises
    ShapeError where a group has more rows than another.
    """
    if bits not in (4, 8) or version not in (1, 2):
        raise UnsupportedDType(f"gptq: bits must be 4 or 8, and version 1 or 2, got {bits} and {version}")
    words, scales = np.asarray(qweight), np.asarray(scales)
    codes = _fields("gptq", words, bits).transpose(0, 2, 1).reshape(-1, words.shape[1])
    zeros = _fields("gptq", qzeros, bits).reshape(len(scales), -1) + (version == 1)
    order = None if g_idx is None else _order(np.asarray(g_idx), len(codes), len(scales))
    return *_planes("gptq", codes if order is None else codes[order], zeros, scales, bits), order


def _order(g_idx: np.ndarray, rows: int, groups: int) -> np.ndarray | None:
    """The rows of each group behind those of the one before it; None where they lie so."""
    if g_idx.shape != (rows,) or g_idx.dtype.kind not in "iu":
        raise ShapeError(
            f"gptq: g_idx must be {rows} integers, one a row, got {g_idx.dtype} of shape {g_idx.shape}"
        )
    if not groups or rows % groups:
        return None  # which is refused with the scales
    order = np.argsort(g_idx, kind="stable").astype(np.int32)
    if not np.array_equal(g_idx[order], np.arange(rows) // (rows // groups)):
        sizes = dict(zip(*(x.tolist() for x in np.unique(g_idx, return_counts=True)), strict=True))
        raise ShapeError(
            f"gptq: each of {groups} groups must have {rows // groups} rows, got by g_idx {str(sizes)[:80]}"
        )
    return None if np.array_equal(order, np.arange(rows)) else order


def _fields(who: str, words: Any, bits: int) -> np.ndarray:
    """The fields of words (rows, n), from the lowest bits on, as (rows, n, 32 / bits) of i32."""
    array = np.ascontiguousarray(words)
    if array.ndim != 2 or array.dtype.itemsize != 4 or array.dtype.kind not in "iu":
        raise UnsupportedDType(
            f"{who}: words must be a matrix of i32, got {array.dtype} of shape {array.shape}"
        )
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return ((array.view(np.uint32)[..., None] >> shifts) & np.uint32((1 << bits) - 1)).astype(np.int32)


def _planes(
    who: str, codes: np.ndarray, zeros: np.ndarray, scales: np.ndarray, bits: int
) -> tuple[Planes, str, tuple[int, int]]:
    """Of codes (in, out), zero points and scales (groups, out)."""
    groups = len(scales)
    columns, rows = codes.shape
    if not groups or columns % groups or scales.shape != (groups, rows) or zeros.shape != (groups, rows):
        raise ShapeError(
            f"{who}: scales and zero points of as many groups as divide {columns} rows are needed, each of {rows}, "
            f"got {scales.shape} and {zeros.shape}"
        )
    name = f"uint{bits}{'f16' if scales.dtype == np.float16 else ''}g{columns // groups}"
    shift = 128 if bits == 8 else 0  # bytes are signed
    if zeros.max(initial=0) - shift > 127:
        raise UnsupportedDType(f"{who}: zero points must be below {128 + shift}, got {zeros.max()}")
    made = planes_of(
        format_of(name),
        (codes.T - shift).astype(np.int8),
        np.ascontiguousarray(scales.T, np.float32),
        np.ascontiguousarray((zeros.T - shift).astype(np.int8)),
    )
    return made, name, (rows, columns)
