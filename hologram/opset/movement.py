"""Moving elements: copies, casts, concatenation, padding, and reading or writing at computed positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import ALL, DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axis, row_major
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset import logic
from hologram.opset.creation import arange, fill
from hologram.opset.forms.composite import composite
from hologram.opset.forms.join import join_step, most_together
from hologram.opset.forms.map import copy_plan, indexed
from hologram.opset.forms.operation import Attributes, Elements, Inputs, Layouts, Operation, Sample, declared
from hologram.opset.forms.pieces import Piece, Pieces
from hologram.opset.forms.samples import array, unary
from hologram.opset.forms.types import promoted

Coordinates = tuple[Value, ...]


# Copies.


@frozen(eq=False, repr=False)
class Copy(Operation):
    """Strided to strided, broadcasting and converting; a number is an array without axes."""

    @property
    def pointwise(self) -> bool:
        return True

    @property
    def hands_numbers_on(self) -> bool:
        return True

    def fused(
        self, builder: Builder, operands: Elements, inputs: Inputs, attributes: Attributes
    ) -> tuple[Value, ...]:
        (x,) = operands
        assert isinstance(x, Value)
        return (x.to(self.infer(inputs, attributes)[0].dtype),)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        (x,) = inputs
        own, shape = (x.dtype, x.shape) if isinstance(x, Layout) else (type(x), ())
        wanted = attributes.get("dtype")
        return (Layout.contiguous(dtypes.dtype(own if wanted is None else wanted), shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        (x,) = inputs
        if isinstance(x, Layout):
            return copy_plan(x, outputs[0])
        plan = fill.plan((), outputs, {"value": x}, target)
        return Plan(tuple(replace(step, operands=(1,)) for step in plan.steps))


@declared(Copy, reference=np.array, samples=unary(), dtypes=ALL, aten=("clone",), out_names=("memory_copy",),
          methods=False, gradient={"x": lambda cotangent: cotangent})  # fmt: skip
def copy(x):
    """The elements of x, converted to the output's dtype and broadcast to its shape."""


def saturated(x: np.ndarray, dtype: DType) -> np.ndarray:
    """`x` converted as CONVERT does: floats to integers truncate and saturate, NaN gives 0; complex to real."""
    x = np.asarray(x)
    if x.dtype.kind == "c" and not dtype.is_complex and dtype.kind != "bool":
        x = np.real(x)
    if dtype.finite:
        x = np.clip(x.astype(np.float64), -dtype.largest, dtype.largest)
    if dtype.is_integer and x.dtype.kind not in "iub":
        low, high = dtype.lowest, dtype.highest
        wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        inside = np.clip(
            np.trunc(wide), float(low), np.nextafter(float(high), 0) if dtype.digits > 52 else high
        )
        result = np.where(wide >= float(high), high, inside.astype(dtype.numpy))
        return np.where(wide <= float(low), low, result).astype(dtype.numpy)
    return x.astype(dtype.numpy)


def _cast_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for target in ALL:
        yield Sample((array(rng, dtype, (33, 5), -300, 300, special=True),), {"dtype": target.name})


@declared(Copy, reference=lambda x, dtype: saturated(x, dtypes.dtype(dtype)), samples=_cast_samples, dtypes=ALL,
          out_names=("vector_cast",), gradient={"x": lambda cotangent: cotangent})  # fmt: skip
def cast(x, *, dtype):
    """x converted: to the nearest, halves to even; floats to integers truncate and saturate, NaN gives 0."""


