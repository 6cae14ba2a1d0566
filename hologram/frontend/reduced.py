"""Arrays of any dtype reduced between processes by sums, products and maxima of four: what carriers know.

Floats of fewer bits go as f32, integers as i64 or i32, whose low bits are those of the narrow sum. Maxima go as
integers in the order of the floats, in which NaN is above all: MPI leaves open what NaN does. A minimum is a maximum of
the integers' complements.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

ORDERED = ("float", "int", "uint", "bool")
# What may be asked for, and of which kinds of dtypes.
REDUCTIONS = {
    "sum": (*ORDERED, "complex"),
    "mean": ("float", "complex"),
    "prod": ORDERED,
    "max": ORDERED,
    "min": ORDERED,
}
OF_BOOLS = {"sum": "max", "prod": "min"}
Reduce = Callable[[np.ndarray, str], np.ndarray]  # an array and "SUM", "PROD" or "MAX"


def reduced(values: np.ndarray, op: str, size: int, reduce: Reduce) -> np.ndarray:
    """An array of one axis reduced with those of the other processes, `size` in all; floats of few bits come as f32."""
    dtype = dtypes.dtype(values.dtype)
    if dtype.is_complex:
        return reduced(values.view(dtype.part.numpy), op, size, reduce).view(values.dtype)
    if dtype is dtypes.bool_:
        op = OF_BOOLS.get(op, op)
    if op in ("max", "min"):
        return _largest(values, dtype, op == "min", reduce)
    wide = values.astype(_carried(dtype), copy=False)
    total = reduce(wide, "PROD" if op == "prod" else "SUM")
    if op == "mean":
        total /= size
    return total if dtype.kind == "float" else total.astype(values.dtype)


def _carried(dtype: DType) -> type[np.generic]:
    """The dtype in which elements go."""
    if dtype.kind == "float":
        return np.float64 if dtype is dtypes.f64 else np.float32
    return np.int32 if dtype is dtypes.i32 else np.int64


def _largest(values: np.ndarray, dtype: DType, least: bool, reduce: Reduce) -> np.ndarray:
    if dtype.kind != "float":
        keys = values.view(np.int64) ^ np.int64(-1 << 63) if dtype is dtypes.u64 else values.astype(np.int64)
        found = _complement(reduce(_complement(keys, least), "MAX"), least)
        return (
            (found ^ np.int64(-1 << 63)).view(np.uint64)
            if dtype is dtypes.u64
            else found.astype(values.dtype)
        )
    wide = values.astype(_carried(dtype), copy=False)
    integers: type[np.signedinteger] = np.int64 if wide.itemsize == 8 else np.int32
    top = np.iinfo(integers).max
    keys = _complement(_in_order(wide.view(integers), top), least)
    found = reduce(np.where(np.isnan(wide), integers(top), keys), "MAX")
    largest = _in_order(_complement(found, least), top).view(wide.dtype)
    return np.where(found == top, wide.dtype.type(np.nan), largest)


def _complement(keys: np.ndarray, least: bool) -> np.ndarray:
    return ~keys if least else keys


def _in_order(bits: np.ndarray, top: int) -> np.ndarray:
    """Floats' bits as integers in the floats' order, or back: all but the sign turned over where it is set."""
    return np.where(bits < 0, bits ^ bits.dtype.type(top), bits)
