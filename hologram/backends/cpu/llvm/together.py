"""Maps whose lanes go through loops together: some neighbours at a time, as a workgroup that never waits.

Where a lane loops, LLVM makes no vectors of neighbours. So its loop goes around them (see workgroups.py): one that is
the same for all runs as often for all, one that each ends when it likes runs until the last has ended. Those that have
ended keep what they had.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hologram.atlas.opcodes import LOOPS
from hologram.atlas.program import Program
from hologram.backends.cpu.llvm.arguments import open_frame
from hologram.backends.cpu.llvm.lane import Lane, Locals
from hologram.backends.cpu.llvm.loops import GROUP, positions, runs
from hologram.backends.cpu.llvm.workgroups import Workgroup, anywhere, crossing, cut
from hologram.backends.cpu.llvm.writer import Writer, memory_type
from hologram.compiler.scheduling.loops import Variant
from hologram.compiler.scheduling.threads import Threads

SIDE_BY_SIDE = 32  # lanes: those that have ended wait for the last one
FEW_SIDE_BY_SIDE = 16  # where loops carry so much that more of it would not stay in registers
_MUCH = 16  # values


@dataclass
class _Neighbours(Workgroup):
    """Emits the pieces of some lanes along the innermost axis."""

    outer: dict[int, str] = field(default_factory=dict)
    axis: int = 0

    def lane(self, thread: str) -> Lane:
        place = self.w(f"add nsw i64 {self.first}, {thread}")
        lane = Lane(self.frame, positions(self.frame, self.outer | {self.axis: place}), group=GROUP)
        if self.locals:
            lane.locals = Locals(self.locals, thread, self.size)
        return lane


def together_body(w: Writer, program: Program, variant: Variant) -> None:
    """Rows of the grid in turn, the chosen axis innermost, so many lanes of it at a time."""
    frame = open_frame(w, program, variant)
    pieces = cut(program.body.instructions, Threads.of(program, variant.short))
    kept = crossing(pieces)
    again = anywhere(program)
    carried = max((len(i.results) for i in program.body.walk() if i.opcode in LOOPS), default=0)
    size = FEW_SIDE_BY_SIDE if carried > _MUCH else SIDE_BY_SIDE
    local = {a.name: w.alloca(memory_type(a.dtype), a.size * size) for a in program.local}
    axis, arrays = variant.order[-1], dict[int, str]()

    def run(outer: dict[int, str], start: str, stop: str) -> None:
        def some(first: str, _: list[str], count: str = str(size)) -> list[str]:
            group = _Neighbours(
                w, frame, "0", first, count, size, again, kept, arrays,
                locals=local, outer=outer, axis=axis,
            )  # fmt: skip
            group.begin()
            group.run(pieces)
            return []

        rest = w(f"srem i64 {w(f'sub nsw i64 {stop}, {start}')}, {size}")
        whole = w(f"sub nsw i64 {stop}, {rest}")
        w.loop(start, whole, str(size), [], some)
        w.loop(whole, stop, str(size), [], lambda first, now: some(first, now, rest))

    runs(w, frame, variant.order, "%begin", "%end", run)
