"""Operations in files: by name where they are declared, else by what they are made of.

A derivative is the operation that it is of, and what it depends on (gradient.Use). A launch of a program inside a
traced function is the program's text. Any other operation, PyTorch's custom ones, is the plan of its programs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from hologram import opset
from hologram.atlas.program import Access, Program
from hologram.atlas.text import format_program, parse_program
from hologram.atlas.verify import verify
from hologram.compiler.fusion.graph import Node, Read
from hologram.foundation.errors import ProgramError, TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.launched import Launch, Launched, Slot, launched
from hologram.frontend.saved.container import Line, Writing
from hologram.frontend.saved.values import (
    dtype_of,
    layout_from,
    layout_to,
    value_from,
    value_to,
)
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Scratch, Step, Target
from hologram.opset.forms.expression import Expression
from hologram.opset.forms.gradient import Use, partial_of
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation
from hologram.runtime.launches.validation import fitted, sizes

PACKAGE = opset.__name__
MOST_LANES = 1 << 40


@lru_cache(maxsize=1)
def known() -> dict[str, Operation]:
    """The operations that hologram declares, by name, and those among them that have no name outside."""
    declared = opset.OPERATIONS
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(f"{PACKAGE}.")]
    inner = {x.name: x for module in modules for x in vars(module).values() if isinstance(x, Operation)}
    return {**inner, **declared}


@frozen(eq=False, repr=False)
class Planned(Operation):
    """An operation of which a file has the plan for certain operands."""

    taken_layouts: tuple[Layout | None, ...] = ()
    given_layouts: tuple[Layout, ...] = ()
    launches: Plan = Plan(())

    def operand_names(self, count: int) -> tuple[str, ...]:
        return tuple(f"operand_{k}" for k in range(count))

    @property
    def optional(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(self.operand_names(len(self.taken_layouts)))

    @property
    def attributes(self) -> dict[str, Any]:  # type: ignore[override]
        return {}

    @property
    def results(self) -> int:
        return len(self.given_layouts)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        if tuple(inputs) != self.taken_layouts:
            raise ProgramError(f"{self.name}: it is planned for {self.taken_layouts}, got {tuple(inputs)}")
        return self.given_layouts

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        return self.launches


# Writing.


class Operations:
    """The operations of a file in the making."""

    def __init__(self, file: Writing, target: Target) -> None:
        self._file = file
        self._target = target
        self._lines: dict[Any, int] = {}

    def reference(self, operation: Operation) -> str | int:
        """How lines name an operation: by its name, or the number of a line that says what it is made of."""
        if known().get(operation.name) is operation:
            return operation.name
        if operation not in self._lines:
            self._lines[operation] = self._made(operation)
        return self._lines[operation]

    def of_node(self, node: Node) -> tuple[str | int, dict[str, Any]]:
        """How a node's line names its operation, and the attributes that it is given there."""
        operation = node.operation
        if (
            known().get(operation.name) is operation
            or isinstance(operation, Launched)
            or operation.derivation
        ):
            return self.reference(operation), dict(node.attributes)
        return self._planned(node), {}

    def program(self, program: Program) -> int:
        """The line of a program, which stands there once."""
        text = format_program(program)
        if text not in self._lines:
            self._lines[text] = self._file.add("program", text=text)
        return self._lines[text]

    def _made(self, operation: Operation) -> int:
        if isinstance(operation, Launched):
            launch = operation.launch
            slots = [[layout_to(s.layout), s.stored, value_to(s.begins)] for s in launch.slots]
            return self._file.add(
                "launch",
                program=self.program(launch.program),
                slots=slots,
                buffers=list(launch.buffers),
                numbers=value_to(launch.numbers),
                grid=list(launch.grid),
            )
        use: Use | None = operation.derivation
        if use is None:
            raise TraceError(f"{operation.name} is no operation of hologram's own, so it cannot be saved")
        computed, result = use.computing
        return self._file.add(
            "derivative",
            of=self.reference(use.operation),
            wanted=use.wanted,
            present=list(use.present),
            computed=[d.name for d in computed],
            result=result.name,
            static=value_to(use.static),
            runtime=list(use.runtime),
        )

    def _planned(self, node: Node) -> int:
        operation = node.operation
        inputs = node.inputs
        if any(isinstance(x, Read) for x in node.attributes.values()) or not all(
            isinstance(x, Layout) or x is None for x in inputs
        ):
            raise TraceError(f"{operation.name} is given a number of the call, so it cannot be saved")
        plan = operation.plan(inputs, node.layouts, node.settings, self._target)
        for step in plan.steps:
            if step.kernel.stem:
                raise TraceError(
                    f"{operation.name} runs {step.kernel.name}, written by hand, so it cannot be saved"
                )
        return self._file.add(
            "plan",
            name=operation.name,
            inputs=[x if x is None else layout_to(x) for x in inputs],  # type: ignore[arg-type]
            outputs=[layout_to(x) for x in node.layouts],
            steps=[
                [self.program(s.program), list(s.operands), value_to(s.scalars), list(s.grid)]
                for s in plan.steps
            ],
            scratch=[[s.dtype.name, s.size] for s in plan.scratch],
        )


# Reading: each takes a line and what is known of the lines before, by number.


