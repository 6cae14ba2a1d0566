"""Moving elements: copies, casts, concatenation, padding, and reading or writing at computed positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from hologram import dtypes
from hologram.atlas.builder import Value, select
from hologram.atlas.opcodes import Opcode
from hologram.dtypes import ALL, DType
from hologram.errors import ShapeError, UnsupportedDType
from hologram.limits import Limits
from hologram.opset.form_map import IndexedOperand, copy_plan, indexed
from hologram.opset.layout import Layout, normalize_axis
from hologram.opset.operation import Input, Operation, Sample, composite, register
from hologram.opset.plan import Plan, Step
from hologram.opset.samples import SHAPES, array
from hologram.opset.types import promoted

Coordinates = tuple[Value, ...]


# Copies.


@dataclass(frozen=True, eq=False)
class Copy(Operation):
    """Strided to strided, broadcasting and converting."""

    def infer(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        (x,) = inputs
        assert isinstance(x, Layout)
        wanted = attributes.get("dtype")
        return (Layout.contiguous(x.dtype if wanted is None else dtypes.dtype(wanted), x.shape),)

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        (x,) = inputs
        assert isinstance(x, Layout)
        return copy_plan(x, outputs[0])


def _copy_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in SHAPES:
        yield Sample((array(rng, dtype, shape, special=True),))


def _copy(x):
    """The elements of x, converted to the output's dtype and broadcast to its shape."""


copy = register(
    Copy(
        name="copy", function=_copy, reference=np.array, samples=_copy_samples, dtypes=ALL, aten=("clone",),
        out_names=("memory_copy",), methods=False,
    )
)  # fmt: skip


def _full_shape(*, value, shape, dtype):
    return Layout.contiguous(dtypes.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape))


def _full_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((), (7,), (0, 3), (3, 1, 5)):
        yield Sample((), {"value": 1 if dtype.kind == "bool" else 3, "shape": shape, "dtype": dtype.name})


@indexed(shape_of=_full_shape, dtypes=ALL, scalars={"value": None}, samples=_full_samples, methods=False,
         aten=("full",), reference=lambda value, shape, dtype: np.full(shape, value, dtypes.dtype(dtype).numpy),
         out_names=("fill",))  # fmt: skip
def full(at, *, value, shape, dtype="f32"):
    """Every element is `value`. As `hg.ops.fill(ex, out, value)` it fills what is there."""
    return value


def saturated(x: np.ndarray, dtype: DType) -> np.ndarray:
    """`x` converted as CONVERT does: floats to integers truncate and saturate, NaN gives 0."""
    x = np.asarray(x)
    if dtype.is_integer and x.dtype.kind not in "iub":
        info = np.iinfo(dtype.numpy)
        wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        inside = np.clip(
            np.trunc(wide), float(info.min), np.nextafter(float(info.max), 0) if info.bits > 53 else info.max
        )
        result = inside.astype(dtype.numpy)
        result = np.where(wide >= float(info.max), info.max, result)
        return np.where(wide <= float(info.min), info.min, result).astype(dtype.numpy)
    return x.astype(dtype.numpy)


def _cast_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for target in ALL:
        yield Sample((array(rng, dtype, (33, 5), -300, 300, special=True),), {"dtype": target.name})


def _cast(x, *, dtype):
    """x converted: to the nearest, halves to even; floats to integers truncate and saturate, NaN gives 0."""


cast = register(
    Copy(
        name="cast",
        function=_cast,
        reference=lambda x, dtype: saturated(x, dtypes.dtype(dtype)),
        samples=_cast_samples,
        dtypes=ALL,
        aten=("_to_copy",),
        out_names=("vector_cast",),
    )
)


