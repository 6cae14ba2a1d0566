"""Programs of one's own inside a traced function, `ex.run` and `@hg.kernel`: each is a node of the graph.

A graph's values never change, so what a program stores into is a value of its own: a copy of the one before, then the
program. Where nothing was in it yet there is no copy, and what was filled with a number is filled where it lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.own_element import Element, own_element
from hologram.atlas.program import Access, Block, BufferParameter, Instruction, Program
from hologram.foundation.dtypes import DType, Number, index
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.creation import fill
from hologram.opset.forms.operation import Attributes, Elements, Inputs, Layouts, Operation
from hologram.opset.forms.steps import Place, Steps
from hologram.runtime.launches import recognition
from hologram.runtime.memory.view import View


@frozen
class Slot:
    """Elements that a program sees, under one name or more.

    Where it stores into them they are a result, which begins as `begins` says where no operand does: filled with a
    number, or as memory happens to be (None).
    """

    layout: Layout
    stored: bool
    begins: Number | None = None


@frozen
class Launch:
    """A program, what it sees, and on which grid."""

    program: Program
    slots: tuple[Slot, ...]
    buffers: tuple[int, ...]  # the slot of each of the program's buffers
    numbers: tuple[Number, ...]
    grid: tuple[int, ...]

    @property
    def known(self) -> dict[str, Number]:
        """The program's scalars, by name."""
        return dict(zip((s.name for s in self.program.scalars), self.numbers, strict=True))


@frozen(eq=False, repr=False)
class Launched(Operation):
    """A launch at one point of a trace: its operands are the slots, its results those that it stores into."""

    launch: Launch = None  # type: ignore[assignment]  # it is always given

    def operand_names(self, count: int) -> tuple[str, ...]:
        return tuple(self.launch.program.buffers[self.launch.buffers.index(k)].name for k in range(count))

    @cached_property
    def optional(self) -> frozenset[str]:
        return frozenset(self.operand_names(len(self.launch.slots)))

    @property
    def results(self) -> int:
        return sum(slot.stored for slot in self.launch.slots)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        return tuple(Layout.contiguous(s.layout.dtype, s.layout.shape) for s in self.launch.slots if s.stored)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        steps, places = Steps(len(inputs) + len(outputs)), list[Place]()
        results = iter([Place(len(inputs) + k, layout) for k, layout in enumerate(outputs)])
        for k, (slot, given) in enumerate(zip(self.launch.slots, inputs, strict=True)):
            here = Place(k, slot.layout)
            if slot.stored:
                places.append(
                    self._begun(steps, slot, next(results), None if given is None else here, target)
                )
            else:
                places.append(steps.gathered(here))
        bound = [places[k] for k in self.launch.buffers]
        step = Step(self.launch.program, tuple(range(len(bound))), self.launch.numbers, self.launch.grid)
        apart = len({*self.launch.buffers}) == len(bound)
        plan = recognition.chosen(step, [place.layout.size for place in bound], target, apart)
        steps.extend(plan, [place.position for place in bound])
        return steps.plan()

    def as_map(self) -> tuple[Operation, frozenset[int]] | None:
        """Where all that it sees is of the grid's shape, and its result is written as a whole and never read."""
        launch, shape = self.launch, self.launch.grid
        stored = [k for k, slot in enumerate(launch.slots) if slot.stored]
        alike = all(slot.layout.shape == shape for slot in launch.slots)
        if len(stored) != 1 or not alike or launch.buffers.count(stored[0]) != 1:
            return None
        element = own_element(launch.program, launch.grid, launch.known)
        if element is None:
            return None
        named = {"function": self.function, "reference": self.reference, "samples": self.samples}
        read = frozenset(range(len(launch.slots))) - {*stored}
        return LaunchedMap(name=self.name, launch=self, element=element, **named), read

    @staticmethod
    def _begun(steps: Steps, slot: Slot, result: Place, before: Place | None, target: Target) -> Place:
        """A result as the program finds it."""
        if before is not None:
            steps.copy(before, result)
        elif slot.begins is not None:
            filled = fill.plan((), (result.layout,), {"value": slot.begins}, target)
            steps.extend(filled, [result.position])
        return result