def referred(line: Line, made: Mapping[int, Any], reference: Any) -> Operation:
    """The operation that a line names; raises FormatError."""
    if isinstance(reference, str):
        operation = known().get(reference)
        if operation is None or operation.composite:
            raise line.wrong("operation", f"this version of hologram has no operation {reference[:80]!r}")
        return operation
    operation = made.get(reference) if type(reference) is int else None
    if not isinstance(operation, Operation):
        raise line.wrong(
            "operation", "a name, or the number of a line before that is an operation, is needed"
        )
    return operation


def program_from(line: Line, made: Mapping[int, Any]) -> Program:
    """A program, which keeps the rules of Atlas."""
    program = parse_program(line.take("text", str))
    verify(program)
    return program


def launch_from(line: Line, made: Mapping[int, Any]) -> Operation:
    """A launch, of which every buffer is a slot of its dtype."""
    program = _program(made, line.content.get("program"))
    slots = []
    for layout, stored, begins in line.take("slots", list):
        slots.append(Slot(layout_from(layout), stored is True, value_from(begins)))
    places = tuple(line.take("buffers", list))
    if len(places) != len(program.buffers) or not all(type(k) is int and 0 <= k < len(slots) for k in places):
        raise line.wrong("buffers", "each buffer of the program must be a slot")
    if set(places) != set(range(len(slots))):
        raise line.wrong("slots", "each must be a buffer of the program")
    for parameter, place in zip(program.buffers, places, strict=True):
        slot = slots[place]
        if slot.layout.dtype is not parameter.dtype or (
            parameter.access is not Access.READ and not slot.stored
        ):
            raise line.wrong(
                "slots", f"that of {parameter.name} must be {parameter.dtype}, stored if it is written"
            )
    numbers = _numbers(program, value_from(line.take("numbers", list)))
    return launched(Launch(program, tuple(slots), places, numbers, _grid(program, line.take("grid", list))))


def derivative_from(line: Line, made: Mapping[int, Any]) -> Operation:
    """A derivative, made anew of the operation that it is of."""
    operation = referred(line, made, line.content.get("of"))
    if not isinstance(operation, Expression):
        raise line.wrong("of", f"{operation.name} is not declared by an expression")
    present, runtime = (tuple(line.take(name, list)) for name in ("present", "runtime"))
    computing = tuple(map(dtype_of, line.take("computed", list))), dtype_of(line.content.get("result"))
    static = value_from(line.take("static", list))
    use = Use(operation, line.take("wanted", str), present, computing, static, runtime)
    derivative = partial_of(use).operation  # type: ignore[union-attr]
    if derivative is None:
        raise line.wrong("wanted", f"the derivative of {operation.name} is none")
    return derivative


def plan_from(line: Line, made: Mapping[int, Any]) -> Operation:
    """An operation as the programs that it runs."""
    inputs = tuple(None if x is None else layout_from(x) for x in line.take("inputs", list))
    outputs = tuple(map(layout_from, line.take("outputs", list)))
    if any(not x.is_contiguous or x.offset for x in outputs):
        raise line.wrong("outputs", "they must be contiguous")
    scratch = tuple(Scratch(dtype_of(name), *sizes([n], "scratch")) for name, n in line.take("scratch", list))
    held = [*(x and x.dtype for x in inputs), *(x.dtype for x in outputs), *(s.dtype for s in scratch)]
    steps = []
    for number, operands, scalars, grid in line.take("steps", list):
        program = _program(made, number)
        if [held[k] for k in operands] != [b.dtype for b in program.buffers] or min(operands, default=0) < 0:
            raise line.wrong("steps", f"the operands of {program.name} must be those of its buffers")
        steps.append(
            Step(program, tuple(operands), _numbers(program, value_from(scalars)), _grid(program, grid))
        )
    name = line.take("name", str)
    return Planned(
        name=name, function=lambda *x: None, reference=lambda *x: None, samples=lambda rng, d: (),
        taken_layouts=inputs, given_layouts=outputs, launches=Plan(tuple(steps), scratch),
    )  # fmt: skip


def fits(operation: Operation, operands: Sequence[Any]) -> bool:
    """Whether operands are those that a launch was made with."""
    if not isinstance(operation, Launched):
        return True
    slots = operation.launch.slots
    pairs = zip(operands, slots, strict=True)
    return all(s.stored if o is None else isinstance(o, Layout) and o is s.layout for o, s in pairs)


def _program(made: Mapping[int, Any], number: Any) -> Program:
    program = made.get(number) if type(number) is int else None
    if not isinstance(program, Program):
        raise ValueError("the number of a line before that is a program is needed")
    return program


def _numbers(program: Program, given: Sequence[Any]) -> tuple[Any, ...]:
    pairs = zip(program.scalars, given, strict=True)
    return tuple(fitted(x, s.dtype, f"{program.name}, scalar {s.name}") for s, x in pairs)


def _grid(program: Program, given: Any) -> tuple[int, ...]:
    grid = sizes(given, f"{program.name}: grid")
    if len(grid) != program.rank or any(n > MOST_LANES for n in grid):
        raise ValueError(f"{program.name} runs on a grid of {program.rank} axes, got {grid}")
    return grid