@dataclass(frozen=True, eq=False)
class Concat(Operation):
    """Copies each operand into its part of the output; takes any number of operands, as one sequence."""

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        operands, attributes = super().bind(args, kwargs)
        if not isinstance(operands[0], (tuple, list)) or not operands[0]:
            raise TypeError(f"{self.name}: a sequence of at least one Tensor is needed, got {operands[0]!r}")
        return tuple(operands[0]), attributes

    def operand_names(self, count: int) -> tuple[str, ...]:
        return tuple(f"x{k}" for k in range(count))

    def infer(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        layouts = [i for i in inputs if isinstance(i, Layout)]
        first = layouts[0]
        axis = normalize_axis(attributes["axis"], first.ndim, self.name)
        for layout in layouts:
            if layout.shape[:axis] + layout.shape[axis + 1 :] != first.shape[:axis] + first.shape[axis + 1 :]:
                raise ShapeError(
                    f"{self.name}: shapes must agree but along axis {axis}, got {[i.shape for i in layouts]}"
                )
        shape = (*first.shape[:axis], sum(i.shape[axis] for i in layouts), *first.shape[axis + 1 :])
        return (Layout.contiguous(promoted([i.dtype for i in layouts]), shape),)

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        axis = normalize_axis(attributes["axis"], outputs[0].ndim, self.name)
        steps: list[Step] = []
        start = 0
        for k, layout in enumerate(inputs):
            assert isinstance(layout, Layout)
            part = outputs[0].narrow(axis, start, layout.shape[axis])
            steps += [replace(s, operands=(k, len(inputs))) for s in copy_plan(layout, part).steps]
            start += layout.shape[axis]
        return Plan(tuple(steps))


def _concat_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shapes, axis in (
        (((3,), (0,), (5,)), 0),
        (((2, 3), (2, 4)), -1),
        (((1, 2, 3), (4, 2, 3), (2, 2, 3)), 0),
    ):
        yield Sample((tuple(array(rng, dtype, s, special=True) for s in shapes),), {"axis": axis})


def _concat(tensors, *, axis=0):
    """Tensors joined along an existing axis."""


concat = register(
    Concat(
        name="concat", function=_concat, reference=lambda tensors, axis=0: np.concatenate(tensors, axis=axis),
        samples=_concat_samples, dtypes=ALL, aten=("cat",), methods=False,
    )
)  # fmt: skip


@composite(
    reference=lambda tensors, axis=0: np.stack(tensors, axis=axis), dtypes=ALL, aten=("stack",), methods=False,
    samples=lambda rng, d: [Sample((tuple(array(rng, d, (3, 4)) for _ in range(3)),), {"axis": a}) for a in (0, 1, -1)],
)  # fmt: skip
def stack(tensors, *, axis=0):
    """Tensors of one shape joined along a new axis."""
    ndim = len(tensors[0].shape) + 1
    return concat([t.unsqueeze(normalize_axis(axis, ndim, "stack")) for t in tensors], axis=axis)


# Reading at computed positions.


def _inside(position: Value, extent: Value) -> tuple[Value, Value]:
    """Whether a position, counted from the end where negative, lies in [0, extent); and one that does."""
    size = extent.to(dtypes.i32)
    wrapped = select(position < 0, position + size, position)
    inside = (wrapped >= 0) & (wrapped < size)
    return inside, select(inside, wrapped, 0).to(dtypes.index)


def _positions(who: str, layout: Input) -> Layout:
    if not isinstance(layout, Layout) or layout.dtype.name not in ("i32", "i64", "u32"):
        raise UnsupportedDType(
            f"{who}: positions must be i32, u32 or i64, got {getattr(layout, 'dtype', layout)}"
        )
    return layout


def _read(x: IndexedOperand, at: Sequence[Value], axis: int, position: Value) -> Value:
    """x at `at`, but along `axis` at a position read from a tensor; 0 where that is out of range."""
    inside, safe = _inside(position.to(dtypes.i32), x.extent(axis))
    return select(inside, x.at(*at[:axis], safe, *at[axis + 1 :]), 0)


def _index_select_shape(x, index, *, axis):
    if _positions("index_select", index).ndim != 1:
        raise ShapeError(f"index_select: index must have one axis, got shape {index.shape}")
    axis = normalize_axis(axis, x.ndim, "index_select")
    return Layout.contiguous(x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]))


