"""The map forms: one lane for each output element.

`@elementwise` reads every operand at the element's own coordinates. `@indexed` is handed the coordinates and the
operands and reads where it likes, with `window` extra coordinates to reduce over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast
from hologram.machine.layout import Layout
from hologram.machine.merging import collapse
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import (
    Expression,
    GeneratedOperation,
    Static,
    as_tuple,
    converted,
    numbers_of,
    output_names,
    step_of,
)
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, declared


@frozen(eq=False, repr=False)
class Elementwise(Expression):
    """Every output element depends on the operands' elements at the same place, after broadcasting."""

    @property
    def in_place(self) -> bool:
        return True

    @property
    def pointwise(self) -> bool:
        return True

    def taken(self, inputs: Inputs, attributes: Attributes) -> Mapping[str, DType]:
        present = [n for n, i in zip(self.operands, inputs, strict=True) if i is not None]
        computing = self.resolve([i for i in inputs if i is not None])
        scalars = {n: dtype or self.attribute_dtype(computing) for n, dtype in self.runtime_scalars().items()}
        return {n: dtype.part for n, dtype in zip(present, computing[0], strict=True)} | scalars

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        present = [i for i in inputs if i is not None]
        _, result = self.resolve(present)
        shape = broadcast([i.shape for i in present if isinstance(i, Layout)], self.name)
        return (Layout.contiguous(result, shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        present = tuple(i for i in inputs if i is not None)
        computed, result = self.resolve(present)
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not outputs[0].size:
            return Plan(())
        shape = outputs[0].shape
        views = [i.expand(shape) for i in present if isinstance(i, Layout)]
        regular = iter(collapse([*views, *outputs]))
        layouts = [next(regular) if isinstance(i, Layout) else i for i in present]
        targets = list(regular)
        grid = targets[0].shape
        return self.step_plan(inputs, layouts, targets, attributes, (computed, result), (len(grid), 0), grid)


Infer = Callable[..., Layout | tuple[Layout, ...]]


@frozen(eq=False, repr=False)
class Indexed(GeneratedOperation):
    """Every lane is handed its coordinates and reads, and in the scatter form writes, where it likes.

    `shape_of(*inputs, **attributes)` infers the outputs. Without `over` the grid is the output's shape, the function
    gets `at` (the coordinates), the operands and the attributes, and returns the element. With `over`, the grid is that
    operand's shape, the outputs start as a copy of the operand `base`, and the function stores into `out` itself. With
    `window`, its extents, if any, are further, reduced axes, and the function gets `at` and `window` coordinates.
    """

    shape_of: Infer = field(default=lambda *inputs, **attributes: ())
    over: str | None = None
    base: str | None = None
    window: Callable[..., tuple[int, ...]] | None = None

    @property
    def hidden(self) -> int:
        """Parameters of the declaration that are not operands."""
        return 1 + (self.window is not None) + (self.over is not None)

    @property
    def operands(self) -> tuple[str, ...]:  # type: ignore[override]
        return super().operands[self.hidden :]

    @property
    def takes_numbers(self) -> bool:
        return False

    @property
    def placed(self) -> bool:
        return not (self.over or self.base or self.window)

    def made_at(
        self,
        builder: Builder,
        at: Sequence[Value],
        operands: Sequence[Any],
        result: DType,
        attributes: Attributes,
    ) -> Value:
        static, runtime = self.split_attributes(attributes)
        scalars = self.runtime_scalars()
        settings = dict(static)
        for name, number in runtime.items():
            settings[name] = converted(builder, number, scalars[name] or result.computed)
        return converted(builder, self.function(tuple(at), *operands, **settings), result)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        for name, given in zip(self.operands, inputs, strict=True):
            if not isinstance(given, Layout) and not (given is None and name in self.optional):
                raise TypeError(f"{self.name}: {name} must be a Tensor, got {given!r}")
        result = self.shape_of(*inputs, **attributes)
        return result if isinstance(result, tuple) else (result,)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not outputs[0].size:
            return Plan(())
        lanes = self.lanes(inputs, outputs, attributes)
        if not self.base:
            return Plan(lanes)
        base = self.operands.index(self.base)
        source = inputs[base]
        assert isinstance(source, Layout)
        return Plan((_copy_step(source, outputs[0], base, len(inputs)), *lanes))

    def updates(self, inputs: Inputs) -> int | None:
        return self.operands.index(self.base) if self.base and type(self).plan is Indexed.plan else None

    def update_plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        return Plan(self.lanes(inputs, outputs, attributes))

    def written_over(self, inputs: Inputs) -> tuple[int, ...] | None:
        if self.updates(inputs) is None or not self.over:
            return None
        over = inputs[self.operands.index(self.over)]
        others = [i for name, i in zip(self.operands, inputs, strict=True) if name != self.base]
        alike = all(
            isinstance(i, Layout) and isinstance(over, Layout) and i.shape == over.shape for i in others
        )
        return over.shape if alike and isinstance(over, Layout) and over.ndim else None

    def write_at(
        self, builder: Builder, at: Sequence[Value], out: Any, operands: Sequence[Any], attributes: Attributes
    ) -> None:
        static, runtime = self.split_attributes(attributes)
        scalars = self.runtime_scalars()
        numbers = {n: converted(builder, x, scalars[n] or out.computed) for n, x in runtime.items()}
        self.function(tuple(at), out, *operands, **dict(static), **numbers)

    def lanes(self, inputs: Inputs, outputs: Layouts, attributes: Attributes) -> tuple[Step, ...]:
        """The step that runs the declaration; none where there is nothing to go over."""
        names = [n for n, i in zip(self.operands, inputs, strict=True) if isinstance(i, Layout)]
        layouts = [_at_least_1d(i) for i in inputs if isinstance(i, Layout)]
        targets = [_at_least_1d(o) for o in outputs]
        window = self.window(*inputs, **attributes) if self.window else ()
        over = layouts[names.index(self.over)] if self.over else targets[0]
        if not over.size:
            return ()
        static, runtime = self.split_attributes(attributes)
        program = _indexed_program(
            self,
            tuple(names),
            tuple(map(Address.of, layouts)),
            tuple(map(Address.of, targets)),
            over.ndim,
            len(window),
            static,
            tuple(runtime),
        )
        return (self.step(program, inputs, names, layouts, targets, runtime, (*over.shape, *window)),)


class IndexedOperand(Operand):
    """An operand whose sizes the kernel can ask for."""

    def __init__(
        self, builder: Builder, name: str, address: Address, access: Access, computed: DType
    ) -> None:
        super().__init__(builder, name, address, access, computed)
        self.name = name

    @property
    def ndim(self) -> int:
        return len(self.address.steps)

    def extent(self, axis: int) -> Value:
        """Size along an axis, as an index."""
        return self.builder.scalar(f"{self.name}_extent_{axis % self.ndim}", dtypes.index)


@lru_cache(maxsize=4096)
def _indexed_program(
    operation: Indexed,
    names: tuple[str, ...],
    inputs: tuple[Address, ...],
    outputs: tuple[Address, ...],
    rank: int,
    window: int,
    static: Static,
    runtime: tuple[str, ...],
) -> Program:
    result = outputs[0].dtype
    builder = Builder(f"atlas_{operation.name}_{result.name}", rank=rank + window, reduced=window)
    coordinates = tuple(builder.coordinate(axis) for axis in range(rank + window))
    values: dict[str, IndexedOperand] = {
        name: IndexedOperand(builder, name, address, Access.READ, address.dtype.computed)
        for name, address in zip(names, inputs, strict=True)
    }
    access = Access.READ_WRITE if operation.over else Access.WRITE
    targets = [
        IndexedOperand(builder, name, address, access, address.dtype.computed)
        for name, address in zip(output_names(len(outputs)), outputs, strict=True)
    ]
    attributes = operation.scalar_values(builder, static, result.computed, runtime)
    at = coordinates[:rank]
    hidden: list[Any] = [at]
    if operation.window:
        hidden.append(coordinates[rank:])
    if operation.over:
        hidden.append(targets[0])
    elements = operation.function(*hidden, *(values.get(n) for n in operation.operands), **attributes)
    if not operation.over:
        for target, value in zip(targets, as_tuple(elements), strict=True):
            target.put(value, *at)
    return builder.build()


def _at_least_1d(layout: Layout) -> Layout:
    return layout if layout.ndim else layout.unsqueeze(0)


def _copy_step(source: Layout, target: Layout, source_operand: int, target_operand: int) -> Step:
    if source.shape != target.shape:
        raise ShapeError(f"copy: shapes must agree, got {source.shape} and {target.shape}")
    x, out = collapse([source, target])
    program = copy_program(Address.of(x), Address.of(out))
    return step_of(
        program, (source_operand, target_operand), numbers_of(("x", "out"), (x, out), {}), out.shape
    )


@lru_cache(maxsize=1024)
def copy_program(source: Address, target: Address) -> Program:
    """Copies strided to strided, converting."""
    rank = len(target.steps)
    same = source.dtype == target.dtype
    builder = Builder(
        f"atlas_memcpy_{target.dtype}" if same else f"atlas_cast_{source.dtype}_{target.dtype}", rank=rank
    )
    coordinates = [builder.coordinate(axis) for axis in range(rank)]
    x = Operand(builder, "x", source, Access.READ, source.dtype)
    out = Operand(builder, "out", target, Access.WRITE, target.dtype)
    out.put(x.at(*coordinates), *coordinates)
    return builder.build()


def copy_plan(source: Layout, target: Layout) -> Plan:
    """Copies `source` (operand 0), broadcast to the shape of `target` (operand 1), converting its dtype."""
    return Plan((_copy_step(source.expand(target.shape), target, 0, 1),)) if target.size else Plan(())


def elementwise(**facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares an element-wise operation by its expression."""
    return declared(Elementwise, **facts)


def indexed(**facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares an operation by what each lane reads."""
    return declared(Indexed, **facts)
