"""What the array API asks of dtypes (result_type, can_cast, finfo, isdtype, real, imag), and of the namespace."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.default import executor_of
from hologram.frontend.tensor import Tensor
from hologram.machine.strided import Strided


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x converted element by element; x itself if it is a tensor of that dtype and `copy` is false."""
    return asarray(x, device=device).astype(dtype, copy=copy)


def _dtype(x: Any) -> DType:
    """The dtype of an array, or the dtype itself."""
    array = isinstance(x, (Strided, np.ndarray, np.generic))
    return dtypes.dtype(x.dtype if array else x)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and numbers promote to beside one another; of numbers alone that of a tensor."""
    numbers = [
        x
        for x in arrays_and_dtypes
        if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)
    ]
    known = [_dtype(x) for x in arrays_and_dtypes if not any(x is n for n in numbers)]
    if not arrays_and_dtypes:
        raise TypeError("result_type: at least one array, dtype or number is needed")
    return reduce(dtypes.weak, numbers, reduce(dtypes.promote, known or [dtypes.bool_]))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether an array or dtype promotes to a dtype."""
    source, target = _dtype(from_), dtypes.dtype(to)
    try:
        return dtypes.promote(source, target) is target
    except UnsupportedDType:  # no dtype holds both
        return False


_KINDS = {
    "bool": lambda d: d is dtypes.bool_,
    "signed integer": lambda d: d.is_integer and d.is_signed,
    "unsigned integer": lambda d: d.is_integer and not d.is_signed,
    "integral": lambda d: d.is_integer,
    "real floating": lambda d: d.is_float,
    "complex floating": lambda d: d.is_complex,
    "numeric": lambda d: d.is_integer or d.is_inexact,
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another, or of a kind ("integral", "real floating", ...), or of one of several."""
    own = dtypes.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind](own)
    if isinstance(kind, str) and kind not in {name for d in dtypes.ALL for name in (d.name, d.numpy_name)}:
        raise ValueError(f"isdtype: a kind must be a dtype or one of {', '.join(_KINDS)}, got {kind!r}")
    return own is dtypes.dtype(kind)


class FloatInfo(NamedTuple):
    """What a float dtype can hold; `eps` is the distance from 1 to the next larger number."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or of an array's; of a complex one those of a part."""
    dtype = _dtype(type).part
    if not dtype.is_float:
        raise UnsupportedDType(f"finfo: a float dtype is needed, got {dtype}")
    least, largest = math.ldexp(1.0, dtype.least_exponent), dtype.largest
    return FloatInfo(dtype.bits, 2.0**-dtype.mantissa, largest, -largest, least, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of an array's."""
    dtype = _dtype(type)
    if not dtype.is_integer:
        raise UnsupportedDType(f"iinfo: an integer dtype is needed, got {dtype}")
    return IntegerInfo(dtype.bits, dtype.highest, dtype.lowest, dtype)


# What the standard names: no floats narrower than f32, no packed integers.
STANDARD = tuple(d for d in dtypes.COMPUTED + dtypes.COMPLEX if not d.is_float or d.bits >= 32)


class Info:
    """What the namespace can do, as the array API asks."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The name of the default executor's device."""
        return self.devices()[0]

    def devices(self) -> list[str]:
        """The name of the default executor's device; every other one that hg.backends() lists can be named too."""
        executor = executor_of(None)
        return [f"{executor.backend}:{executor.device.info.index}"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of what names none."""
        return {
            "real floating": dtypes.f32,
            "complex floating": dtypes.c64,
            "integral": dtypes.i64,
            "indexing": dtypes.i64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that a device has, of a kind, by the standard's names."""
        held = executor_of(device).limits.dtypes
        return {d.numpy_name: d for d in STANDARD if d in held and (kind is None or isdtype(d, kind))}


def __array_namespace_info__() -> Info:  # noqa: N807  (the array API's name)
    """What the namespace can do, as the array API asks."""
    return Info()


def real(x: Any, /) -> Tensor:
    """The real parts, a view (a copy in a function that is traced); of real numbers x itself."""
    return asarray(x).real


def imag(x: Any, /) -> Tensor:
    """The imaginary parts, a view (a copy in a function that is traced); of real numbers new zeros."""
    return asarray(x).imag
