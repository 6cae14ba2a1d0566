"""The row form: reductions along some axes, with element-wise code before, between and after them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hologram import dtypes
from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access, Program
from hologram.dtypes import DType
from hologram.errors import ShapeError
from hologram.layout import Layout, broadcast, collapse, normalize_axes
from hologram.limits import Limits
from hologram.opset.forms import types
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import Expression, NumberType, Static, numbers_of, output_names, step_of
from hologram.opset.forms.operation import Input, Operation, register
from hologram.plan import Plan


@dataclass(frozen=True)
class Arrangement:
    """Layouts of one shape whose last `reduced` axes are the row."""

    inputs: tuple[Input, ...]
    outputs: tuple[Layout, ...]
    reduced: int


@dataclass(frozen=True, eq=False)
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

    def axes(self, ndim: int, attributes: Mapping[str, Any]) -> tuple[int, ...]:
        """The reduced axes, counted from the front."""
        given = attributes[self.axis_name]
        return normalize_axes(given if ndim or given not in (-1, 0) else None, ndim, self.name)

    def computing_types(self, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> types.Types:
        computed, result = self.resolve(inputs)
        wanted = attributes.get("dtype")
        if wanted is not None:
            result = dtypes.dtype(wanted)
            computed = (types.computing(result),) * len(computed)
        return computed, result

    def infer(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        present = [i for i in inputs if i is not None]
        _, result = self.computing_types(present, attributes)
        shapes = [i.shape for i in present if isinstance(i, Layout)]
        shape = shapes[0] if self.arrange else broadcast(shapes, self.name)
        if self.arrange:
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

    def arranged(
        self, inputs: Sequence[Input], outputs: Sequence[Layout], attributes: Mapping[str, Any]
    ) -> Arrangement:
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

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        present = tuple(i for i in inputs if i is not None)
        computed, _ = self.computing_types(present, attributes)
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not all(o.size for o in outputs):
            return Plan(())
        arrangement = self.arranged(present, outputs, attributes)
        layouts, targets, outer = _split_axes(arrangement, self.keeps_shape)
        static, runtime = self.split_attributes(self.described(attributes))
        keys = tuple(
            Address.of(i) if isinstance(i, Layout) else (dtype,)
            for i, dtype in zip(layouts, computed, strict=True)
        )
        missing = tuple(n for n, i in zip(self.operands, inputs, strict=True) if i is None)
        rank = next(i.ndim for i in layouts if isinstance(i, Layout))
        program = _row_program(
            self,
            keys,
            tuple(map(Address.of, targets)),
            computed,
            (rank, rank - outer),
            static,
            tuple(runtime),
            missing,
        )
        names = [n for n in self.operands if n not in missing]
        numbers = numbers_of([*names, *output_names(len(targets))], [*layouts, *targets], runtime)
        positions = [k for k, i in enumerate(inputs) if isinstance(i, Layout)]
        operands = [*positions, *(len(inputs) + k for k in range(len(targets)))]
        grid = next(i.shape for i in layouts if isinstance(i, Layout))
        return Plan((step_of(program, operands, numbers, grid),))

    def attribute_dtype(self, computing: types.Types) -> DType:
        return types.computing(computing[0][0])

    def described(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without those that are spent on the arrangement."""
        shaping = {self.axis_name, "keepdims", "dtype"}
        return {n: v for n, v in attributes.items() if n not in shaping}


def _split_axes(arrangement: Arrangement, keeps_shape: bool) -> tuple[list[Input], list[Layout], int]:
    """Collapses outer and reduced axes separately; also gives the number of outer axes that remain."""
    views = [i for i in arrangement.inputs if isinstance(i, Layout)]
    cut = views[0].ndim - arrangement.reduced

    def part(layout: Layout, first: int, last: int, offset: int) -> Layout:
        return Layout(layout.dtype, layout.shape[first:last], layout.strides[first:last], offset)

    outer = collapse(
        [part(v, 0, cut, v.offset) for v in views] + [part(o, 0, cut, o.offset) for o in arrangement.outputs]
    )
    whole = [*views, *arrangement.outputs] if keeps_shape else views
    inner = collapse([part(v, cut, v.ndim, 0) for v in whole])
    joined = [
        Layout(a.dtype, a.shape + b.shape, a.strides + b.strides, a.offset)
        for a, b in zip(outer, inner, strict=False)
    ]
    joined += outer[len(joined) :]
    queue = iter(joined)
    inputs = [next(queue) if isinstance(i, Layout) else i for i in arrangement.inputs]
    return inputs, list(queue), outer[0].ndim


@lru_cache(maxsize=4096)
def _row_program(
    operation: Row,
    inputs: tuple[Address | NumberType, ...],
    outputs: tuple[Address, ...],
    computed: tuple[DType, ...],
    ranks: tuple[int, int],
    static: Static,
    runtime: tuple[str, ...],
    missing: tuple[str, ...],
) -> Program:
    rank, reduced = ranks
    result = outputs[0].dtype
    builder = Builder(f"atlas_{operation.name}_{result.name}", rank=rank, reduced=reduced)
    coordinates = [builder.coordinate(axis) for axis in range(rank)]
    values: dict[str, Value | None] = dict.fromkeys(missing)
    names = [n for n in operation.operands if n not in missing]
    for name, address, dtype in zip(names, inputs, computed, strict=True):
        if isinstance(address, Address):
            values[name] = Operand(builder, name, address, Access.READ, dtype).at(*coordinates)
        else:
            values[name] = builder.scalar(name, dtype)
    targets = [
        Operand(builder, name, address, Access.WRITE, address.dtype)
        for name, address in zip(output_names(len(outputs)), outputs, strict=True)
    ]
    computing = (computed, result)
    attributes = operation.scalar_values(builder, static, operation.attribute_dtype(computing), runtime)
    operands = [values[n] for n in operation.operands]
    for target, value in zip(
        targets, operation.written(builder, operands, attributes, computing), strict=True
    ):
        target.put(value, *coordinates[: len(target.address.steps)])
    return builder.build()


def column(x: Value) -> Value:
    """The element's number within its row, as an index."""
    builder = x.builder
    first = builder.rank - builder.reduced
    position = builder.coordinate(first)
    for axis in range(first + 1, builder.rank):
        position = position * builder.extent(axis) + builder.coordinate(axis)
    return position


def width(x: Value) -> Value:
    """The number of elements in a row, in the dtype of `x`."""
    builder = x.builder
    first = builder.rank - builder.reduced
    n = builder.extent(first)
    for axis in range(first + 1, builder.rank):
        n = n * builder.extent(axis)
    if not x.dtype.is_float:
        return n.to(x.dtype)
    # `index` converts to integers only, and u32 is everywhere: two halves, whose sum is rounded once.
    high, low = n // 65536, n % 65536
    return high.to(dtypes.u32).to(x.dtype) * 65536.0 + low.to(dtypes.u32).to(x.dtype)


def row(**facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares an operation along rows."""

    def declare(function: Callable[..., Any]) -> Operation:
        return register(Row(name=function.__name__.rstrip("_"), function=function, **facts))

    return declare
