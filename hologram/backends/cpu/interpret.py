"""Programs without a compiler: Atlas' own evaluator behind the interface of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.evaluate import evaluate
from hologram.atlas.program import Program
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Span


@frozen
class InterpretedKernel(Kernel):
    """A program the evaluator runs at every launch."""

    program: Program

    def bind(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Launch:
        program, sizes = self.program, tuple(grid)
        numbers = {s.name: x for s, x in zip(program.scalars, scalars, strict=True)}
        buffers = {}
        for parameter, b in zip(program.buffers, bindings, strict=True):
            usable = b.nbytes - b.nbytes % parameter.dtype.itemsize
            buffers[parameter.name] = b.memory.bytes[b.offset : b.offset + usable].view(parameter.dtype.numpy)
        return lambda: evaluate(program, buffers, numbers, sizes)

    def schedule(
        self, spans: Sequence[Span], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> str:
        return "interpreted"

    def source(self, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
        """A line that says what runs."""
        return f"; {self.program.name} is interpreted by Atlas' evaluator: there is no compiler for this CPU"