@frozen(eq=False, repr=False)
class LaunchedMap(Operation):
    """A launch whose lanes compute an element each from those at the same place: it fuses with what is around it."""

    launch: Launched = None  # type: ignore[assignment]  # it is always given
    element: Element = None  # type: ignore[assignment]

    def operand_names(self, count: int) -> tuple[str, ...]:
        return self.launch.operand_names(count)

    @cached_property
    def optional(self) -> frozenset[str]:
        return self.launch.optional

    @property
    def pointwise(self) -> bool:
        return True

    @property
    def in_place(self) -> bool:
        return True

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        return self.launch.infer(inputs, attributes)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        return self.launch.plan(inputs, outputs, attributes, target)

    def fused(
        self, builder: Builder, operands: Elements, inputs: Inputs, attributes: Attributes
    ) -> tuple[Value, ...]:
        launch = self.launch.launch
        names = [b.name for b in launch.program.buffers]
        given = {n: operands[k] for n, k in zip(names, launch.buffers, strict=True)}
        elements = {n: x for n, x in given.items() if isinstance(x, Value)}
        return (self.element.written(builder, elements, launch.known),)


def slots_of(program: Program, views: Sequence[Any]) -> tuple[list[Any], tuple[int, ...], list[bool]]:
    """What a program sees, each once: the first view of it, which of these each buffer is, and what it stores into.

    Raises ShapeError where it stores into elements that it also sees otherwise, as checks.check_apart does.
    """
    seen: list[Any] = []
    numbers: list[int] = []
    stored: list[bool] = []
    for view, parameter in zip(views, program.buffers, strict=True):
        number = next((k for k, other in enumerate(seen) if _same(view, other)), len(seen))
        if number == len(seen):
            seen.append(view)
            stored.append(False)
        numbers.append(number)
        stored[number] |= parameter.access is not Access.READ
    for k, a in enumerate(seen):
        for j, b in enumerate(seen[:k]):
            if (stored[k] or stored[j]) and a.buffer is b.buffer and _meet(a.layout, b.layout):
                raise ShapeError(
                    f"{program.name}: what is written may share memory only with the same elements, got {a.layout} "
                    f"beside {b.layout}"
                )
    return seen, tuple(numbers), stored


def _same(a: View, b: View) -> bool:
    return a.buffer is b.buffer and _flat(a.layout) == _flat(b.layout)


def _flat(layout: Layout) -> Layout:
    return layout.reshape((-1,)) or layout


def _meet(a: Layout, b: Layout) -> bool:
    (a_low, a_high), (b_low, b_high) = a.span, b.span
    return bool(a.size and b.size) and a_low < b_high and b_low < a_high


def with_data(program: Program, places: Mapping[str, int], kinds: Iterable[DType]) -> Program:
    """A program that loads some of its scalars, which a buffer of their dtype holds at these places.

    The buffers come behind its own, one for each of the dtypes, in order.
    """
    taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
    names = {d: next(n for k in count() if (n := f"numbers_{d.name}_{k}") not in taken) for d in kinds}
    free = count(1 + max((n for i in program.body.walk() for n in (*i.results, *_arguments(i))), default=0))

    def loaded(instruction: Instruction) -> Iterator[Instruction]:
        if instruction.opcode is Opcode.SCALAR and instruction.attribute in places:
            at = next(free)
            place = places[instruction.attribute]
            yield Instruction(Opcode.CONSTANT, (at,), (index,), attribute=place)
            (dtype,) = instruction.types
            yield replace(instruction, opcode=Opcode.LOAD, operands=(at,), attribute=names[dtype])
        else:
            yield replace(instruction, blocks=tuple(map(of_block, instruction.blocks)))

    def of_block(block: Block) -> Block:
        return replace(block, instructions=tuple(x for i in block.instructions for x in loaded(i)))

    return replace(
        program,
        buffers=(*program.buffers, *(BufferParameter(n, d, Access.READ) for d, n in names.items())),
        scalars=tuple(s for s in program.scalars if s.name not in places),
        body=of_block(program.body),
    )


def _arguments(instruction: Instruction) -> Iterator[int]:
    return (n for block in instruction.blocks for n in block.arguments)


def launched(launch: Launch) -> Launched:
    """The operation of one launch, which no other is."""
    return Launched(
        name=launch.program.name, function=lambda *x: None, reference=lambda *x: None, samples=lambda rng, d: (),
        launch=launch,
    )  # fmt: skip
