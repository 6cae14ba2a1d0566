"""Kernels that are compiled from text."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram.atlas.program import Launchable
from hologram.foundation import lazy
from hologram.foundation.errors import CompileError, ShapeError
from hologram.machine.kernel import Binding, Bindings, Kernel, Launch, Scalars, Span, check_bindings, nothing
from hologram.machine.limits import Limits

if TYPE_CHECKING:
    from hologram.compiler.scheduling import schedule
    from hologram.compiler.source import listing, report
    from hologram.compiler.source.generator import Generator
else:  # needed to compile, not to open
    schedule = lazy.module("hologram.compiler.scheduling.schedule")
    listing = lazy.module("hologram.compiler.source.listing")
    report = lazy.module("hologram.compiler.source.report")

INDEX_BITS = 32  # of positions, where a backend has no wider ones; of those that epilogues read, everywhere
FAR = 1 << INDEX_BITS  # elements before an operand that its tile cannot count


def within_reach(
    tile: Launchable, bindings: Bindings, scalars: Scalars, alignment: int
) -> tuple[Bindings, Scalars]:
    """The same operands, those that begin FAR into their binding bound from the last aligned byte before.

    A tile's scalar `..._offset` counts the elements of the buffer of that name before its first, in a word.
    """
    places = {f"{b.name}_offset": k for k, b in enumerate(tile.buffers)}
    bound, numbers = list(bindings), list(scalars)
    for at, scalar in enumerate(tile.scalars):
        if scalar.name in places and numbers[at] >= FAR:
            k = places[scalar.name]
            itemsize, binding = tile.buffers[k].dtype.itemsize, bound[k]
            ahead = int(numbers[at]) * itemsize // alignment * alignment
            bound[k] = Binding(binding.memory, binding.offset + ahead, binding.nbytes - ahead)
            numbers[at] = int(numbers[at]) - ahead // itemsize
    return bound, numbers


class TextKernel(Kernel):
    """A kernel that is compiled from text, once for each variant of its launches."""

    def __init__(self, kernel: Launchable, limits: Limits, generator: Generator) -> None:
        self.kernel = kernel
        self.limits = limits
        self.generator = generator
        self.name = kernel.name
        count, most = len(kernel.buffers), limits.max_bindings
        if count > most:
            raise CompileError(self.name, f"it has {count} buffers, this device lets a kernel see {most}")

    def bind(self, bindings: Bindings, scalars: Scalars, grid: Sequence[int]) -> Launch:
        """A call that enqueues the kernel; see hologram.machine.device.Kernel.

        Raises ShapeError for bindings that do not fit; CompileError where this is the first launch of its variant.
        """
        checked = self.checked(bindings, scalars, grid)
        if checked is None:
            return nothing
        bindings, scalars = checked
        return self.launch(bindings, scalars, grid, self.kernel.lengths(b.nbytes for b in bindings))

    def checked(
        self, bindings: Bindings, scalars: Scalars, grid: Sequence[int]
    ) -> tuple[Bindings, Scalars] | None:
        """What a launch sees, and its scalars; None where there is nothing to launch. Raises as `bind`."""
        kernel = self.kernel
        check_bindings(kernel, bindings, self.limits.binding_alignment)
        if kernel.stem:
            bindings, scalars = within_reach(kernel, bindings, scalars, self.limits.binding_alignment)
        if 0 in grid[: len(grid) - kernel.reduced]:  # a row without elements still has its result
            return None
        lengths, most = kernel.lengths(b.nbytes for b in bindings), schedule.most_lanes(INDEX_BITS)
        longest = max((lengths[k] for k in kernel.read_by_epilogue), default=0)
        if longest > most:
            raise ShapeError(
                f"{self.name}: its epilogue reads {most} elements of a buffer at most, got {longest}"
            )
        return bindings, scalars

    @abstractmethod
    def launch(
        self, bindings: Bindings, scalars: Scalars, grid: Sequence[int], lengths: Sequence[int]
    ) -> Launch:
        """As `bind`, of what was checked; `lengths` are those of the bindings, in elements."""

    def workgroups(self, grid: Sequence[int]) -> int:
        """Those of a launch over this grid."""
        scalars = (1,) * len(self.kernel.scalars)
        # Whether positions are checked changes no groups.
        lengths = [schedule.most_lanes(INDEX_BITS)] * len(self.kernel.buffers)
        source = self.generator.source(self.generator.variant(grid, scalars, lengths))
        return math.prod(source.groups(grid, self.limits))

    def schedule(self, spans: Sequence[Span], scalars: Scalars, grid: Sequence[int]) -> str:
        return self.generator.mapping(grid)

    def source(self, grid: Sequence[int], scalars: Scalars = ()) -> str:
        """The text of a launch over this grid that binds buffers as large as it reaches."""
        return listing.text(self.generator, grid, scalars)