def _index_select_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis in (((9,), 0), ((4, 5), 1), ((3, 4, 5), -2)):
        index = rng.integers(-shape[axis], shape[axis], 6).astype(np.int32)
        yield Sample((array(rng, dtype, shape, special=True), index), {"axis": axis})


@indexed(shape_of=_index_select_shape, dtypes=ALL, samples=_index_select_samples, aten=("index_select",),
         reference=lambda x, index, axis=0: np.take(x, index, axis=axis))  # fmt: skip
def index_select(at, x, index, *, axis=0):
    """The slices of x along `axis` at the positions in `index` (negative: from the end; out of range: zeros)."""
    axis %= x.ndim
    return _read(x, at, axis, index.at(at[axis]))


def _gather_shape(x, index, *, dim):
    axis = normalize_axis(dim, x.ndim, "gather")
    _positions("gather", index)
    if index.ndim != x.ndim or any(
        n > m for k, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if k != axis
    ):
        raise ShapeError(f"gather: index must fit x but along axis {axis}, got {index.shape} for {x.shape}")
    return Layout.contiguous(x.dtype, index.shape)


def _gather_reference(x, index, dim):
    window = tuple(slice(0, n) if k != dim % x.ndim else slice(None) for k, n in enumerate(index.shape))
    return np.take_along_axis(x[window], index, dim)


def _gather_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, picked, dim in (((9,), (4,), 0), ((4, 5), (3, 7), 1), ((3, 4, 5), (2, 6, 5), -2)):
        index = rng.integers(0, shape[dim], picked).astype(np.int64 if dim else np.int32)
        yield Sample((array(rng, dtype, shape, special=True), index), {"dim": dim})


@indexed(
    shape_of=_gather_shape, dtypes=ALL, samples=_gather_samples, aten=("gather",), reference=_gather_reference
)
def gather(at, x, index, *, dim):
    """out[i, j] = x[index[i, j], j] for dim=0, and likewise along other axes; out of range: zeros."""
    return _read(x, at, dim % x.ndim, index.at(*at))


def _embedding_shape(index, weight):
    _positions("embedding", index)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight must have two axes, got shape {weight.shape}")
    return Layout.contiguous(weight.dtype, (*index.shape, weight.shape[1]))


def _embedding_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((5,), (2, 3), ()):
        yield Sample((rng.integers(0, 11, shape).astype(np.int32), array(rng, dtype, (11, 6))))


@indexed(shape_of=_embedding_shape, dtypes=ALL, samples=_embedding_samples, aten=("embedding",), methods=False,
         reference=lambda index, weight: weight[index])  # fmt: skip
def embedding(at, index, weight):
    """The rows of weight (V, D) that index (...) names, as (..., D); out of range: zeros."""
    row = index.at(*(at[:-1] or (index.builder.constant(0, dtypes.index),)))
    return _read(weight, (at[-1], at[-1]), 0, row)


def _widths(x: Layout, padding: Any) -> tuple[tuple[int, int], ...]:
    pairs = isinstance(padding, (tuple, list)) and all(isinstance(p, (int, tuple, list)) for p in padding)
    widths = tuple((p, p) if isinstance(p, int) else tuple(p) for p in padding) if pairs else ()
    if not pairs or len(widths) != x.ndim or any(len(w) != 2 or min(w) < 0 for w in widths):
        raise ShapeError(f"pad: {x.ndim} pairs (before, after) of sizes >= 0 are needed, got {padding}")
    return widths


def _pad_shape(x, *, padding, value):
    return Layout.contiguous(
        x.dtype, tuple(n + sum(w) for n, w in zip(x.shape, _widths(x, padding), strict=True))
    )


def _pad_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, padding in (((5,), ((2, 1),)), ((3, 4), ((0, 2), (1, 0))), ((2, 0), ((1, 1), (0, 3)))):
        yield Sample((array(rng, dtype, shape, special=True),), {"padding": padding, "value": 1.0})