@frozen(eq=False, repr=False)
class Overwrite(Operation):
    """A new tensor with the elements of x, but where the layout `part` lies in it those of y."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x = inputs[0]
        assert isinstance(x, Layout)
        return (Layout.contiguous(x.dtype, x.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        x, y = inputs
        assert isinstance(x, Layout)
        assert isinstance(y, Layout)
        whole = [replace(s, operands=(0, 2)) for s in copy_plan(x, outputs[0]).steps]
        part = [replace(s, operands=(1, 2)) for s in copy_plan(y, attributes["part"]).steps]
        return Plan((*whole, *part))


def _kept(cotangent, part):
    zero = cotangent.executor.full((), 0, cotangent.dtype)
    return overwrite(cotangent, zero.expand(part.shape), part=part)


def _over(inputs: Inputs, attributes: Attributes) -> Pieces | None:
    """x, and over it y, if the part is a box of x."""
    (x, y), part = inputs, attributes["part"]
    assert isinstance(x, Layout)
    assert isinstance(y, Layout)
    y = y.expand(part.shape)
    free = [k for k, n in enumerate(part.shape) if n > 1]
    start, sizes, strides, rest = [], [], [], part.offset
    for n, step in zip(x.shape, row_major(x.shape), strict=True):
        first, rest = divmod(rest, step)
        axis = next((k for k in free if n > 1 and part.strides[k] == step), None)
        if axis is not None:
            free.remove(axis)
        start.append(first)
        sizes.append(1 if axis is None else part.shape[axis])
        strides.append(0 if axis is None else y.strides[axis])
        if first + sizes[-1] > n:
            return None
    if free or not x.ndim:
        return None
    below = Piece(0, (0,) * x.ndim, x)
    return Pieces((below, Piece(1, tuple(start), Layout(y.dtype, tuple(sizes), tuple(strides), y.offset))))


# What writing into a part of a tensor is in a graph, whose values never change; it has no name outside.
overwrite = Overwrite(
    name="overwrite", dtypes=ALL, function=lambda x, y, *, part: None, reference=lambda x, y, part: None,
    samples=lambda rng, d: (), pieces=_over,
    gradient={"x": _kept, "y": lambda cotangent, part: cotangent.contiguous()._view(part)},
)  # fmt: skip


@frozen(eq=False, repr=False)
class Concat(Operation):
    """Copies each operand into its part of the output; takes any number of operands, as one sequence."""

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        operands, attributes = super().bind(args, kwargs)
        if not isinstance(operands[0], (tuple, list)) or not operands[0]:
            raise TypeError(f"{self.name}: a sequence of at least one Tensor is needed, got {operands[0]!r}")
        if attributes["axis"] is None:  # flat
            operands = ([o.reshape(-1) for o in operands[0]],)
            attributes = {"axis": 0}
        return tuple(operands[0]), attributes

    def operand_names(self, count: int) -> tuple[str, ...]:
        return tuple(f"x{k}" for k in range(count))

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        layouts = [i for i in inputs if isinstance(i, Layout)]
        first = layouts[0]
        if not first.ndim:
            raise ShapeError(f"{self.name}: tensors must have at least one axis; stack joins those without")
        axis = normalize_axis(attributes["axis"], first.ndim, self.name)
        for layout in layouts:
            rest = layout.shape[:axis] + layout.shape[axis + 1 :]
            if layout.ndim != first.ndim or rest != first.shape[:axis] + first.shape[axis + 1 :]:
                raise ShapeError(
                    f"{self.name}: shapes must agree but along axis {axis}, got {[i.shape for i in layouts]}"
                )
        shape = (*first.shape[:axis], sum(i.shape[axis] for i in layouts), *first.shape[axis + 1 :])
        return (Layout.contiguous(promoted([i.dtype for i in layouts]), shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        axis = normalize_axis(attributes["axis"], outputs[0].ndim, self.name)
        parts: list[tuple[int, Layout, Layout]] = []  # operands that hold something, and where they go
        start = 0
        for k, layout in enumerate(inputs):
            assert isinstance(layout, Layout)
            if layout.size:
                parts.append((k, layout, outputs[0].narrow(axis, start, layout.shape[axis])))
            start += layout.shape[axis]
        together = most_together(outputs[0].size, target.limits)
        groups = [parts[n : n + together] for n in range(0, len(parts), together)]
        return Plan(tuple(join_step(group, len(inputs), axis) for group in groups))


def _concat_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shapes, axis in (
        (((3,), (0,), (5,)), 0),
        (((2, 1, 3),) * 11, 1),
        (((0, 2), (0, 2)), 0),
        (((40, 200), (40, 250)), 1),
        (((2, 3), (2, 4)), -1),
        (((1, 2, 3), (4, 2, 3), (2, 2, 3)), 0),
    ):
        yield Sample((tuple(array(rng, dtype, s, special=True) for s in shapes),), {"axis": axis})


def _parted(cotangent, inputs, axis):
    axis, start, parts = normalize_axis(axis, cotangent.ndim, "concat"), 0, []
    for layout in inputs:
        parts.append(cotangent.narrow(axis, start, layout.shape[axis]))
        start += layout.shape[axis]
    return parts


def _joined_shape(a, b, c=None, d=None):
    given = [x for x in (a, b, c, d) if x is not None]
    if any(x.ndim != 2 or x.shape[1] != a.shape[1] or x.dtype != a.dtype for x in given):
        raise ShapeError(
            f"joined_rows: matrices of one width and dtype are needed, got {[x.shape for x in given]}"
        )
    if not all(x.size for x in given):
        raise ShapeError(f"joined_rows: each matrix must have elements, got {[x.shape for x in given]}")
    return Layout.contiguous(a.dtype, (sum(x.shape[0] for x in given), a.shape[1]))


def _joined_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for rows in ((3, 1), (2, 5, 1), (1, 1, 4, 2)):
        given = [array(rng, dtype, (n, 5), special=True) for n in rows]
        yield Sample((*given, *[None] * (4 - len(given))))


def _rows_of(k):
    """The rows of a result that are the operand's of that number."""

    def rows(cotangent, a, b, c=None, d=None):
        given: Any = (a, b, c, d)
        return cotangent.narrow(0, sum(x.shape[0] for x in given[:k]), given[k].shape[0])

    return rows


