"""What is made of numbers alone: constants, ranges and the identity, under the array API's names and arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property
from inspect import Signature, signature
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import ALL, INEXACT, NUMBERS, DType, Number, c64, f32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import integers, whole
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.expression import Static
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Sample, declared


@frozen(eq=False, repr=False)
class Fill(Indexed):
    """Takes the dtype of a given output from it; its kernel is the same for every shape."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        given = {**attributes, "shape": outputs[0].shape, "dtype": outputs[0].dtype}
        return super().plan(inputs, outputs, given, target)

    def split_attributes(self, attributes: Attributes) -> tuple[Static, dict[str, Any]]:
        return super().split_attributes({**attributes, "shape": ()})


def _made(*, shape, dtype, **rest):
    return Layout.contiguous(dtypes.dtype(dtype), integers(shape, "fill: a size"))


def _fill_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((), (0,), 1031, (3, 5)):
        yield Sample((), {"value": 1, "shape": shape, "dtype": dtype.name})


@declared(Fill, dtypes=ALL, scalars={"value": None}, samples=_fill_samples, methods=False,
          reference=lambda value, shape=(), dtype="f32": np.full(shape, value), shape_of=_made)  # fmt: skip
def fill(at, *, value: Any, shape=(), dtype="f32"):
    """`value` everywhere: in a given output, or in a new tensor of that shape and dtype."""
    return value


@frozen(eq=False, repr=False)
class Generated(Indexed):
    """Called as `asked` is, which gives the shape and dtype, and what `function` needs to make an element."""

    asked: Callable[..., dict[str, Any]] = field(default=dict)

    @cached_property
    def signature(self) -> Signature:
        return signature(self.asked)

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        operands, attributes = super().bind(args, kwargs)
        return operands, self.asked(**attributes)

    def runtime_scalars(self) -> dict[str, DType | None]:
        return dict(self.scalars)

    def split_attributes(self, attributes: Attributes) -> tuple[Static, dict[str, Any]]:
        """No kernel depends on a shape."""
        return super().split_attributes({n: a for n, a in attributes.items() if n != "shape"})


def _number(x: Any, who: str) -> Number:
    x = x.item() if hasattr(x, "item") and not x.ndim else x  # of a 0-d tensor, too, which is waited for
    if not isinstance(x, (bool, int, float)):
        raise TypeError(f"{who} must be a number, got {type(x).__name__}")
    return x


def _finite(x: Any, who: str) -> Number:
    x = _number(x, who)
    if isinstance(x, float) and not math.isfinite(x):
        raise ValueError(f"{who} must be finite, got {x}")
    return x


def _arange(*, start, stop=None, step=1, dtype=None) -> dict[str, Any]:
    start, step = _finite(start, "arange: start"), _finite(step, "arange: step")
    start, stop = (0, start) if stop is None else (start, _finite(stop, "arange: stop"))
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if dtype is None:
        dtype = dtypes.f32 if any(isinstance(x, float) for x in (start, stop, step)) else dtypes.i64
    exact = not any(isinstance(x, float) for x in (start, stop, step))
    count = -((start - stop) // step) if exact else math.ceil((stop - start) / step)
    count, kind = max(count, 0), _named(dtype, "arange", NUMBERS)
    if exact and kind.is_integer and count:
        low, high = int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max)
        last = start + step * (count - 1)
        if not (low <= start <= high and low <= last <= high):
            raise UnsupportedDType(f"arange: {kind} cannot hold all of {start}, ..., {last}")
        step = (step - low) % (high - low + 1) + low  # that it wraps round to
    return {"start": start, "step": step, "shape": (count,), "dtype": kind.name}


def _named(dtype: Any, who: str, allowed: tuple[DType, ...]) -> DType:
    resolved = dtypes.dtype(dtype)
    if resolved not in allowed:
        raise UnsupportedDType(f"{who}: dtype must be one of {', '.join(map(str, allowed))}, got {resolved}")
    return resolved


def _arange_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for arguments in ((0,), (7,), (2, 99, 5), (20, 3, -4), (5, 5), (100, 0, -1)):
        yield Sample(
            (), dict(zip(("start", "stop", "step"), arguments, strict=False)) | {"dtype": dtype.name}
        )
    if dtype.is_float:
        yield Sample((), {"start": 0.5, "stop": 2.25, "step": 0.25, "dtype": dtype.name})


def _arange_reference(start, stop=None, step=1, dtype=None):
    return np.arange(start, stop, step) if stop is not None else np.arange(0, start, step)


