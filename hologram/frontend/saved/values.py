"""What attributes and operands are made of, as JSON and back: numbers exactly, layouts, dtypes, reads.

What JSON has stands for itself, a list for a tuple; all else is an object of one key, which says what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hologram.compiler.fusion.graph import Read
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import TraceError
from hologram.frontend.jit.number import KINDS
from hologram.machine.layout import Layout

MOST_AXES = 64
MOST = 1 << 62  # of what sizes, strides and offsets are
DTYPES = {d.name: d for d in (*dtypes.ALL, dtypes.index)}
# By name, which those of NumPy's types that C calls otherwise share (int64 is its long, or its long long).
NUMPY = {
    name: np.dtype(name)
    for name in (
        np.dtype(k).name for k in (*KINDS, np.bool_, np.complex64, np.complex128) if issubclass(k, np.generic)
    )
}
WEAK = {"int": int, "float": float}


def dtype_of(name: Any) -> DType:
    """The dtype of a name."""
    if not isinstance(name, str) or name not in DTYPES:
        raise ValueError(f"a dtype must be one of {' '.join(DTYPES)}")
    return DTYPES[name]


def layout_to(x: Layout) -> list[Any]:
    """A layout; of a contiguous one, dtype and shape."""
    if x is Layout.contiguous(x.dtype, x.shape):
        return [x.dtype.name, list(x.shape)]
    return [x.dtype.name, list(x.shape), list(x.strides), x.offset, x.repeats]


def layout_from(given: Any) -> Layout:
    """The layout that is written so."""
    name, shape, *rest = given
    dtype, shape = dtype_of(name), _integers(shape, 0)
    if len(shape) > MOST_AXES:
        raise ValueError(f"a layout has at most {MOST_AXES} axes")
    if not rest:
        layout = Layout.contiguous(dtype, shape)
    else:
        strides, offset, repeats = rest
        (first,) = _integers([offset], 0)
        layout = Layout(dtype, shape, _integers(strides, -MOST), first, repeats is True)
    if len(layout.strides) != len(shape) or layout.size * dtype.itemsize > MOST:
        raise ValueError("a layout has a stride for each axis, and fewer than 2^62 bytes")
    return layout


def _integers(given: Any, least: int) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(n) is int and least <= n <= MOST for n in given):
        raise ValueError(f"integers from {least} on are needed")
    return tuple(given)


def inside(x: Layout, size: int) -> bool:
    """Whether a layout's elements lie in memory of so many."""
    low, high = x.span
    return 0 <= low and high <= size


def value_to(x: Any) -> Any:
    """A value as JSON; raises TraceError for what no attribute is."""
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) in WRITTEN:
        return WRITTEN[type(x)](x)
    if isinstance(x, np.generic) and not isinstance(x.item(), np.generic):  # of which long doubles stay
        return value_to(x.item())
    raise TraceError(f"a {type(x).__name__} cannot be saved")


def kept_to(x: Any) -> Any:
    """A value with its type, NumPy's numbers and bools too; raises TraceError for what a file has not."""
    if not isinstance(x, np.generic):
        return value_to(x)
    if x.dtype.name not in NUMPY:
        raise TraceError(f"a {type(x).__name__} of NumPy's cannot be saved")
    return {"numpy": [x.dtype.name, x.tobytes().hex()]}


def _read_to(x: Read) -> Any:
    weak = () if x.weak is None else (x.weak.__name__,)
    return {"read": [x.value, layout_to(x.layout), *weak]}


WRITTEN: dict[type, Callable[[Any], Any]] = {
    float: lambda x: {"float": x.hex()},
    complex: lambda x: {"complex": [x.real.hex(), x.imag.hex()]},
    tuple: lambda x: [value_to(each) for each in x],
    list: lambda x: {"list": [value_to(each) for each in x]},
    DType: lambda x: {"dtype": x.name},
    Layout: lambda x: {"layout": layout_to(x)},
    Read: _read_to,
}


def value_from(given: Any) -> Any:
    """The value that is written so."""
    if given is None or type(given) in (bool, int, str):
        return given
    if type(given) is list:
        return tuple(map(value_from, given))
    ((kind, content),) = given.items()
    if kind not in READ:
        raise ValueError(f"a value must be one of {' '.join(READ)}")
    return READ[kind](content)


def _number_from(given: Any) -> Any:
    name, raw = given
    (number,) = np.frombuffer(bytes.fromhex(raw), NUMPY[name])
    return number


def _read_from(given: Any) -> Read:
    value, layout, *weak = given
    if type(value) is not int or value < 0:
        raise ValueError("a read names a value by its number")
    return Read(value, layout_from(layout), WEAK[weak[0]] if weak else None)


READ: dict[str, Callable[[Any], Any]] = {
    "float": float.fromhex,
    "complex": lambda given: complex(*map(float.fromhex, given)),
    "list": lambda given: list(map(value_from, given)),
    "dtype": dtype_of,
    "layout": layout_from,
    "read": _read_from,
    "numpy": _number_from,
}
