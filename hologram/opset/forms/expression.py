"""Operations whose kernels are generated from their declarations: what the generated forms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Step
from hologram.opset.forms import types
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.operation import Attributes, Elements, Input, Inputs, Operation

Static = tuple[tuple[str, Any], ...]  # attributes that shape the code
# The dtype a Python number is passed as, and the number where it is written into the kernel.
NumberType = tuple[DType] | tuple[DType, Number]


@frozen(eq=False, repr=False)
class GeneratedOperation(Operation):
    """An operation whose kernel is generated from its declaration: what the generated forms share."""

    types: types.Rule = types.same
    # Attributes that are passed at launch instead of written into the kernel, and the dtype they are passed as (None:
    # the one the kernel computes in). Those annotated `float` are added.
    scalars: Mapping[str, DType | None] = field(default_factory=dict)

    def runtime_scalars(self) -> dict[str, DType | None]:
        floats = {
            n: None for n in self.attributes if self.signature.parameters[n].annotation in (float, "float")
        }
        return floats | dict(self.scalars)

    def resolve(self, inputs: Sequence[Input]) -> types.Types:
        """Computing dtypes and the result's."""
        return self.types(self.name, [i.dtype if isinstance(i, Layout) else i for i in inputs])

    def split_attributes(self, attributes: Attributes) -> tuple[Static, dict[str, Any]]:
        """Attributes that shape the code, and those passed at launch."""
        runtime = {n: attributes[n] for n in self.runtime_scalars() if n in attributes}
        static = (
            (n, tuple(v) if isinstance(v, list) else v) for n, v in attributes.items() if n not in runtime
        )
        return tuple(static), runtime

    def scalar_values(
        self, builder: Builder, static: Static, computed: DType, attributes: Sequence[str]
    ) -> dict[str, Any]:
        """The attributes as the declaration sees them: Values for those passed at launch."""
        runtime = self.runtime_scalars()
        values = dict(static)
        for name in attributes:
            values[name] = builder.scalar(name, runtime[name] or computed)
        return values

    def step(
        self,
        program: Program,
        inputs: Inputs,
        names: Sequence[str],
        layouts: Sequence[Input],
        targets: Sequence[Layout],
        runtime: Mapping[str, Number],
        grid: Sequence[int],
    ) -> Step:
        """The program over the inputs that are tensors and the outputs, named and laid out as it knows them."""
        numbers = numbers_of([*names, *output_names(len(targets))], [*layouts, *targets], runtime)
        positions = [k for k, i in enumerate(inputs) if isinstance(i, Layout)]
        return step_of(program, [*positions, *(len(inputs) + k for k in range(len(targets)))], numbers, grid)


def numbers_of(
    names: Sequence[str], layouts: Sequence[Input], runtime: Mapping[str, Number]
) -> dict[str, Number]:
    """Every launch scalar of the operands and attributes, by the name Operand and the kernels give it."""
    numbers: dict[str, Number] = dict(runtime)
    for name, layout in zip(names, layouts, strict=True):
        if not isinstance(layout, Layout):
            numbers[name] = layout
            continue
        numbers[f"{name}_offset"] = layout.offset
        for axis, (stride, n) in enumerate(zip(layout.strides, layout.shape, strict=True)):
            numbers[f"{name}_stride_{axis}"] = stride
            numbers[f"{name}_extent_{axis}"] = n
    return numbers


def step_of(
    program: Program, operands: Sequence[int], numbers: Mapping[str, Number], grid: Sequence[int]
) -> Step:
    """A step with the scalars the program asks for, in its order."""
    return Step(program, tuple(operands), tuple(numbers[s.name] for s in program.scalars), tuple(grid))


def output_names(count: int) -> tuple[str, ...]:
    return ("out",) if count == 1 else tuple(f"out{k}" for k in range(count))


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def converted(builder: Builder, value: Any, dtype: DType) -> Value:
    """A Value or a number in a dtype."""
    return value.to(dtype) if isinstance(value, Value) else builder.constant(value, dtype)