@declared(Generated, asked=_arange, dtypes=NUMBERS, shape_of=_made, methods=False, ulp=2,
          scalars={"start": None, "step": None}, samples=_arange_samples, reference=_arange_reference)  # fmt: skip
def arange(at: tuple[Value, ...], *, start: Any, step: Any, dtype: str) -> Value:
    """start, start + step, ... below stop (from 0 below start, if no stop is given); of integers i64, else f32."""
    return start + at[0].to(start.dtype) * step


def _linspace(*, start, stop, num=50, dtype=None, endpoint=True) -> dict[str, Any]:
    start, stop = (x.item() if isinstance(x, np.generic) else x for x in (start, stop))
    kind = c64 if isinstance(start, complex) or isinstance(stop, complex) else f32
    if kind is f32:
        start, stop = float(_number(start, "linspace: start")), float(_number(stop, "linspace: stop"))
    num = whole(num, "linspace: num")
    if num < 0:
        raise ShapeError(f"linspace: num must be at least 0, got {num}")
    # Of the numbers from start to stop: without the endpoint, one more than there are.
    last = num - bool(endpoint)
    step = (stop - start) / max(last, 1)
    wanted = _named(kind if dtype is None else dtype, "linspace", INEXACT)
    if kind.is_complex and not wanted.is_complex:
        raise UnsupportedDType(f"linspace: {wanted} cannot hold {start}, ..., {stop}")
    dtype = wanted.name
    end = stop if last > 0 else start
    return {
        "start": start,
        "end": end,
        "step": step,
        "last": max(last, 0),
        "shape": (num,),
        "dtype": dtype,
    }


def _linspace_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for start, stop, num, endpoint in (
        (0, 1, 11, True), (2.5, -7, 64, False), (3, 3, 5, True), (1, 2, 1, True), (1, 2, 0, True), (-4, 8, 1031, True),
    ):  # fmt: skip
        yield Sample(
            (), {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype.name}
        )
    if dtype.is_complex:
        yield Sample((), {"start": 1 - 2j, "stop": -3 + 1j, "num": 9, "dtype": dtype.name})


@declared(Generated, asked=_linspace, dtypes=INEXACT, shape_of=_made, methods=False, ulp=2, absolute=16.0,
          scalars={"start": None, "end": None, "step": None, "last": dtypes.index}, samples=_linspace_samples,
          reference=lambda start, stop, num=50, endpoint=True, dtype=None: np.linspace(
              start, stop, num, endpoint))  # fmt: skip
def linspace(at: tuple[Value, ...], *, start: Any, end: Any, step: Any, last: Any, dtype: str) -> Value:
    """`num` numbers at equal distances from start to stop, or, without the endpoint, to the one before it."""
    left = last - at[0]  # counted from the nearer end, so that both are exact
    part = step.dtype.part
    return select(
        at[0] < left, start + at[0].to(part).to(step.dtype) * step, end - left.to(part).to(step.dtype) * step
    )


def _eye(*, n_rows, n_cols=None, k=0, dtype=None) -> dict[str, Any]:
    shape = (whole(n_rows, "eye: n_rows"), whole(n_rows if n_cols is None else n_cols, "eye: n_cols"))
    if min(shape) < 0:
        raise ShapeError(f"eye: sizes must not be negative, got {shape}")
    k = max(-(2**31), min(whole(k, "eye: k"), 2**31 - 1))
    return {"k": k, "shape": shape, "dtype": _named(dtypes.f32 if dtype is None else dtype, "eye", ALL).name}


def _eye_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for n_rows, n_cols, k in ((4, None, 0), (3, 5, 1), (5, 3, -2), (0, 4, 0), (3, 3, 9)):
        yield Sample((), {"n_rows": n_rows, "n_cols": n_cols, "k": k, "dtype": dtype.name})


@declared(Generated, asked=_eye, dtypes=ALL, shape_of=_made, methods=False, scalars={"k": dtypes.i32},
          samples=_eye_samples,
          reference=lambda n_rows, n_cols=None, k=0, dtype=None: np.eye(n_rows, n_cols, k))  # fmt: skip
def eye(at: tuple[Value, ...], *, k: Any, dtype: str) -> Value:
    """Ones on diagonal `k` of a matrix, zeros elsewhere; f32 unless a dtype is named."""
    element = at[0].builder.constant(1, dtypes.dtype(dtype))
    return select(at[1].to(dtypes.i32) - at[0].to(dtypes.i32) == k, element, 0)
