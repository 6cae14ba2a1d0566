"""The row form: reductions along some axes, with element-wise code before, between and after them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hologram.atlas.builder import Value
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast, normalize_axes
from hologram.machine.layout import Layout
from hologram.machine.merging import collapse_apart
from hologram.machine.plan import Plan, Target
from hologram.opset.forms import types
from hologram.opset.forms.expression import Expression
from hologram.opset.forms.operation import Attributes, Input, Inputs, Layouts, Operation, declared


@frozen
class Arrangement:
    """Layouts of one shape whose last `reduced` axes are the row."""

    inputs: tuple[Input, ...]
    outputs: tuple[Layout, ...]
    reduced: int


@frozen(eq=False, repr=False)
class Row(Expression):
    """An operation along rows: the axes named by the attribute `axis` (the name of that attribute is `axis_name`).

    The declaration gets each operand's element and may reduce; it gives one value per row (`keeps_shape` false: the
    axes disappear, or stay with size 1 if the attribute `keepdims` says so) or one per element. `arrange` may replace
    how layouts are brought into row form; the shape is then the first operand's. `empty` says whether a row without
    elements has a value, `longest` how many elements it may have.
    """

    axis_name: str = "axis"
    keeps_shape: bool = False
    empty: bool = True
    longest: int | None = None
    arrange: Callable[[Sequence[Input], Sequence[Layout], Mapping[str, Any]], Arrangement] | None = None

    @property
    def in_place(self) -> bool:
        return self.keeps_shape

    def axes(self, ndim: int, attributes: Attributes) -> tuple[int, ...]:
        """The reduced axes, counted from the front."""
        given = attributes[self.axis_name]
        return normalize_axes(given if ndim or given not in (-1, 0) else None, ndim, self.name)

    def computing_types(self, inputs: Sequence[Input], attributes: Attributes) -> types.Types:
        computed, result = self.resolve(inputs)
        wanted = attributes.get("dtype")
        if wanted is not None:
            result = dtypes.dtype(wanted)
            computed = (result.computed,) * len(computed)
        return computed, result

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        present = [i for i in inputs if i is not None]
        _, result = self.computing_types(present, attributes)
        shapes = [i.shape for i in present if isinstance(i, Layout)]
        shape = shapes[0] if self.arrange else broadcast(shapes, self.name)
        if self.arrange:
            for name, given in zip(self.operands, inputs, strict=False):
                if not isinstance(given, Layout | None):
                    raise TypeError(f"{self.name}: {name} must be a Tensor, got {given!r}")
            self.arrange(present, (Layout.contiguous(result, shape),), attributes)
        if not self.keeps_shape:
            axes = self.axes(len(shape), attributes)
            if self.longest and math.prod(shape[a] for a in axes) > self.longest:
                raise ShapeError(f"{self.name}: a row may have {self.longest} elements, got shape {shape}")
            if not self.empty and math.prod(shape[a] for a in axes) == 0 and math.prod(shape) == 0:
                raise ShapeError(f"{self.name}: a row without elements has no value, got shape {shape}")
            keep = attributes.get("keepdims", False)
            shape = tuple(1 if k in axes else n for k, n in enumerate(shape) if keep or k not in axes)
        return (Layout.contiguous(result, shape),)

    def arranged(self, inputs: Sequence[Input], outputs: Layouts, attributes: Attributes) -> Arrangement:
        """Operands and outputs as rows."""
        if self.arrange is not None:
            return self.arrange(inputs, outputs, attributes)
        shape = broadcast([i.shape for i in inputs if isinstance(i, Layout)], self.name)
        axes = self.axes(len(shape), attributes)
        order = [k for k in range(len(shape)) if k not in axes] + list(axes)
        views = tuple(i.expand(shape).permute(order) if isinstance(i, Layout) else i for i in inputs)
        if self.keeps_shape:
            return Arrangement(views, tuple(o.permute(order) for o in outputs), len(axes))
        targets = []
        for out in outputs:
            if len(out.shape) == len(shape):
                for axis in reversed(axes):
                    out = out.squeeze(axis)
            targets.append(out)
        return Arrangement(views, tuple(targets), len(axes))

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        present = tuple(i for i in inputs if i is not None)
        computing = self.computing_types(present, attributes)
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not all(o.size for o in outputs):
            return Plan(())
        arrangement = self.arranged(present, outputs, attributes)
        views = [i for i in arrangement.inputs if isinstance(i, Layout)]
        cut = views[0].ndim - arrangement.reduced
        along, ended = (arrangement.outputs, ()) if self.keeps_shape else ((), arrangement.outputs)
        regular, outer = collapse_apart([*views, *along], cut, ended)
        grid = regular[0].shape
        ordered = iter(regular)
        layouts = [next(ordered) if isinstance(i, Layout) else i for i in arrangement.inputs]
        ranks = (len(grid), len(grid) - outer)
        return self.step_plan(inputs, layouts, list(ordered), attributes, computing, ranks, grid)

    def attribute_dtype(self, computing: types.Types) -> DType:
        return computing[0][0].computed.part

    def described(self, attributes: Attributes) -> Mapping[str, Any]:
        """Without those that are spent on the arrangement."""
        shaping = {self.axis_name, "keepdims", "dtype"}
        return {n: v for n, v in attributes.items() if n not in shaping}


def column(x: Value) -> Value:
    """The element's number within its row, as an index."""
    builder = x.builder
    first = builder.rank - builder.reduced
    position = builder.coordinate(first)
    for axis in range(first + 1, builder.rank):
        position = position * builder.extent(axis) + builder.coordinate(axis)
    return position


def length(x: Value) -> Value:
    """The number of elements in a row, as an index."""
    builder = x.builder
    first = builder.rank - builder.reduced
    n = builder.extent(first)
    for axis in range(first + 1, builder.rank):
        n = n * builder.extent(axis)
    return n


def width(x: Value) -> Value:
    """The number of elements in a row, in the dtype of `x`."""
    n = length(x)
    if not x.dtype.is_inexact:
        return n.to(x.dtype)
    # `index` converts to integers only, and u32 is everywhere: two halves, whose sum is rounded once.
    high, low = ((n // 65536).to(dtypes.u32), (n % 65536).to(dtypes.u32))
    part = x.dtype.part
    return (high.to(part) * 65536.0 + low.to(part)).to(x.dtype)


def row(**facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares an operation along rows."""
    return declared(Row, **facts)