@frozen(eq=False, repr=False)
class Expression(GeneratedOperation):
    """An operation declared by what it does at one element, so that it can be written into any program."""

    @property
    def hands_numbers_on(self) -> bool:
        return True

    def writes(self, name: str, number: Number) -> bool:
        """Whether a number as an operand is written into the kernel, which computes otherwise with it."""
        return False

    def written(
        self, builder: Builder, operands: Elements, attributes: Attributes, computing: types.Types
    ) -> tuple[Value, ...]:
        """The declaration written into a program: its results at one place, in the result's dtype."""
        computed, result = computing
        wanted = iter(computed)
        values = [o if o is None else converted(builder, o, next(wanted)) for o in operands]
        results = as_tuple(self.function(*values, **attributes))
        return tuple(converted(builder, value, result) for value in results)

    def fused(
        self, builder: Builder, operands: Elements, inputs: Inputs, attributes: Attributes
    ) -> tuple[Value, ...]:
        computing = self.computing_types([i for i in inputs if i is not None], attributes)
        static, runtime = self.split_attributes(self.described(attributes))
        scalars = self.runtime_scalars()
        settings = dict(static)
        for name, number in runtime.items():
            settings[name] = converted(builder, number, scalars[name] or self.attribute_dtype(computing))
        return self.written(builder, operands, settings, computing)

    def step_plan(
        self,
        inputs: Inputs,
        layouts: Sequence[Input],
        targets: Sequence[Layout],
        attributes: Attributes,
        computing: types.Types,
        ranks: tuple[int, int],
        grid: Sequence[int],
    ) -> Plan:
        """The plan of one step over what is there, laid out as given; `ranks` are the program's."""
        static, runtime = self.split_attributes(self.described(attributes))
        missing = tuple(n for n, i in zip(self.operands, inputs, strict=True) if i is None)
        names = [n for n in self.operands if n not in missing]
        keys = tuple(
            Address.of(i) if isinstance(i, Layout) else (dtype, i) if self.writes(name, i) else (dtype,)
            for name, i, dtype in zip(names, layouts, computing[0], strict=True)
        )
        program = _program(
            self, keys, tuple(map(Address.of, targets)), computing, ranks, static, tuple(runtime), missing
        )
        return Plan((self.step(program, inputs, names, layouts, targets, runtime, grid),))

    def computing_types(self, inputs: Sequence[Input], attributes: Attributes) -> types.Types:
        """Computing dtypes and the result's, where attributes have a say."""
        return self.resolve(inputs)

    def attribute_dtype(self, computing: types.Types) -> DType:
        """The dtype of attributes that are passed at launch, unless `scalars` says another."""
        computed, result = computing
        return computed[-1].computed if computed else result

    def described(self, attributes: Attributes) -> Mapping[str, Any]:
        """The attributes that the declaration is given."""
        return attributes


@lru_cache(maxsize=8192)
def _program(
    operation: Expression,
    inputs: tuple[Address | NumberType, ...],
    outputs: tuple[Address, ...],
    computing: types.Types,
    ranks: tuple[int, int],
    static: Static,
    runtime: tuple[str, ...],
    missing: tuple[str, ...],
) -> Program:
    (rank, reduced), (computed, _) = ranks, computing
    builder = Builder(f"atlas_{operation.name}_{outputs[0].dtype}", rank=rank, reduced=reduced)
    coordinates = [builder.coordinate(axis) for axis in range(rank)]
    values: dict[str, Value | None] = dict.fromkeys(missing)
    names = [n for n in operation.operands if n not in missing]
    for name, address, dtype in zip(names, inputs, computed, strict=True):
        if isinstance(address, Address):
            values[name] = Operand(builder, name, address, Access.READ, dtype).at(*coordinates)
        elif len(address) == 2:
            values[name] = builder.constant(address[1], dtype)
        else:  # a real number: complex ones are tensors
            values[name] = builder.scalar(name, dtype.part).to(dtype)
    targets = [
        Operand(builder, name, address, Access.WRITE, address.dtype)
        for name, address in zip(output_names(len(outputs)), outputs, strict=True)
    ]
    attributes = operation.scalar_values(builder, static, operation.attribute_dtype(computing), runtime)
    operands = [values[n] for n in operation.operands]
    elements = operation.written(builder, operands, attributes, (computed, outputs[0].dtype))
    for target, value in zip(targets, elements, strict=True):
        target.put(value, *coordinates[: len(target.address.steps)])
    return builder.build()
