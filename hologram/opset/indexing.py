"""Reading and writing at positions that another tensor holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import ALL, COMPLEX, NUMBERS, DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.map import Indexed, IndexedOperand, indexed
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Sample, register
from hologram.opset.forms.samples import array
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles import updates
from hologram.opset.tiles.updates import inside_of

LONGEST = 2**31 - 1  # of an axis that positions narrower than i64 count along


# Reading at computed positions.


def checked_positions(who: str, layout: Layout, extent: int) -> Layout:
    """Refuses positions of another dtype, or of one too narrow for an axis of that extent."""
    if not layout.dtype.is_integer:
        raise UnsupportedDType(f"{who}: positions must be integers, got {layout.dtype}")
    if extent > LONGEST and layout.dtype.bits < 64:
        raise UnsupportedDType(f"{who}: positions along an axis of {extent} must be i64, got {layout.dtype}")
    return layout


def _read(x: IndexedOperand, at: Sequence[Value], axis: int, position: Value) -> Value:
    """x at `at`, but along `axis` at a position read from a tensor; 0 where that is out of range."""
    inside, safe = inside_of(position, x.extent(axis))
    return select(inside, x.at(*at[:axis], safe, *at[axis + 1 :]), 0)


def _index_select_shape(x, index, *, axis):
    axis = normalize_axis(axis, x.ndim, "index_select")
    if checked_positions("index_select", index, x.shape[axis]).ndim != 1:
        raise ShapeError(f"index_select: index must have one axis, got shape {index.shape}")
    return Layout.contiguous(x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]))


def _index_select_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis in (((9,), 0), ((4, 5), 1), ((3, 4, 5), -2)):
        index = rng.integers(-shape[axis], shape[axis], 6).astype(np.int32)
        yield Sample((array(rng, dtype, shape, special=True), index), {"axis": axis})
        yield Sample((array(rng, dtype, shape), (index % shape[axis]).astype(np.uint8)), {"axis": axis})


def _added_up(cotangent, index, shape, dim):
    """What was read at positions, added up in the shape that it was read from."""
    zero = cotangent.executor.full((), 0, cotangent.dtype)
    return scatter_add(zero.expand(shape), index, cotangent, dim=dim)


def _unselected(cotangent, inputs, index, axis):
    across = tuple(index.size if k == axis % cotangent.ndim else 1 for k in range(cotangent.ndim))
    return _added_up(cotangent, index.reshape(across).expand(cotangent.shape), inputs[0].shape, axis)


@indexed(shape_of=_index_select_shape, dtypes=ALL, samples=_index_select_samples, aten=("index_select",),
         reference=lambda x, index, axis=0: np.take(x, index, axis=axis), gradient={"x": _unselected})  # fmt: skip
def index_select(at, x, index, *, axis=0):
    """The slices of x along `axis` at the positions in `index` (negative: from the end; out of range: zeros)."""
    axis %= x.ndim
    return _read(x, at, axis, index.at(at[axis]))


def _gather_shape(x, index, *, dim):
    axis = normalize_axis(dim, x.ndim, "gather")
    checked_positions("gather", index, x.shape[axis])
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
    shape_of=_gather_shape,
    dtypes=ALL,
    samples=_gather_samples,
    aten=("gather",),
    reference=_gather_reference,
    gradient={"x": lambda cotangent, inputs, index, dim: _added_up(cotangent, index, inputs[0].shape, dim)},
)
def gather(at, x, index, *, dim):
    """out[i, j] = x[index[i, j], j] for dim=0, and likewise along other axes; out of range: zeros."""
    return _read(x, at, dim % x.ndim, index.at(*at))


def _embedding_shape(index, weight):
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight must have two axes, got shape {weight.shape}")
    checked_positions("embedding", index, weight.shape[0])
    return Layout.contiguous(weight.dtype, (*index.shape, weight.shape[1]))


def _embedding_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((5,), (2, 3), ()):
        yield Sample((rng.integers(0, 11, shape).astype(np.int32), array(rng, dtype, (11, 6))))


def _embedded(cotangent, inputs, index):
    rows = cotangent.reshape(index.size, cotangent.shape[-1])
    return _added_up(rows, index.reshape(index.size, 1).expand(rows.shape), inputs[1].shape, 0)


@indexed(shape_of=_embedding_shape, dtypes=ALL, samples=_embedding_samples, methods=False,
         reference=lambda index, weight: weight[index], gradient={"weight": _embedded})  # fmt: skip
def embedding(at, index, weight):
    """The rows of weight (V, D) that index (...) names, as (..., D); out of range: zeros."""
    row = index.at(*(at[:-1] or (index.builder.constant(0, dtypes.index),)))
    return _read(weight, (at[-1], at[-1]), 0, row)


# Writing at computed positions.


def scatter_shape(x, index, source, *, dim, **rest):
    axis = normalize_axis(dim, x.ndim, "scatter")
    checked_positions("scatter", index, x.shape[axis])
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


def _kept(cotangent: Any, index: Any, dim: Any) -> Any:
    nothing = cotangent.executor.full((), 0, cotangent.dtype).expand(index.shape)
    return scatter(cotangent, index, nothing, dim=dim)


def _gathered(cotangent: Any, index: Any, dim: Any) -> Any:
    return gather(cotangent, index, dim=dim)


@indexed(shape_of=scatter_shape, dtypes=ALL, over="index", base="x", samples=_scatter_samples, aten=("scatter.src",),
         reference=_scatter_reference, gradient={
             "x": _kept,
             "source": _gathered,  # all of those that repeat
         })  # fmt: skip
def scatter(at, out, x, index, source, *, dim):
    """x with out[index[i, j], j] = source[i, j] for dim=0, likewise along other axes.

    Where an index repeats, one of its elements wins; indices out of range are ignored.
    """
    axis = dim % out.ndim
    inside, safe = inside_of(index.at(*at), out.extent(axis))
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


def _scatter_add(at, out, x, index, source, *, dim):
    """x with source added at the positions scatter would write; repeated positions add up, in any order.

    Floats of 16 bits are summed in f32.
    """
    axis = dim % out.ndim
    builder = out.builder
    inside, safe = inside_of(index.at(*at), out.extent(axis))
    place = out.position((*at[:axis], safe, *at[axis + 1 :]))

    def add() -> None:
        builder.atomic(Opcode.ATOMIC_ADD, out.parameter, place, source.at(*at))

    builder.if_(inside, add, lambda: None)


ATOMIC = frozenset({dtypes.f32, dtypes.i32, dtypes.u32})  # dtypes whose sums any device can make in memory


def _sum(x: Value, y: Value) -> Value:
    return x + y


@frozen(eq=False, repr=False)
class ScatterAdd(Indexed):
    """Atomic sums; where a lane may as well take many elements in turn, or there are no such atomics, folded ones."""

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if outputs[0].dtype.is_complex:  # the parts are added up each for itself
            x, index, source = (i for i in inputs if isinstance(i, Layout))
            index = index.unsqueeze(index.ndim).expand((*index.shape, 2))
            dim = normalize_axis(attributes["dim"], x.ndim, self.name)
            return self.plan((x.parts(), index, source.parts()), (outputs[0].parts(),), {"dim": dim}, target)
        dtype = outputs[0].dtype.computed
        sums = Opcode.REDUCE_ADD
        if (
            dtype not in ATOMIC
            or target.limits.serial_workgroups
            or updates.apart(inputs, sums, target.limits)
        ):
            return updates.plan(inputs, outputs, attributes["dim"], _sum, sums, target)

        def lanes(steps: Steps, result: Place) -> None:
            own = Plan(self.lanes(inputs, (result.layout,), attributes))
            steps.extend(own, (0, 1, 2, result.position))

        return updates.plan_with(lanes, inputs, outputs, dtype)


scatter_add = register(
    ScatterAdd(
        name="scatter_add", function=_scatter_add, reference=_scatter_add_reference, samples=_scatter_add_samples,
        shape_of=scatter_shape, dtypes=NUMBERS + COMPLEX, over="index", base="x", ulp=4, absolute=16.0, beyond=256.0,
        aten=("scatter_add",),
        gradient={
            "x": lambda cotangent: cotangent,
            "source": _gathered,
        },
    )
)  # fmt: skip


@frozen(eq=False, repr=False)
class Put(Indexed):
    """Writes into a given output, whose other elements stay as they are."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        return ()

    def check_outputs(self, expected: Sequence[Layout], outputs: Layouts) -> None:
        """Any output will do: who writes into it knows its shape."""


