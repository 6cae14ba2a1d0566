"""Engine: an open device that runs operations and programs on buffers; what a user calls, Executor, stands on it.

The hot path is `launches`: a dictionary from (operation, keys of the operands, attributes) to a call without
arguments. Everything slower (planning, compiling, binding) happens once per such key.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hologram import dtypes, lazy
from hologram.atlas.program import Access, Program
from hologram.choices import Choices, untuned
from hologram.device import Device, Launch, Timeline
from hologram.dtypes import Number
from hologram.layout import Layout
from hologram.plan import Plan, Step, Target, Tile
from hologram.records import frozen
from hologram.runtime import checks, recognition
from hologram.runtime.allocation import Allocation, Kind
from hologram.runtime.array_interface import offer
from hologram.runtime.buffer import Buffer
from hologram.runtime.launches import Launches, Part
from hologram.runtime.validation import exactly, sizes
from hologram.runtime.view import View, overlaps, whole

if TYPE_CHECKING:
    from hologram import store
    from hologram.opset.forms import map as map_form
    from hologram.opset.forms.operation import Operation
    from hologram.store import CacheStats
else:  # needed to compute, not to open
    map_form, store = lazy.module("hologram.opset.forms.map"), lazy.module("hologram.store")


MAX_SIGNATURES = 8192


@frozen(eq=False)
class Signature:
    """An operation with the layouts and numbers of its operands, and its attributes: what its results are like."""

    kinds: tuple[Kind, ...]


class Engine(Allocation):
    """Runs operations on one device, from buffers to buffers. Any thread may use it."""

    def __init__(self, device: Device, choices: Choices = untuned) -> None:
        super().__init__(device)
        if device.array_interface:
            offer(device.array_interface)
        self.target = Target(self.limits, choices)
        self.backend: str = device.info.backend
        self.bound = Launches(self.device, self.pool, choices)
        self.launches: dict[Any, Launch] = self.bound.cached
        self._signatures: dict[Any, Signature] = {}
        self._lock = threading.RLock()

    # Memory.

    def allocate(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Buffer:
        """A Buffer of a size or shape, contents undefined.

        Raises ShapeError for negative sizes, UnsupportedDType for a dtype the device lacks, OutOfMemory.
        """
        kind = self.kind(sizes(shape, "allocate"), self.supported(dtype))
        return self.dispatch(Engine.new_buffer, "allocate", self, kind)

    def new_buffer(self, kind: Kind) -> Buffer:
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
            "cached_launches": len(self.launches),
        }

    def reset_peak(self) -> None:
        """Has `peak` of `memory_stats` begin with what is in use now."""
        self.pool.peak = 0
        self.pool.stats()

    def cache_stats(self) -> CacheStats:
        """How often this process found a kernel for this backend on disk, did not, kept one, or compiled one."""
        return store.shared().stats(self.backend)

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
        key: list[Any] = [None]  # of the launch
        for operand in operands:
            if isinstance(operand, View):
                given.append(operand.layout)
                key.append(operand.buffer.key)
            else:
                given.append(checks.key(operand))
        if attributes and attributes is not operation.attributes:
            given += map(exactly, attributes.values())
        try:
            signature = self._signatures[tuple(given)]
        except KeyError:
            return None
        key[0] = signature
        results = []
        for kind in signature.kinds:
            buffer = Buffer(self, self.block(kind), kind)
            key.append(buffer.key)
            results.append(buffer)
        launch = self.launches.get(tuple(key))
        if launch is None:
            launch = self._planned(tuple(key), operation, operands, results, attributes)
        launch()
        return results

    def _sign(
        self, operation: Operation, operands: Sequence[View | Number | None], attributes: Mapping[str, Any]
    ) -> Signature:
        """Learns what the results are for operands of these layouts and numbers; raises what `infer` does."""
        inputs = [o.layout if isinstance(o, View) else o for o in operands]
        layouts = operation.infer(inputs, attributes)
        kinds = (self.kind(sizes(x.shape, operation.name), self.supported(x.dtype)) for x in layouts)
        if len(self._signatures) >= MAX_SIGNATURES:
            self._signatures.clear()
        key = [operation, *[i if isinstance(i, Layout) else checks.key(i) for i in inputs]]
        if attributes and attributes is not operation.attributes:
            key += map(exactly, attributes.values())
        found = self._signatures[tuple(key)] = Signature(tuple(kinds))
        return found

    def _update(self, operation: Operation, operands: Sequence[View | Number], target: View) -> bool:
        """Computes an operation into one of its operands; False where the result is none that can lie there."""
        key = (operation, *map(checks.key, operands), target.key)
        launch = self.launches.get(key)
        if launch is None:
            views = [o for o in operands if isinstance(o, View)]
            apart = all(v.key == target.key or not overlaps(v, target) for v in views)
            if not operation.in_place or not apart:
                return False
            (kind,) = self._sign(operation, operands, operation.attributes).kinds
            if (kind.dtype, kind.shape) != (target.dtype, target.shape):
                return False
            launch = self._planned(key, operation, operands, [target], operation.attributes)
        launch()
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
        key = (
            operation,
            *map(checks.key, operands),
            *map(checks.key, outputs),
            *map(exactly, attributes.values()),
        )
        launch = self.launches.get(key)
        if launch is None:
            launch = self._planned(key, operation, operands, outputs, attributes)
        launch()

    def _planned(
        self,
        key: Any,
        operation: Operation,
        operands: Sequence[checks.Operand],
        outputs: Sequence[Buffer | View],
        attributes: Mapping[str, Any],
    ) -> Launch:
        """The launch that computes an operation into given outputs, cached by a key where that can be."""
        views, targets = checks.checked(self, operation, operands, outputs)
        apart = [self._disjoint(operation, v, targets) for v in views]
        plan = operation.plan(
            [v.layout if isinstance(v, View) else v for v in apart],
            [t.layout for t in targets],
            attributes,
            self.target,
        )
        checks.check_dtypes(self, operation.name, [*apart, *targets])
        copied = any(v is not a for v, a in zip(views, apart, strict=True))
        return self._prepare(None if copied else key, plan, [*apart, *targets])

    def copy(self, source: View, target: View) -> None:
        """Copies elements, broadcasting and converting; source and target may overlap."""
        self.dispatch(Engine._copy_elements, "copy", self, source, target)

    def _copy_elements(self, source: View, target: View) -> None:
        """See copy; for who passed the dispatch before."""
        key = ("copy", source.buffer.key, source.layout, target.buffer.key, target.layout)
        launch = self.launches.get(key)
        if launch is None:
            checks.view(self, "copy", source)
            checks.target(self, "copy", target)
            if overlaps(source, target):
                source, key = self._gathered(source), None
            plan = map_form.copy_plan(source.layout, target.layout)
            launch = self._prepare(key, plan, [source, target])
        launch()

    # Programs.

    def launch(
        self,
        kernel: Program | Tile,
        buffers: Sequence[Buffer | View],
        scalars: Sequence[bool | int | float] = (),
        grid: Sequence[int] = (1,),
    ) -> None:
        """Launches a kernel on buffers in its order; `grid` in elements for a Program, in workgroups for a Tile.

        A view is a buffer of its own elements, in row-major order: where they do not lie so in memory, they are
        copied, and what the kernel writes is copied back.
        """
        name = checks.kernel_name(kernel)
        self.dispatch(Engine._launch, name, self, kernel, buffers, scalars, grid)

    def _launch(
        self,
        kernel: Program | Tile,
        buffers: Sequence[Buffer | View],
        scalars: Sequence[bool | int | float],
        grid: Sequence[int],
    ) -> None:
        name = checks.kernel_name(kernel)
        views, values = checks.of_kernel(self, kernel, buffers, scalars)
        grid = sizes(grid, f"{name}: grid")
        reduced = kernel.reduced if isinstance(kernel, Program) else 0
        if 0 in grid[: len(grid) - reduced]:  # a row without elements still has its result
            return
        key = (kernel, *(v.key for v in views), *map(exactly, values), *grid)
        launch = self.launches.get(key)
        if launch is None:
            checks.check_apart(kernel, views)
            staged = self._staged(views)
            if staged is not views:
                self._launch(kernel, staged, scalars, grid)
                self._written_back(kernel, staged, views)
                return
            step = Step(kernel, tuple(range(len(views))), values, grid)
            distinct = len({id(v.buffer.live_block()) for v in views}) == len(views)
            plan = recognition.chosen(step, [v.size for v in views], self.target, distinct)
            self.check_open()
            launch = self.bound.prepare(key, plan, [self._part(v) for v in views])
        launch()

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
                self.bound.clear()
                self._signatures.clear()
                self.pool.close()
                self.device.close()

    # How it is done.

    def _prepare(self, key: Any, plan: Plan, operands: Sequence[Any]) -> Launch:
        self.check_open()
        return self.bound.prepare(key, plan, [o.buffer if isinstance(o, View) else None for o in operands])

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

    def _staged(self, views: Sequence[View]) -> Sequence[View]:
        """The views, those gathered that a kernel cannot reach where they lie; itself where it reaches all."""
        apart = [v for v in views if not self._reachable(v)]
        if not apart:
            return views
        gathered = {v.key: self._gathered(v) for v in apart}
        return [gathered.get(v.key, v) for v in views]

    def _written_back(self, kernel: Program | Tile, staged: Sequence[View], views: Sequence[View]) -> None:
        for (_, _, access), now, view in zip(checks.parameters(kernel)[0], staged, views, strict=True):
            if now is not view and access != Access.READ.value:
                self._copy_elements(now, view)

    def _reachable(self, view: View) -> bool:
        """Whether a view can be bound as it lies: without gaps, from where bindings may begin to where they may end."""
        layout, itemsize = view.layout, view.dtype.itemsize
        if not layout.is_contiguous:
            return False
        # What lies behind the last element, up to the next vector, must be nobody else's.
        ends = layout.offset + layout.size == view.buffer.size or layout.size * itemsize % 16 == 0
        return ends and layout.offset * itemsize % self.limits.binding_alignment == 0

    @staticmethod
    def _part(view: View) -> Part:
        itemsize = view.dtype.itemsize
        return Part(view.buffer, view.layout.offset * itemsize, view.size * itemsize)
