"""Reductions that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.opset import complex_numbers, logic, reduce, scan
from hologram.runtime.dispatch import deferred


def _filled(a: Any, value: float) -> Tensor:
    """With a number in the place of NaN."""
    x = asarray(a)
    return logic.where(logic.isnan(x), value, x) if x.dtype.is_inexact else x


def _there(a: Any) -> Tensor:
    x = asarray(a)
    return logic.logical_not(logic.isnan(x)) if x.dtype.is_inexact else logic.equal(x, x)


def nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **further: Any) -> Tensor:
    """The sum of what is not NaN; 0 of nothing. `initial`, `where` and `out` are those of sum, here and below."""
    return reduce.sum_(_filled(a, 0.0), axis=axis, keepdims=keepdims, dtype=dtype, **further)


def nanprod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **further: Any) -> Tensor:
    """The product of what is not NaN; 1 of nothing."""
    return reduce.prod(_filled(a, 1.0), axis=axis, keepdims=keepdims, dtype=dtype, **further)


def nanmax(a: Any, axis: Any = None, *, keepdims: bool = False, **further: Any) -> Tensor:
    """The largest element that is not NaN; NaN where all are."""
    return _extreme(reduce.max_, a, -math.inf, axis, keepdims, further)


def nanmin(a: Any, axis: Any = None, *, keepdims: bool = False, **further: Any) -> Tensor:
    """The smallest element that is not NaN; NaN where all are."""
    return _extreme(reduce.min_, a, math.inf, axis, keepdims, further)


def _extreme(fold: Any, a: Any, bound: float, axis: Any, keepdims: bool, further: dict[str, Any]) -> Tensor:
    x = asarray(a)
    found = fold(_filled(x, bound), axis=axis, keepdims=keepdims, **further)
    if not x.dtype.is_float or further.get("initial") is not None:
        return found
    return logic.where(reduce.any_(_there(x), axis=axis, keepdims=keepdims), found, math.nan)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = True,
            **further: Any) -> Tensor:  # fmt: skip
    """The mean of what is not NaN; NaN where all are."""
    chosen = _chosen(a, where)
    return reduce.mean(asarray(a), axis=axis, keepdims=keepdims, where=chosen, dtype=dtype, **further)


def nanvar(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, *, keepdims: bool = False,
           where: Any = True, correction: float | None = None, **further: Any) -> Tensor:  # fmt: skip
    """The variance of what is not NaN; NaN where no more than `ddof` are left."""
    asked = {"axis": axis, "keepdims": keepdims, "dtype": dtype, "where": _chosen(a, where), **further}
    return _spread(reduce.var, a, ddof if correction is None else correction, asked)


def nanstd(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, *, keepdims: bool = False,
           where: Any = True, correction: float | None = None, **further: Any) -> Tensor:  # fmt: skip
    """The standard deviation of what is not NaN: the root of nanvar."""
    asked = {"axis": axis, "keepdims": keepdims, "dtype": dtype, "where": _chosen(a, where), **further}
    return _spread(reduce.std, a, ddof if correction is None else correction, asked)


def _spread(of: Any, a: Any, correction: float, asked: dict[str, Any]) -> Tensor:
    x = asarray(a)
    found = of(x, correction=float(correction), **asked)
    if correction <= 0 or "out" in asked:
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


def nanargmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first largest element that is not NaN.

    A row of nothing but NaN raises ShapeError, a ValueError; in a traced function its position is 0.
    """
    return _position(reduce.argmax, a, -math.inf, axis, keepdims, "nanargmax")


def nanargmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element that is not NaN; see nanargmax."""
    return _position(reduce.argmin, a, math.inf, axis, keepdims, "nanargmin")


def _position(fold: Any, a: Any, bound: float, axis: Any, keepdims: bool, who: str) -> Tensor:
    x = asarray(a)
    found = fold(_filled(x, bound), axis=axis, keepdims=keepdims)
    if x.dtype.is_float and not deferred() and not bool(reduce.any_(_there(x), axis=axis).all()):
        raise ShapeError(f"{who}: a row has nothing but NaN")
    return found


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Sums so far, where NaN counts as 0."""
    return _running(scan.cumsum, _filled(a, 0.0), axis, dtype)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Products so far, where NaN counts as 1."""
    return _running(scan.cumprod, _filled(a, 1.0), axis, dtype)


def _running(fold: Any, x: Tensor, axis: int | None, dtype: Any) -> Tensor:
    flat = x.reshape(x.size) if axis is None else x
    return fold(flat, axis=0 if axis is None else axis, dtype=dtype)


def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Numbers in the place of NaN and infinities: of the latter, by default, the dtype's largest and its negative.

    The result is always new: `copy` is there for NumPy's order of arguments.
    """
    made = asarray(x)
    if made.dtype.is_complex:  # part by part
        parts = complex_numbers.view_as_real(made)
        return complex_numbers.view_as_complex(nan_to_num(parts, copy, nan, posinf, neginf))
    if not made.dtype.is_float:
        return made.clone()
    high = made.dtype.largest if posinf is None else posinf
    low = -made.dtype.largest if neginf is None else neginf
    finite = logic.where(
        logic.equal(made, math.inf), high, logic.where(logic.equal(made, -math.inf), low, made)
    )
    return logic.where(logic.isnan(made), nan, finite)