def _put(at, out, index, source, unless=None):
    """out[index[i, j], j] = source[i, j], unless that is set; where an index repeats, one of its elements wins."""
    inside, safe = inside_of(index.at(*at), out.extent(0))
    if unless is not None:
        inside = inside & ~unless.at(out.builder.constant(0, dtypes.index))
    out.builder.if_(inside, lambda: out.put(source.at(*at), safe, *at[1:]), lambda: None)


# What assigning at positions is outside of a graph, in which it is a scatter; it has no name outside.
put = Put(
    name="put", function=_put, reference=lambda: None, samples=lambda rng, d: (), over="index", dtypes=ALL
)


def _pack(at, out, ends, x, *, length):
    """out = the positions of x's elements that are not 0, chunk by chunk of `length`; ends are running counts."""
    (chunk,) = at
    builder, n = out.builder, x.extent(0)
    start = chunk * length
    stop = select(start + length < n, start + length, n)
    first = select(chunk > 0, ends.at(select(chunk > 0, chunk - 1, 0)), 0).to(dtypes.index)
    end = ends.at(chunk).to(dtypes.index)

    def turn(i: Value, place: Value) -> tuple[Value]:
        # Written whether it is one or not: what is not is written over by the next one that is.
        builder.if_(place < end, lambda: out.put(i, place), lambda: None)
        return (place + select(x.at(i) != 0, builder.constant(1, dtypes.index), 0),)

    builder.loop(start, stop, turn, first=(first,))


# Half of `nonzero`: how many there are, its caller has counted.
pack = Put(name="pack", function=_pack, reference=lambda: None, samples=lambda rng, d: (), over="ends")