@indexed(shape_of=_joined_shape, dtypes=ALL, samples=_joined_samples, methods=False,
         gradient={name: _rows_of(k) for k, name in enumerate("abcd")},
         reference=lambda a, b, c=None, d=None: np.concatenate([x for x in (a, b, c, d) if x is not None]))  # fmt: skip
def joined_rows(at, a, b, c=None, d=None):
    """Two to four matrices below each other: as concat, but read where they lie by the kernel that needs them."""
    row, column = at
    first, *others = (x for x in (a, b, c, d) if x is not None)
    element, start = first.at(atlas.minimum(row, first.extent(0) - 1), column), first.extent(0)
    for x in others:
        inside = row >= start
        place = atlas.minimum(select(inside, row - start, 0), x.extent(0) - 1)
        element = select(inside, x.at(place, column), element)
        start = start + x.extent(0)
    return element


MOST_CHOSEN = 1 << 13  # elements that are rather chosen twice than copied by launches of their own


def _chosen(operation: Any, *tensors: Any, axis: int) -> Any:
    """Few pieces of one size as choices between them by coordinate, which fuse with what they come from and go to."""
    first, size = tensors[0], sum(t.size for t in tensors)
    alike = all((t.shape, t.dtype) == (first.shape, first.dtype) for t in tensors)
    if not alike or len(tensors) < 2 or not size or size * (len(tensors) - 1) > MOST_CHOSEN:
        return None
    axis = normalize_axis(axis, first.ndim, operation.name)
    settings = {"start": 0, "step": 1, "shape": (len(tensors),), "dtype": dtypes.i32.name}
    number = first.executor.apply(arange, (), settings).reshape(-1, *[1] * (first.ndim - axis))
    chosen = tensors[-1].unsqueeze(axis)
    for k in reversed(range(len(tensors) - 1)):
        chosen = logic.where(logic.equal(number, k), tensors[k].unsqueeze(axis), chosen)
    shape = (*first.shape[:axis], len(tensors) * first.shape[axis], *first.shape[axis + 1 :])
    return chosen.reshape(shape)


def _as_another(
    operation: Operation, operands: tuple[Any, ...], attributes: Mapping[str, Any], *, dtype: Any
) -> Any:
    """What is joined, as another dtype that holds such numbers."""
    kind = dtypes.dtype(dtype)
    tensors = operands[0] if isinstance(operands[0], (tuple, list)) else operands
    for x in tensors:
        if not np.can_cast(x.dtype.numpy, kind.numpy, "same_kind"):
            raise TypeError(f"{operation.name}: dtype {kind} cannot hold {x.dtype}")
    return operation([x.astype(kind) for x in tensors], **attributes)


@declared(Concat, reference=lambda tensors, axis=0: np.concatenate(tensors, axis=axis), samples=_concat_samples,
          dtypes=ALL, aten=("cat",), methods=False, gradient={"tensors": _parted}, parts=_chosen,
          further=_as_another)  # fmt: skip
def concat(tensors, *, axis=0):
    """Tensors joined along an existing axis, or flat (axis=None)."""


@composite(
    reference=lambda tensors, axis=0: np.stack(tensors, axis=axis), dtypes=ALL, aten=("stack",), methods=False,
    further=_as_another,
    samples=lambda rng, d: [Sample((tuple(array(rng, d, (3, 4)) for _ in range(3)),), {"axis": a}) for a in (0, 1, -1)],
)  # fmt: skip
def stack(tensors: Sequence[Any], *, axis=0):
    """Tensors of one shape joined along a new axis."""
    if len({t.shape for t in tensors}) != 1:
        raise ShapeError(f"stack: tensors must have one shape, got {[t.shape for t in tensors]}")
    place = normalize_axis(axis, tensors[0].ndim + 1, "stack")
    return concat([t.unsqueeze(place) for t in tensors], axis=place)
