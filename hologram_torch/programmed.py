"""Atlas programs as operations, which run at once and within functions that are traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.program import Access, Program
from hologram.atlas.text import parse_program
from hologram.atlas.verify import verify
from hologram.foundation.errors import ProgramError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.forms.map import copy_plan
from hologram.opset.forms.operation import Operation


@frozen(eq=False)
class Programmed(Operation):
    """A program whose buffers are the operation's operands and results, and its scalars the attributes.

    `outputs` names the buffers that are results and, for each, the buffer that it has its shape from: itself for one
    that is read and written, whose result starts as a copy.
    """

    program: Program = None  # type: ignore[assignment]  (fields after those with defaults need one)
    outputs: Mapping[str, str] = None  # type: ignore[assignment]

    @property
    def operands(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(b.name for b in self.program.buffers if b.access != Access.WRITE)

    @property
    def attributes(self) -> dict[str, Any]:  # type: ignore[override]
        return {s.name: 0 for s in self.program.scalars}

    @property
    def results(self) -> int:
        return len(self.outputs)

    def infer(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        """The dtypes that the program says, the shapes of what results are like."""
        given = dict(zip(self.operands, inputs, strict=True))
        dtypes = {b.name: b.dtype for b in self.program.buffers}
        for name, layout in given.items():
            if layout.dtype is not dtypes[name]:
                raise ProgramError(f"{self.name}: buffer {name} holds {dtypes[name]}, got {layout.dtype}")
        return tuple(Layout.contiguous(dtypes[n], given[like].shape) for n, like in self.outputs.items())

    def plan(
        self, inputs: Sequence[Any], outputs: Sequence[Layout], attributes: Mapping[str, Any], target: Target
    ) -> Plan:
        """Copies of what is read and written, then the program, once for each element of the first result."""
        names = (*self.operands, *self.outputs)
        places = {name: k for k, name in enumerate(names)}  # results after operands of the same name
        steps: list[Step] = []
        for k, name in enumerate(self.outputs):
            if name in self.operands:
                where = (self.operands.index(name), len(self.operands) + k)
                for step in copy_plan(inputs[where[0]], outputs[k]).steps:
                    steps.append(replace(step, operands=tuple(where[o] for o in step.operands)))
        grid = outputs[0].shape if len(outputs[0].shape) == self.program.rank else (outputs[0].size,)
        if len(grid) != self.program.rank:
            raise ShapeError(
                f"{self.name}: its grid has {self.program.rank} axes, its result the shape {outputs[0].shape}"
            )
        if 0 in grid:
            return Plan(())
        scalars = tuple(attributes[s.name] for s in self.program.scalars)
        operands = tuple(places[b.name] for b in self.program.buffers)
        return Plan((*steps, Step(self.program, operands, scalars, tuple(grid))))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*(_whole(a) if isinstance(a, Tensor) else a for a in args), **kwargs)


def _whole(x: Tensor) -> Tensor:
    """The tensor where it is all of its buffer, which is what a program sees, else a copy."""
    return x if x.is_contiguous() and not x.offset and x.size == x.buffer.size else x.clone()


def programmed(program: Program | str, outputs: Mapping[str, str]) -> Programmed:
    """The operation of a program; raises ProgramError for one that breaks a rule, or results that do not fit it."""
    parsed = parse_program(program) if isinstance(program, str) else program
    verify(parsed)
    written = {b.name for b in parsed.buffers if b.access != Access.READ}
    read = {b.name for b in parsed.buffers if b.access != Access.WRITE}
    if set(outputs) != written or not set(outputs.values()) <= read:
        raise ProgramError(
            f"{parsed.name}: outputs must give each of {', '.join(sorted(written))} a buffer that is read and has its "
            f"shape, got {dict(outputs)}"
        )

    def declaration(*args: Any, **kwargs: Any) -> Any:
        raise ProgramError(f"{parsed.name}: a program cannot be written into another")

    return Programmed(
        parsed.name, declaration, declaration, lambda rng, dtype: (), program=parsed, outputs=dict(outputs)
    )
