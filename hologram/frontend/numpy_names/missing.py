"""Reductions that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.numpy_names.operands import written
from hologram.frontend.tensor import Tensor
from hologram.opset import complex_numbers, logic, reduce, scan
from hologram.opset.forms.further import into
from hologram.runtime.dispatch import deferred


def _filled(a: Any, value: float) -> Tensor:
    """With a number in the place of NaN."""
    x = asarray(a)
    return logic.where(logic.isnan(x), value, x) if x.dtype.is_inexact else x


def _there(a: Any) -> Tensor:
    x = asarray(a)
    return logic.logical_not(logic.isnan(x)) if x.dtype.is_inexact else logic.equal(x, x)


def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
           initial: Any = None, where: Any = True) -> Tensor:  # fmt: skip
    """The sum of what is not NaN; 0 of nothing. `initial`, `where` and `out` are those of sum, here and below."""
    return reduce.sum_(_filled(a, 0.0), axis, dtype, out, keepdims, initial, where)


def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
            initial: Any = None, where: Any = True) -> Tensor:  # fmt: skip
    """The product of what is not NaN; 1 of nothing."""
    return reduce.prod(_filled(a, 1.0), axis, dtype, out, keepdims, initial, where)


def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
           where: Any = True) -> Tensor:  # fmt: skip
    """The largest element that is not NaN; NaN where all are."""
    found = _extreme(reduce.max_, a, -math.inf, axis, keepdims, initial, where)
    return written(found, out, "nanmax")


def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
           where: Any = True) -> Tensor:  # fmt: skip
    """The smallest element that is not NaN; NaN where all are."""
    found = _extreme(reduce.min_, a, math.inf, axis, keepdims, initial, where)
    return written(found, out, "nanmin")


def _extreme(fold: Any, a: Any, bound: float, axis: Any, keepdims: bool, initial: Any, where: Any) -> Tensor:
    x = asarray(a)
    found = fold(_filled(x, bound), axis=axis, keepdims=keepdims, initial=initial, where=where)
    if not x.dtype.is_float or initial is not None:
        return found
    return logic.where(reduce.any_(_there(x), axis=axis, keepdims=keepdims), found, math.nan)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *,
            where: Any = True) -> Tensor:  # fmt: skip
    """The mean of what is not NaN; NaN where all are."""
    chosen = _chosen(a, where)
    return reduce.mean(asarray(a), axis=axis, keepdims=keepdims, where=chosen, dtype=dtype, out=out)


def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
           keepdims: bool = False, *, where: Any = True, mean: Any = None,
           correction: float | None = None) -> Tensor:  # fmt: skip
    """The variance of what is not NaN; NaN where no more than `ddof` are left."""
    asked = {"axis": axis, "keepdims": keepdims, "dtype": dtype, "where": _chosen(a, where), "mean": mean}
    found = _spread(reduce.var, a, ddof if correction is None else correction, asked)
    return written(found, out, "nanvar")


def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
           keepdims: bool = False, *, where: Any = True, mean: Any = None,
           correction: float | None = None) -> Tensor:  # fmt: skip
    """The standard deviation of what is not NaN: the root of nanvar."""
    asked = {"axis": axis, "keepdims": keepdims, "dtype": dtype, "where": _chosen(a, where), "mean": mean}
    found = _spread(reduce.std, a, ddof if correction is None else correction, asked)
    return written(found, out, "nanstd")


def _spread(of: Any, a: Any, correction: float, asked: dict[str, Any]) -> Tensor:
    x = asarray(a)
    found = of(x, correction=float(correction), **asked)
    if correction <= 0:
        return found
    there = asarray(asked["where"], device=None if isinstance(asked["where"], Tensor) else x.executor)
    count = reduce.sum_(there.expand(x.shape).astype("i32"), axis=asked["axis"], keepdims=asked["keepdims"])
    return logic.where(count <= correction, math.nan, found)


def _chosen(a: Any, where: Any) -> Any:
    """Which elements count: those that are not NaN, among those that are asked for."""
    if not asarray(a).dtype.is_inexact:
        return where
    there = _there(a)
    return there if where is True else logic.logical_and(there, where)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first largest element that is not NaN.

    A row of nothing but NaN raises ShapeError, a ValueError; in a traced function its position is 0.
    """
    return written(_position(reduce.argmax, a, -math.inf, axis, keepdims, "nanargmax"), out, "nanargmax")


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element that is not NaN; see nanargmax."""
    return written(_position(reduce.argmin, a, math.inf, axis, keepdims, "nanargmin"), out, "nanargmin")


def _position(fold: Any, a: Any, bound: float, axis: Any, keepdims: bool, who: str) -> Tensor:
    x = asarray(a)
    found = fold(_filled(x, bound), axis=axis, keepdims=keepdims)
    if x.dtype.is_float and not deferred() and not bool(reduce.any_(_there(x), axis=axis).all()):
        raise ShapeError(f"{who}: a row has nothing but NaN")
    return found


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Sums so far, where NaN counts as 0."""
    return written(_running(scan.cumsum, _filled(a, 0.0), axis, dtype), out, "nancumsum")


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Products so far, where NaN counts as 1."""
    return written(_running(scan.cumprod, _filled(a, 1.0), axis, dtype), out, "nancumprod")


def _running(fold: Any, x: Tensor, axis: int | None, dtype: Any) -> Tensor:
    flat = x.reshape(x.size) if axis is None else x
    return fold(flat, axis=0 if axis is None else axis, dtype=dtype)


def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Numbers in the place of NaN and infinities: of the latter, by default, the dtype's largest and its negative.

    The result is new, or with `copy` false x itself, in place; anything but a tensor or an array is copied.
    """
    made = asarray(x)
    if not copy and isinstance(x, (Tensor, np.ndarray)):
        return into(nan_to_num(made, True, nan, posinf, neginf), x, "nan_to_num")
    if made.dtype.is_complex:  # part by part
        parts = complex_numbers.view_as_real(made)
        return complex_numbers.view_as_complex(nan_to_num(parts, True, nan, posinf, neginf))
    if not made.dtype.is_float:
        return made.clone()
    high = made.dtype.largest if posinf is None else posinf
    low = -made.dtype.largest if neginf is None else neginf
    finite = logic.where(
        logic.equal(made, math.inf), high, logic.where(logic.equal(made, -math.inf), low, made)
    )
    return logic.where(logic.isnan(made), nan, finite)
