"""Normal numbers between two bounds, far out too, as functions of uniform ones."""

from __future__ import annotations

import math
from typing import Any

from hologram import opset as _opset
from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor

STEPS = 5  # of Newton's method: from there on they change nothing in f64
_ops = _opset.OPERATIONS


def truncated(low: Tensor, high: Tensor, unit: Tensor, lower: Any, upper: Any) -> Tensor:
    """The normal numbers at shares of what lies between two bounds, in their dtype.

    They do not reach the bounds where the dtype has several others between. `lower` and `upper` are the
    bounds as they were given.
    """
    dtype = low.dtype
    ends = [_ops["clip"](x.astype(unit.dtype), -dtype.largest, dtype.largest) for x in (low, high)]
    made = _quantile(ends[0], ends[1], unit, lower, upper)
    inner = ends[0] + _step(ends[0], dtype), ends[1] - _step(ends[1], dtype)
    close = inner[0] > inner[1]
    made = _ops["clip"](made, *(_ops["where"](close, x, y) for x, y in zip(ends, inner, strict=True)))
    return _ops["where"](ends[0] <= ends[1], made, math.nan).astype(dtype)


def _step(x: Tensor, dtype: DType) -> Tensor:
    """At least the distance to the next number that a dtype has, and less than that to the one after it."""
    least = math.ldexp(1.0, dtype.least_exponent + dtype.mantissa)
    return _ops["maximum"](_ops["abs"](x), least) * 2.0**-dtype.mantissa


def _quantile(low: Tensor, high: Tensor, unit: Tensor, lower: Any, upper: Any) -> Tensor:
    """Beyond 0 by what is left of the distribution, where the error function is too near 1."""
    number = isinstance(lower, (int, float)), isinstance(upper, (int, float))
    if number[0] and lower >= 0:
        return _in_tail(low, high, unit)
    if number[1] and upper <= 0:
        return -_in_tail(-high, -low, 1.0 - unit)
    ends = [_ops["erf"](x * math.sqrt(0.5)) for x in (low, high)]
    made = _ops["erfinv"](ends[0] + unit * (ends[1] - ends[0])) * math.sqrt(2.0)
    if not number[0]:
        made = _ops["where"](low >= 0, _in_tail(_ops["maximum"](low, 0.0), high, unit), made)
    if not number[1]:
        made = _ops["where"](high <= 0, -_in_tail(_ops["maximum"](-high, 0.0), -low, 1.0 - unit), made)
    return made


def _in_tail(low: Tensor, high: Tensor, unit: Tensor) -> Tensor:
    """As `_quantile`, for bounds from 0 on: Newton's method on the logarithm of the share that lies above.

    That is concave and falls, and its bound -x^2 / 2 makes a first guess that is too large: no step goes too far.
    """
    scaled, root = _ops["erfcx"](low * math.sqrt(0.5)), math.sqrt(0.5)

    def share(
        further: Tensor,
    ) -> Tensor:  # the logarithm of what lies above `low + further`, of what does above `low`
        ratio = _ops["erfcx"]((low + further) * root) / scaled
        return _ops["log"](ratio) - further * (low + further * 0.5)

    wanted = _ops["log1p"](unit * _ops["expm1"](share(high - low)))
    further = wanted * -2.0 / (_ops["sqrt"](low * low - wanted * 2.0) + low)
    for _ in range(STEPS):
        hazard = math.sqrt(2.0 / math.pi) / _ops["erfcx"]((low + further) * root)
        further = _ops["maximum"](further + (share(further) - wanted) / hazard, 0.0)
    return low + further
