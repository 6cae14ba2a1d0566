"""Rearranging elements: the array API's manipulation functions, made of views and of other operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hologram import dtypes
from hologram.atlas.builder import select
from hologram.dtypes import ALL, NUMBERS, DType
from hologram.errors import ShapeError
from hologram.layout import Layout, integers, normalize_axes, normalize_axis, whole
from hologram.opset import indexing, logic, movement, reduce, scan
from hologram.opset import math as arithmetic
from hologram.opset.forms.composite import composite
from hologram.opset.forms.map import Indexed, indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Sample, register
from hologram.opset.forms.samples import Samples, array
from hologram.plan import Plan, Target


def _cases(*cases: tuple[tuple[int, ...], dict[str, Any]]) -> Samples:
    """Samples of one array each: its shape, and the attributes."""

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape, attributes in cases:
            yield Sample((array(rng, dtype, shape),), attributes)

    return make


# Views.


@composite(dtypes=ALL, aten=("expand",), methods=False, reference=np.broadcast_to,
           samples=_cases(((3, 1), {"shape": (2, 3, 4)}), ((), {"shape": (2,)}),
                          ((1, 0), {"shape": (3, 0)})))  # fmt: skip
def broadcast_to(x, *, shape):
    """x repeated, without a copy, to a shape that it broadcasts to."""
    return x.expand(shape)


@composite(dtypes=ALL, aten=("reshape", "view"), methods=False, reference=lambda x, shape: np.reshape(x, shape),
           samples=_cases(((4, 6), {"shape": (3, -1)}), ((), {"shape": (1, 1)}),
                          ((0, 3), {"shape": (3, 0)})))  # fmt: skip
def reshape(x, *, shape):
    """The same elements in another shape, one of whose sizes may be -1; a copy only where strides cannot express it."""
    return x.reshape(shape)


@composite(dtypes=ALL, aten=("unsqueeze",), methods=False, reference=lambda x, axis=0: np.expand_dims(x, axis),
           samples=_cases(((2, 3), {"axis": 1}), ((2, 3), {"axis": -1}), ((), {"axis": 0})))  # fmt: skip
def expand_dims(x, *, axis=0):
    """x with a new axis of size 1 at that place."""
    return x.unsqueeze(axis)


@composite(dtypes=ALL, aten=("squeeze.dims",), methods=False, reference=lambda x, axis: np.squeeze(x, axis),
           samples=_cases(((1, 3, 1), {"axis": 0}), ((1, 3, 1), {"axis": (0, -1)})))  # fmt: skip
def squeeze(x, *, axis):
    """x without the axes named, which must have size 1."""
    return x.squeeze(axis)


@composite(dtypes=ALL, aten=("permute",), methods=False, reference=lambda x, axes: np.transpose(x, axes),
           samples=_cases(((2, 3, 4), {"axes": (2, 0, 1)}), ((), {"axes": ()})))  # fmt: skip
def permute_dims(x, *, axes):
    """Axes in another order, without a copy."""
    return x.permute(axes)


@composite(
    dtypes=ALL, methods=False, reference=lambda x: np.swapaxes(x, -2, -1), samples=_cases(((2, 3, 4), {}))
)
def matrix_transpose(x):
    """The last two axes exchanged, without a copy."""
    return x.mT


@composite(dtypes=ALL, methods=False, reference=lambda x, source, destination: np.moveaxis(x, source, destination),
           samples=_cases(((2, 3, 4), {"source": 0, "destination": -1}),
                          ((2, 3, 4), {"source": (0, 2), "destination": (1, 0)})))  # fmt: skip
def moveaxis(x, *, source, destination):
    """Axes moved to other places, without a copy; the others keep their order."""
    ends = [_listed(axes, x.ndim, "moveaxis") for axes in (source, destination)]
    if len(ends[0]) != len(ends[1]):
        raise ShapeError(f"moveaxis: as many axes must go as come, got {source} and {destination}")
    order = [axis for axis in range(x.ndim) if axis not in ends[0]]
    for place, axis in sorted(zip(ends[1], ends[0], strict=True)):
        order.insert(place, axis)
    return x.permute(order)


def _listed(axes: int | Sequence[int], ndim: int, who: str) -> list[int]:
    """Axes counted from the front, in the order given."""
    normalize_axes(axes, ndim, who)
    return [normalize_axis(a, ndim, who) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]  # type: ignore[arg-type]


@composite(dtypes=ALL, aten=("flip",), reference=lambda x, axis=None: np.flip(x, axis),
           samples=_cases(((4, 5), {"axis": None}), ((4, 5), {"axis": -1}), ((2, 3, 4), {"axis": (0, 2)})))  # fmt: skip
def flip(x, *, axis=None):
    """The elements in reverse order along the axes (all, if none is named), without a copy."""
    for k in normalize_axes(axis, x.ndim, "flip"):
        x = x.slice(k, None, None, -1)
    return x


# Copies.


@composite(dtypes=ALL, aten=("roll",), reference=lambda x, shift, axis=None: np.roll(x, shift, axis),
           samples=_cases(((4, 5), {"shift": 3, "axis": None}), ((4, 5), {"shift": -7, "axis": 1}),
                          ((0, 3), {"shift": 1, "axis": 0}), ((4, 5), {"shift": (1, 2), "axis": (0, 1)})))  # fmt: skip
def roll(x, *, shift, axis=None):
    """Elements moved along axes (along the flat tensor, if none is named), from the end to the beginning."""
    if axis is None:
        return roll(x.flatten(), shift=shift, axis=0).reshape(x.shape)
    axes = _listed(axis, x.ndim, "roll")
    shifts = [
        whole(by, "roll: shift")
        for by in (shift if isinstance(shift, (tuple, list)) else [shift] * len(axes))
    ]
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: a shift for every axis is needed, got {shift} for {axis}")
    for by, k in zip(shifts, axes, strict=True):
        cut = -by % x.shape[k] if x.shape[k] else 0
        if cut:
            x = movement.concat([x.slice(k, cut), x.slice(k, None, cut)], axis=k)
    return x


def _count(number: Any, who: str) -> int:
    if whole(number, who) < 0:
        raise ShapeError(f"{who} must be at least 0, got {number}")
    return whole(number, who)


@composite(dtypes=ALL, reference=lambda x, repeats, axis=None: np.repeat(x, repeats, axis),
           samples=_cases(((2, 3), {"repeats": 3, "axis": None}), ((2, 3), {"repeats": 2, "axis": 0}),
                          ((2, 3), {"repeats": 0, "axis": -1})))  # fmt: skip
def repeat(x, *, repeats, axis=None):
    """Every element (slice, if an axis is named) `repeats` times in a row."""
    if axis is None:
        return repeat(x.flatten(), repeats=repeats, axis=0)
    k = normalize_axis(axis, x.ndim, "repeat")
    repeats = _count(repeats, "repeat: repeats")
    wide = x.unsqueeze(k + 1).expand(*x.shape[: k + 1], repeats, *x.shape[k + 1 :])
    return wide.reshape(*x.shape[:k], x.shape[k] * repeats, *x.shape[k + 1 :])


@composite(dtypes=ALL, aten=("repeat",), reference=lambda x, repetitions: np.tile(x, repetitions),
           samples=_cases(((2, 3), {"repetitions": (2, 1, 2)}), ((2, 3), {"repetitions": (3,)}),
                          ((), {"repetitions": (2,)})))  # fmt: skip
def tile(x, *, repetitions):
    """x side by side with itself, so many times along each axis; missing axes are added in front."""
    given = repetitions if isinstance(repetitions, (tuple, list)) else (repetitions,)
    rank = max(x.ndim, len(given))
    counts = (1,) * (rank - len(given)) + tuple(_count(n, "tile: repetitions") for n in given)
    shape = (1,) * (rank - x.ndim) + x.shape
    within = [size for n in shape for size in (1, n)]
    wide = x.reshape(within).expand([size for n, r in zip(shape, counts, strict=True) for size in (r, n)])
    return wide.reshape([n * r for n, r in zip(shape, counts, strict=True)])


def _take_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis in (((9,), 0), ((4, 5), -1)):
        index = rng.integers(0, shape[axis], 6).astype(np.int64)
        yield Sample((array(rng, dtype, shape), index), {"axis": axis})
    yield Sample((array(rng, dtype, (4, 5)), rng.integers(0, 4, (2, 3)).astype(np.int8)))
    yield Sample((array(rng, dtype, (300,)), np.array(299, np.uint16)))


@composite(dtypes=ALL, samples=_take_samples,
           reference=lambda x, indices, axis=0: np.take(x, indices, axis))  # fmt: skip
def take(x, indices, *, axis=0):
    """The slices of x along an axis at the positions in `indices`, whose shape replaces the axis; see index_select."""
    k = normalize_axis(axis, x.ndim, "take")
    found = indexing.index_select(x, indices.flatten(), axis=k)
    return found if indices.ndim == 1 else found.reshape(*x.shape[:k], *indices.shape, *x.shape[k + 1 :])


def _take_along_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, picked, axis in (((9,), (4,), 0), ((4, 5), (4, 7), -1)):
        index = rng.integers(0, shape[axis], picked).astype(np.int64)
        yield Sample((array(rng, dtype, shape), index), {"axis": axis})


@composite(dtypes=ALL, samples=_take_along_samples,
           reference=lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis))  # fmt: skip
def take_along_axis(x, indices, *, axis=-1):
    """The elements of x at the positions in `indices` along an axis; see gather."""
    return indexing.gather(x, indices, dim=axis)


_TRIANGLES = (((4, 5), {"k": 0}), ((4, 5), {"k": 2}), ((2, 5, 3), {"k": -1}), ((0, 3), {"k": 0}))


def _matrices(who: str) -> Callable[..., Layout]:
    def shape_of(x: Layout, *, k: int) -> Layout:
        if x.ndim < 2:
            raise ShapeError(f"{who}: a tensor of at least 2 axes is needed, got shape {x.shape}")
        return Layout.contiguous(x.dtype, x.shape)

    return shape_of


@indexed(shape_of=_matrices("tril"), dtypes=ALL, aten=("tril",), samples=_cases(*_TRIANGLES),
         scalars={"k": dtypes.i32}, reference=lambda x, k=0: np.tril(x, k))  # fmt: skip
def tril(at, x, *, k: Any = 0):
    """The lower triangles of matrices: zeros above diagonal `k`."""
    return select(at[-1].to(dtypes.i32) - at[-2].to(dtypes.i32) <= k, x.at(*at), 0)


@indexed(shape_of=_matrices("triu"), dtypes=ALL, aten=("triu",), samples=_cases(*_TRIANGLES),
         scalars={"k": dtypes.i32}, reference=lambda x, k=0: np.triu(x, k))  # fmt: skip
def triu(at, x, *, k: Any = 0):
    """The upper triangles of matrices: zeros below diagonal `k`."""
    return select(at[-1].to(dtypes.i32) - at[-2].to(dtypes.i32) >= k, x.at(*at), 0)


# Counting and differences.


@composite(dtypes=ALL, aten=("count_nonzero", "count_nonzero.dim_IntList"),
           reference=lambda x, axis=None, keepdims=False: np.count_nonzero(x, axis=axis, keepdims=keepdims),
           samples=_cases(((4, 5), {"axis": 1, "keepdims": True}), ((4, 5), {}), ((4, 5), {"axis": (0,)}),
                          ((0,), {})))  # fmt: skip
def count_nonzero(x, *, axis=None, keepdims=False):
    """How many elements are not 0, as i64."""
    return reduce.sum_(logic.not_equal(x, 0), axis=axis, keepdims=keepdims)


@composite(dtypes=NUMBERS, aten=("diff",), reference=lambda x, axis=-1, n=1: np.diff(x, n, axis), ulp=0.5, absolute=1.0,
           samples=_cases(((9,), {}), ((4, 5), {"axis": 0, "n": 2}), ((4, 1), {"n": 1})))  # fmt: skip
def diff(x, *, axis=-1, n=1):
    """Each element less the one before it along an axis, `n` times over."""
    k = normalize_axis(axis, x.ndim, "diff")
    for _ in range(min(_count(n, "diff: n"), x.shape[k])):
        x = arithmetic.subtract(x.slice(k, 1), x.slice(k, None, -1))
    return x


@composite(dtypes=ALL, ulp=4, absolute=1024.0, samples=_cases(((9,), {"axis": 0}), ((3, 70), {"axis": -1})),
           reference=lambda x, axis=-1, dtype=None: np.cumsum(x, axis, dtype))  # fmt: skip
def cumulative_sum(x, *, axis=-1, dtype=None):
    """Running sums along an axis; see cumsum."""
    return scan.cumsum(x, axis=axis, dtype=dtype)


def _vector_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for axis in (-1, 0):
        yield Sample((array(rng, dtype, (4, 5)), array(rng, dtype, (4, 5))), {"axis": axis})


@composite(dtypes=NUMBERS, ulp=4, absolute=64.0, reference=lambda x, y, axis=-1: (x * y).sum(axis, dtype=x.dtype),
           samples=_vector_samples, aten=("linalg_vecdot",))  # fmt: skip
def vecdot(x, y, *, axis=-1):
    """The dot products of the vectors along an axis; integers wrap."""
    product = arithmetic.multiply(x, y)
    return reduce.sum_(product, axis=axis, dtype=product.dtype)


# Filling.


@dataclass(frozen=True, eq=False)
class Fill(Indexed):
    """Takes the shape and dtype of a given output from it."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        given = {**attributes, "shape": outputs[0].shape, "dtype": outputs[0].dtype}
        return super().plan(inputs, outputs, given, target)


def _fill(at, *, value: Any, shape=(), dtype="f32"):
    """`value` everywhere: in a given output, or in a new tensor of that shape and dtype."""
    return value


def _filled(value, shape, dtype):
    return Layout.contiguous(dtypes.dtype(dtype), integers(shape, "fill: a size"))


def _fill_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((), (0,), 1031, (3, 5)):
        yield Sample((), {"value": 1, "shape": shape, "dtype": dtype.name})


fill = register(
    Fill(
        name="fill", function=_fill, dtypes=ALL, scalars={"value": None}, samples=_fill_samples, methods=False,
        reference=lambda value, shape=(), dtype="f32": np.full(shape, value),
        shape_of=_filled,
    )
)  # fmt: skip