@indexed(
    shape_of=_pad_shape,
    dtypes=ALL,
    samples=_pad_samples,
    aten=("constant_pad_nd",),
    reference=lambda x, padding, value=0.0: np.pad(x, padding, constant_values=np.asarray(value, x.dtype)),
)
def pad(at, x, *, padding, value: float = 0.0):
    """x with `padding` ((before, after) for every axis) elements of `value` around it."""
    inside, source = [], []
    for axis, (coordinate, width) in enumerate(zip(at, padding, strict=True)):
        before = width if isinstance(width, int) else width[0]
        here = (coordinate >= before) & (coordinate < x.extent(axis) + before)
        inside.append(here)
        source.append(select(here, coordinate, before) - before)
    return select(reduce(and_, inside), x.at(*source), value)


# Writing at computed positions.


def _scatter_shape(x, index, source, *, dim):
    axis = normalize_axis(dim, x.ndim, "scatter")
    _positions("scatter", index)
    fits = index.ndim == x.ndim and all(
        n <= m for k, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if k != axis
    )
    if not fits or source.shape != index.shape:
        raise ShapeError(
            f"scatter: index {index.shape} must fit x {x.shape} and have the source's shape {source.shape}"
        )
    if source.dtype != x.dtype:
        raise UnsupportedDType(f"scatter: x and source must have one dtype, got {x.dtype} and {source.dtype}")
    return Layout.contiguous(x.dtype, x.shape)


def _scatter_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, dim in (((9,), 0), ((4, 5), 1), ((5, 4, 3), 0)):
        order = rng.permuted(
            np.broadcast_to(
                np.expand_dims(np.arange(shape[dim]), [k for k in range(len(shape)) if k != dim]), shape
            ),
            axis=dim,
        )
        index = order.astype(np.int32)
        yield Sample((array(rng, dtype, shape), index, array(rng, dtype, shape, special=True)), {"dim": dim})


def _scatter_reference(x, index, source, dim):
    out = np.array(x)
    np.put_along_axis(out, index, source, dim)
    return out


@indexed(shape_of=_scatter_shape, dtypes=ALL, over="index", base="x", samples=_scatter_samples, aten=("scatter.src",),
         reference=_scatter_reference)  # fmt: skip
def scatter(at, out, x, index, source, *, dim):
    """x with out[index[i, j], j] = source[i, j] for dim=0, likewise along other axes.

    Where an index repeats, one of its elements wins; indices out of range are ignored.
    """
    axis = dim % out.ndim
    inside, safe = _inside(index.at(*at).to(dtypes.i32), out.extent(axis))
    out.builder.if_(inside, lambda: out.put(source.at(*at), *at[:axis], safe, *at[axis + 1 :]), lambda: None)


def _scatter_add_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, picked, dim in (((9,), (40,), 0), ((4, 5), (4, 9), 1)):
        index = rng.integers(0, shape[dim], picked).astype(np.int32)
        yield Sample((array(rng, dtype, shape), index, array(rng, dtype, picked)), {"dim": dim})


def _scatter_add_reference(x, index, source, dim):
    out = np.array(x)
    places = list(np.indices(index.shape))
    places[dim] = index
    np.add.at(out, tuple(places), source)
    return out


@indexed(
    shape_of=_scatter_shape,
    dtypes=(dtypes.f32, dtypes.i32, dtypes.u32),
    over="index",
    base="x",
    ulp=4,
    absolute=16.0,
    samples=_scatter_add_samples,
    aten=("scatter_add",),
    reference=_scatter_add_reference,
)
def scatter_add(at, out, x, index, source, *, dim):
    """x with source added at the positions scatter would write; repeated positions add up, in any order."""
    axis = dim % out.ndim
    builder = out.builder
    inside, safe = _inside(index.at(*at).to(dtypes.i32), out.extent(axis))
    place = out.position((*at[:axis], safe, *at[axis + 1 :]))

    def add() -> None:
        builder.atomic(Opcode.ATOMIC_ADD, out.parameter, place, source.at(*at))

    builder.if_(inside, add, lambda: None)
