"""Ranges of numbers between two ends: equal steps, equal quotients."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.type_functions import result_type
from hologram.frontend.default import executor_of
from hologram.frontend.numpy_names.operands import beside, inexact
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import number
from hologram.machine.axes import whole
from hologram.opset import arrange, creation, movement, power, rounding
from hologram.opset import math as arithmetic

Number = (bool, int, float, complex, np.generic)


def _are_numbers(*given: Any) -> bool:
    return all(isinstance(x, Number) for x in given)


def linspace(*given: Any, device: Any = None, **settings: Any) -> Any:
    """`num` numbers at equal distances from start to stop, or, without the endpoint, to the one before it.

    linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None)

    f32 unless a dtype is named, c64 of complex numbers. Ends may be tensors: `axis` is where the numbers then lie.
    Those of an integer dtype are rounded down, and computed on the host in double precision, as NumPy's. With
    `retstep` the distance comes beside them. An executor may stand first, as in operations without operands.
    """
    if given and hasattr(given[0], "apply") and not isinstance(given[0], Tensor):
        device, given = given[0], given[1:]
    return _linspace(*given, device=device, **settings)


def _linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
              axis: int = 0, *, device: Any = None) -> Any:  # fmt: skip
    if not isinstance(endpoint, (bool, np.bool_)) and dtype is None and _names_dtype(endpoint):
        endpoint, dtype = True, endpoint  # the operation's order
    num = whole(num, "linspace: num")
    if num < 0:
        raise ShapeError(f"linspace: num must be at least 0, got {num}")
    if _are_numbers(start, stop):
        made = _between_numbers(start, stop, num, endpoint, dtype, device)
        step: Any = (stop - start) / (num - bool(endpoint)) if num > bool(endpoint) else math.nan
    else:
        made, step = _between_tensors(start, stop, num, endpoint, dtype, axis)
    return (made, step) if retstep else made


def _names_dtype(x: Any) -> bool:
    return isinstance(x, (DType, str, np.dtype, type))


def _between_numbers(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, device: Any) -> Tensor:
    kind = None if dtype is None else dtypes.dtype(dtype)
    if kind is None or kind.is_inexact:
        named = None if kind is None else kind.name
        return creation.linspace(
            device=device, start=start, stop=stop, num=num, endpoint=endpoint, dtype=named
        )
    return executor_of(device).tensor(np.linspace(start, stop, num, endpoint, dtype=kind.numpy))


def _between_tensors(
    start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int
) -> tuple[Tensor, Tensor]:
    first, last = beside(start, stop)
    kind = result_type(first.dtype, last.dtype, 1.0)
    first, last = (x.astype(kind, copy=False) for x in (first, last))
    steps = num - bool(endpoint)
    step = (last - first) / max(steps, 1)
    at = creation.arange(first.executor, num, dtype=kind.part.name).reshape((num,) + (1,) * step.ndim)
    made = first + at * step
    if endpoint and num > 1:
        made = movement.concat([made[:-1], last.expand(step.shape)[None]], axis=0)
    if dtype is not None:
        wanted = dtypes.dtype(dtype)
        made = (rounding.floor(made) if wanted.is_integer else made).astype(wanted, copy=False)
    return arrange.moveaxis(made, source=0, destination=axis), step


_linspace.__qualname__ = "linspace"  # what Python calls it where arguments do not fit
linspace.__signature__ = inspect.signature(_linspace)  # type: ignore[attr-defined]


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
             axis: int = 0, *, device: Any = None) -> Tensor:  # fmt: skip
    """base to the powers that linspace gives."""
    kind = None if dtype is None else dtypes.dtype(dtype)
    if _are_numbers(start, stop, base) and kind is not None and not kind.is_inexact:
        made = np.logspace(start, stop, num, endpoint, base, dtype=kind.numpy)
        return executor_of(device).tensor(made)
    powers = linspace(start, stop, num, endpoint, dtype=kind, axis=axis, device=device)
    of = base if isinstance(base, (Tensor, np.ndarray, complex)) else number(base, "logspace: base")
    return power.pow_(powers * 0 + of, powers)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0, *,
              device: Any = None) -> Tensor:  # fmt: skip
    """Numbers with equal quotients from start to stop, which are not 0, and of one sign if they are real.

    Complex ones lie on a spiral, and are computed on the host, as integers are.
    """
    if not _are_numbers(start, stop):
        first, last = (inexact(x) for x in beside(start, stop))
        sign = arithmetic.sign(first)
        powers = linspace(arithmetic.log(first.abs()), arithmetic.log(last.abs()), num, endpoint, axis=0)
        made = sign * arithmetic.exp(powers)
        made = made if dtype is None else made.astype(dtype, copy=False)
        return arrange.moveaxis(made, source=0, destination=axis)
    if start == 0 or stop == 0:
        raise ValueError(f"geomspace: numbers other than 0 are needed, got {start} and {stop}")
    kind = None if dtype is None else dtypes.dtype(dtype)
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    if not is_complex and not np.real(start * stop) > 0:
        raise ValueError(f"geomspace: two numbers of one sign are needed, got {start} and {stop}")
    if is_complex or (kind is not None and not kind.is_inexact):
        with np.errstate(all="ignore"):
            made = np.geomspace(start, stop, num, endpoint, dtype=None if kind is None else kind.numpy)
        kind = kind or (dtypes.c64 if is_complex else dtypes.f32)
        return executor_of(device).tensor(made.astype(kind.numpy, copy=False))
    low, high = math.log(abs(start)), math.log(abs(stop))
    powers = linspace(low, high, num, endpoint, dtype=kind, device=device)
    return math.copysign(1.0, float(np.real(start))) * arithmetic.exp(powers)
