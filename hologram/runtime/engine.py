"""Engine: an open device that runs operations and programs on buffers; what a user calls, Executor, stands on it.

The hot path is `structures` (structures.py), which a call's key is looked up in. Everything slower (checking, planning,
compiling) happens once for such a key.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hologram.atlas.program import Access, Launchable
from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import Number
from hologram.machine.choices import Choices, untuned
from hologram.machine.device import Device
from hologram.machine.plan import Step
from hologram.machine.timeline import Timeline
from hologram.runtime.interchange.array_interface import offer
from hologram.runtime.launches import checks, recognition
from hologram.runtime.launches.launcher import Structure
from hologram.runtime.launches.recording import Recording, launching
from hologram.runtime.launches.validation import cache_key, sizes
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import LARGE, LINE, View, overlaps, sharing, whole
from hologram.runtime.structures import Structures

if TYPE_CHECKING:
    from hologram.foundation import store
    from hologram.foundation.store import CacheStats
    from hologram.opset import movement
    from hologram.opset.forms.operation import Operation
else:  # needed to compute, not to open
    movement, store = lazy.module("hologram.opset.movement"), lazy.module("hologram.foundation.store")


recordings = Recording.open
# In keys: results over an operand, in given outputs, and elements of a view that are copied.
OVER, OUT, COPY = "over", "out", "copy"
FIRST, SECOND = range(1), range(1, 2)  # the operand that is the output


class Engine(Structures):
    """Runs operations on one device, from buffers to buffers. Any thread may use it."""

    def __init__(self, device: Device, choices: Choices = untuned) -> None:
        super().__init__(device, choices)
        if device.array_interface:
            offer(device.array_interface)
        self.backend: str = device.info.backend
        self._lock = threading.RLock()

    # Memory.

    def allocate(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Buffer:
        """A Buffer of a size or shape, contents undefined.

        Raises ShapeError for negative sizes, UnsupportedDType for a dtype the device lacks, OutOfMemory.
        """
        kind = self.kind(sizes(shape, "allocate"), self.supported(dtype))
        return self.dispatch(Engine.new_buffer, "allocate", self, kind)

    def new_buffer(self, kind: BufferSpec) -> Buffer:
        """A Buffer of a kind, contents undefined; raises OutOfMemory."""
        return Buffer(self, self.block(kind), kind)

    def allocate_boundary(self, class_: int, pages: int = 1, dtype: Any = dtypes.u8) -> Buffer:
        """A Buffer over `pages` pages of 256 bytes in one of the 96 classes of the boundary pool."""
        element = self.supported(dtype)
        self.check_open()
        block = self.dispatch(self.boundary.allocate, "allocate_boundary", class_, pages)
        return Buffer(self, block, self.kind((block.nbytes // element.itemsize,), element))

    def memory_stats(self) -> dict[str, int]:
        """Bytes `allocated` (in use), `reserved` (held from the device), `peak`, and the `count` of blocks in use."""
        stats = self.pool.stats()
        return {
            "allocated": stats.allocated,
            "reserved": stats.reserved,
            "peak": stats.peak,
            "count": stats.count,
            "cached_launches": len(self.structures),
        }

    def reset_peak(self) -> None:
        """Has `peak` of `memory_stats` begin with what is in use now."""
        self.pool.peak = 0
        self.pool.stats()

    def cache_stats(self) -> CacheStats:
        """How often this process found a kernel for this backend on disk, did not, kept one, or compiled one."""
        return store.shared().stats(self.backend)

    def preparation_stats(self) -> dict[str, int]:
        """How often so far something was made that later calls find: plans of operations, launches, traces, kernels.

        `planned` counts what operations launch for new shapes, `prepared` launches, but for those that follow from
        others of their class, `traced` functions of `hg.jit` with new signatures, `compiled` kernels. Counts that grow
        from step to step of a loop say that each meets something new.
        """
        return {**self.bound.made.counts(), "compiled": self.device.compiled}

    def empty_cache(self) -> None:
        """Hands cached memory back to the device."""
        self.synchronize()
        self.pool.release_cached()

    # Operations.

    def _evaluate(
        self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> list[Buffer] | None:
        """An operation's results in new buffers, None before `_sign`; for who passed the dispatch."""
        given: list[Any] = [operation]
        arguments: list[Any] = []
        if not self.described(operands, given, arguments):
            return None
        if attributes and attributes is not operation.attributes:
            for value in attributes.values():
                given.append(cache_key(value))
        key = tuple(given)
        structure = self.structures.get(key)
        if structure is None:
            structure = self.structure(key, arguments)
        elif structure.values:
            structure = self.of_numbers(structure, arguments)
        if structure is None:
            return None
        results = []
        for kind in structure.kinds:
            block = self.block(kind)
            arguments.append(block.place)
            results.append(Buffer(self, block, kind))
        if not recordings or launching(structure, arguments):
            structure.launch(arguments)
        return results

    def _infer_signature(
        self, operation: Operation, operands: Sequence[View | Number | None], attributes: Mapping[str, Any]
    ) -> Structure:
        """Learns what an operation runs for operands like these; raises what the checks, `infer` and `plan` do."""
        views, _ = checks.checked(self, operation, operands, ())
        key: list[Any] = [operation]
        arguments: list[Any] = []
        self.described(views, key, arguments)
        if attributes and attributes is not operation.attributes:
            key += map(cache_key, attributes.values())
        checks.check_dtypes(self, operation, views)
        return self._learned(tuple(key), operation, views, None, attributes, arguments)

    def _update(self, operation: Operation, operands: Sequence[View | Number], target: View) -> bool:
        """Computes an operation into its first operand, the target; False where the result cannot lie there."""
        given: list[Any] = []
        arguments: list[Any] = []
        if not operation.in_place or not self.described(operands, given, arguments):
            return False
        shared = sharing(given, arguments, FIRST)
        if shared is None:
            return False
        key = (operation, OVER, *given, given[0], *shared)
        arguments.append(arguments[0])
        structure = self.structure(key, arguments)
        if structure is None:
            views, _ = checks.checked(self, operation, operands, (target,))
            inputs = [v.layout if isinstance(v, View) else v for v in views]
            (result,) = operation.infer(inputs, operation.attributes)
            if (result.dtype, result.shape) != (target.dtype, target.shape):
                return False
            layout = target.layout.placed(self._alignment)[0]
            structure = self._learned(key, operation, views, [layout], operation.attributes, arguments)
        if not recordings or launching(structure, arguments):
            structure.launch(arguments)
        return True

    def execute(
        self,
        operation: Operation,
        operands: Sequence[checks.Operand],
        outputs: Sequence[Buffer | View],
        attributes: Mapping[str, Any],
    ) -> None:
        """Computes an operation into given outputs."""
        self.dispatch(Engine._compute, operation.name, self, operation, operands, outputs, attributes)

    def _compute(
        self,
        operation: Operation,
        operands: Sequence[checks.Operand],
        outputs: Sequence[Buffer | View],
        attributes: Mapping[str, Any],
    ) -> None:
        """See execute; for who passed the dispatch before."""
        given: list[Any] = []
        arguments: list[Any] = []
        known = self.described((*operands, *outputs), given, arguments)
        shared = sharing(given, arguments, range(len(operands), len(given))) if known else None
        key = () if shared is None else (operation, OUT, *given, shared, *map(cache_key, attributes.values()))
        structure = self.structure(key, arguments) if key else None
        if structure is None:
            views, targets = checks.checked(self, operation, operands, outputs)
            apart = [self._disjoint(operation, v, targets) for v in views]
            if any(v is not a for v, a in zip(views, apart, strict=True)):
                return self._compute(operation, apart, targets, attributes)
            checks.check_dtypes(self, operation, [*apart, *targets])
            layouts = [t.layout.placed(self._alignment)[0] for t in targets]
            structure = self._learned(key, operation, apart, layouts, attributes, arguments)
        if not recordings or launching(structure, arguments):
            structure.launch(arguments)

    def copy(self, source: View | Number, target: View) -> None:
        """Copies elements, or one number, broadcasting and converting; source and target may overlap."""
        if self.tracers:
            self.dispatch(Engine._copy_elements, "copy", self, source, target)
        else:
            self._copy_elements(source, target)

    def _copy_elements(self, source: View | Number, target: View) -> None:
        """See copy; for who passed the dispatch before."""
        given: list[Any] = []
        arguments: list[Any] = []
        if not self.described((source, target), given, arguments):
            self.check_open()
            if not isinstance(source, (bool, int, float)):
                checks.view(self, "copy", source)
            checks.target(self, "copy", target)
        shared = sharing(given, arguments, SECOND)
        if shared is None or 0 in shared[1:]:
            assert isinstance(source, View)
            return self._copy_elements(self._gathered(source), target)
        key = (COPY, *given, *shared)
        structure = self.structure(key, arguments)
        if structure is None:
            checks.target(self, "copy", target)
            structure = self._learned(key, movement.copy, (source,), given[1:], {}, arguments)
        if not recordings or launching(structure, arguments):
            structure.launch(arguments)

    # Programs.

    def launch(
        self,
        kernel: Launchable,
        buffers: Sequence[Buffer | View],
        scalars: Sequence[bool | int | float] = (),
        grid: Sequence[int] = (1,),
    ) -> None:
        """Launches a kernel on buffers in its order; `grid` in elements for a Program, in workgroups for a Tile.

        A view is a buffer of its own elements, in row-major order: where they do not lie so in memory, they are
        copied, and what the kernel writes is copied back.
        """
        if not isinstance(kernel, Launchable):
            raise TypeError(f"launch: a Program or Tile is needed, got {type(kernel).__name__}")
        self.dispatch(Engine._launch, kernel.name, self, kernel, buffers, scalars, grid)

    def _launch(
        self,
        kernel: Launchable,
        buffers: Sequence[Buffer | View],
        scalars: Sequence[bool | int | float],
        grid: Sequence[int],
    ) -> None:
        name = kernel.name
        views, values = checks.of_kernel(self, kernel, buffers, scalars)
        grid = sizes(grid, f"{name}: grid")
        if 0 in grid[: len(grid) - kernel.reduced]:  # a row without elements still has its result
            return
        staged = self._staged(kernel, views)
        if staged is not views:
            self._launch(kernel, staged, scalars, grid)
            self._written_back(kernel, staged, views)
            return
        given: list[Any] = [kernel]
        arguments: list[Any] = []
        if not self.described(views, given, arguments):
            self.check_open()
        shared = tuple(
            [(j, k) for k, b in enumerate(views) for j, a in enumerate(views[:k]) if overlaps(a, b)]
        )
        aligned = [place % LINE for v, place in zip(views, arguments, strict=True) if v.size >= LARGE]
        key = (*given, shared, *aligned, *map(cache_key, values), *grid)
        structure = self.structures.get(key)
        if structure is None or shared:
            checks.check_apart(kernel, views)
        if structure is None:
            step = Step(kernel, tuple(range(len(views))), values, grid)
            plan = recognition.chosen(step, [v.size for v in views], self.target, not shared)
            structure = self.bound.structure(
                plan, self._nbytes([v.layout.placed(self._alignment)[0] for v in views])
            )
            self.structures.keep(key, structure)
        if not recordings or launching(structure, arguments):
            structure.launch(arguments)

    # Order and time.

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        self.check_open()
        self.device.synchronize()

    @functools.cached_property
    def timeline(self) -> Timeline:
        """The clock of the executor's events."""
        return self.device.timeline()

    def close(self) -> None:
        """Waits, then releases the device and all its memory; buffers of the executor are freed.

        Raises what is wrong with the work it waits for, once; the executor is closed all the same.
        """
        self.dispatch(Engine._close, "close", self)

    def _close(self) -> None:
        with self._lock:
            if self.closed:
                return
            try:
                if self.usable:
                    self.device.synchronize()
            finally:  # a lost device's work is told of, and what it held given back as well
                self.usable = False
                self.closed = True
                self.structures.clear()
                self.bound.clear()
                self.pool.close()
                self.device.close()

    # How it is done.

    def _gathered(self, view: View) -> View:
        """A copy of a view's elements, in row-major order in a buffer of their own."""
        copy = whole(self.new_buffer(self.kind(view.shape, view.dtype)))
        self._copy_elements(view, copy)
        return copy

    def _disjoint(self, operation: Operation, operand: Any, targets: Sequence[View]) -> Any:
        """An operand, copied where it lies in an output's memory and the operation cannot work in place there."""
        if not isinstance(operand, View):
            return operand
        beside = (
            overlaps(operand, t)
            and not (operation.in_place and operand.layout == t.layout and operand.key == t.key)
            for t in targets
        )
        return self._gathered(operand) if any(beside) else operand

    def _staged(self, kernel: Launchable, views: Sequence[View]) -> Sequence[View]:
        """The views, those gathered that a kernel cannot reach where they lie; itself where it reaches all."""
        apart = [v for v in views if v.layout is not v.buffer.kind.layout and not self._reachable(v)]
        if not apart:
            return views
        checks.check_apart(kernel, views)
        gathered = {v.key: self._gathered(v) for v in apart}
        return [gathered.get(v.key, v) for v in views]

    def _written_back(self, kernel: Launchable, staged: Sequence[View], views: Sequence[View]) -> None:
        for parameter, now, view in zip(kernel.buffers, staged, views, strict=True):
            if now is not view and parameter.access is not Access.READ:
                self._copy_elements(now, view)

    def _reachable(self, view: View) -> bool:
        """Whether a view can be bound as it lies: without gaps, from where bindings may begin to where they may end."""
        layout, itemsize = view.layout, view.dtype.itemsize
        if not layout.is_contiguous:
            return False
        # What lies behind the last element, up to the next vector, must be nobody else's.
        ends = layout.offset + layout.size == view.buffer.size or layout.size * itemsize % 16 == 0
        return ends and layout.offset * itemsize % self.limits.binding_alignment == 0
