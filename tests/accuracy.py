"""How far a result may be from its reference: units in the last place of the result's dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.opset.forms.operation import Operation

SMALLEST_NORMAL = 2.0**-126  # of f32


def unit_in_last_place(dtype: DType, reference: np.ndarray) -> np.ndarray:
    """The distance between neighbours of `dtype` around each reference value."""
    magnitude = np.abs(reference)
    usable = np.where((magnitude > 0) & np.isfinite(magnitude), magnitude, 1.0)
    exponent = np.maximum(np.floor(np.log2(usable)), dtype.least_exponent)
    exponent = np.where(magnitude == 0, dtype.least_exponent, exponent)
    return np.exp2(exponent - dtype.mantissa)


def widened(operand: Any, integers: bool = False) -> Any:
    """What a reference is computed from: floats as float64, and integers too if the operation makes them floats."""
    if isinstance(operand, tuple):
        return tuple(widened(o, integers) for o in operand)
    if isinstance(operand, np.ndarray) and (integers or operand.dtype.kind not in "iub"):
        return operand.astype(np.complex128 if operand.dtype.kind == "c" else np.float64)
    return operand


def largest(operands: Sequence[Any]) -> float:
    """The largest finite magnitude among the operands, at least 1."""
    found = 1.0
    for operand in operands:
        if isinstance(operand, tuple):
            found = max(found, largest(operand))
        elif isinstance(operand, np.ndarray) and operand.size and operand.dtype != bool:
            values = np.abs(operand if operand.dtype.kind == "c" else operand.astype(np.float64))
            found = max(found, float(np.max(values[np.isfinite(values)], initial=1.0)))
    return found


def flushed(operand: Any) -> Any:
    """The operand without numbers that are denormal in f32, which the standard of WebGPU lets adapters take for 0."""
    if isinstance(operand, tuple):
        return tuple(flushed(o) for o in operand)
    if not isinstance(operand, np.ndarray) or operand.dtype.kind in "iub":
        return operand
    if operand.dtype.kind == "c":
        parts = operand.copy()
        parts.real, parts.imag = flushed(operand.real), flushed(operand.imag)
        return parts
    small = np.abs(operand.astype(np.float64)) < SMALLEST_NORMAL
    return np.where(small, np.zeros((), operand.dtype), operand)


def check(
    got: np.ndarray,
    reference: Any,
    dtype: DType,
    ulp: float,
    absolute: float,
    operands: Sequence[Any],
    least: float = 0.0,
) -> None:
    """Fails unless every element is within `ulp` units in the last place plus `absolute` epsilons, or within `least`.

    An epsilon is that of the dtype times the largest operand times the number of elements behind each result (2048 at
    most: longer sums must be folded in blocks).
    """
    want = np.asarray(reference)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    if dtype.is_complex:
        _check_complex(got, want, dtype, ulp, absolute, operands, least)
        return
    if not dtype.is_float:
        wrong = got != want.astype(dtype.numpy)
        assert not wrong.any(), _difference(got, want, wrong, operands)
        return
    with np.errstate(all="ignore"):
        want = want.astype(np.float64)
        rounded = want.astype(dtype.numpy).astype(np.float64)
        result = got.astype(np.float64)
        same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        margin = max(ulp, 0.5) * unit_in_last_place(dtype, want)
        margin = np.maximum(margin + _margin(got, dtype, absolute, operands), least)
        wrong = ~same & ~(np.abs(result - want) <= margin * (1 + 1e-6))
        # A value that rounds to infinity may also be the largest finite one, and the reverse, within the margin.
        edge = dtype.largest
        near = np.abs(want) >= edge * (1 - 2.0**-dtype.mantissa * (ulp + 1))
        wrong &= ~(near & (np.sign(result) == np.sign(want)) & (np.abs(result) >= edge * (1 - 1e-2)))
    assert not wrong.any(), _difference(got, want, wrong, operands)


def _margin(got: np.ndarray, dtype: DType, absolute: float, operands: Sequence[Any]) -> float:
    """So many epsilons; see check."""
    read = max([o.size for o in operands if isinstance(o, np.ndarray)], default=1)
    terms = min(max(read // max(got.size, 1), 1), 2048)
    return absolute * terms * largest(operands) * 2.0**-dtype.mantissa


def _check_complex(
    got: np.ndarray,
    want: Any,
    dtype: DType,
    ulp: float,
    absolute: float,
    operands: Sequence[Any],
    least: float,
) -> None:
    """Each part within units in the last place of the larger one; where that is not finite, neither is the result.

    Which of the parts is infinite or NaN then is not compared: NumPy's own functions differ in it from C's Annex G.
    """
    part = dtype.part
    with np.errstate(all="ignore"):
        want = want.astype(np.complex128)
        result: Any = got.astype(np.complex128)
        larger = np.maximum(np.abs(want.real), np.abs(want.imag))
        margin = max(ulp, 1.0) * unit_in_last_place(part, larger) + _margin(got, part, absolute, operands)
        apart = np.maximum(np.abs(result.real - want.real), np.abs(result.imag - want.imag))
        finite = np.isfinite(want) & (larger < part.largest * (1 - 2.0**-part.mantissa * (ulp + 1)))
        wrong = np.where(
            finite,
            ~(apart <= np.maximum(margin * (1 + 1e-6), least)),
            np.isfinite(got) & (larger > part.largest * 2),
        )
        wrong |= ~np.isfinite(want) & np.isfinite(got)
    assert not wrong.any(), _difference(got, want, wrong, operands)


def _difference(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, operands: Sequence[Any]) -> str:
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    inputs = [o[place] for o in operands if isinstance(o, np.ndarray) and o.shape == got.shape]
    return f"{wrong.sum()} of {got.size} wrong; at {place} got {got[place]!r}, expected {want[place]!r} of {inputs}"


def bound(operation: Operation, dtype: DType, want: np.ndarray, size: float, count: Any) -> np.ndarray:
    """What a declaration allows, where the largest operand is of a size and so many elements are behind a result."""
    few, more = np.minimum(count, 2048), np.maximum(np.asarray(count) - 2048, 0)
    epsilons = operation.absolute * few + operation.beyond * more
    units = operation.ulp + operation.each * count
    return units * unit_in_last_place(dtype, want) + epsilons * size * 2.0**-dtype.mantissa
