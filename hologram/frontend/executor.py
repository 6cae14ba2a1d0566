"""Executor: an open device with its memory, its compiled kernels and its cached launches.

The hot path is `launches`: a dictionary from (operation, keys of the operands, attributes) to a call without
arguments. Everything slower (planning, compiling, binding) happens once per such key.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hologram import dtypes, lazy
from hologram.atlas.program import Program
from hologram.config import config
from hologram.device import DeviceInfo, Launch, Timeline, timeline
from hologram.errors import ShapeError
from hologram.frontend import arguments
from hologram.frontend.arguments import Operand
from hologram.frontend.profile import Profile
from hologram.frontend.stream import Event, Stream
from hologram.frontend.tensor import Tensor
from hologram.layout import Layout
from hologram.plan import Plan, Step, Tile
from hologram.runtime import interchange, recognition, selector
from hologram.runtime.allocation import Allocation
from hologram.runtime.buffer import Buffer, Kind
from hologram.runtime.launches import Launches
from hologram.runtime.planner import overlaps
from hologram.runtime.validation import exactly, same_names, sizes
from hologram.tuning.winners import Winners

if TYPE_CHECKING:
    from hologram import store
    from hologram.atlas import text, verify
    from hologram.opset.forms import map as map_form
    from hologram.opset.forms.operation import Operation
    from hologram.store import CacheStats
    from hologram.tuning import tuner
else:  # needed to compute, not to open
    text, verify = lazy.module("hologram.atlas.text"), lazy.module("hologram.atlas.verify")
    map_form, store = lazy.module("hologram.opset.forms.map"), lazy.module("hologram.store")
    tuner = lazy.module("hologram.tuning.tuner")

MAX_INFERRED = 8192
MAX_LAYOUTS = 16384


class Executor(Allocation):
    """Runs operations on one device. A context manager; any thread may use it.

    `backend` is 'auto', 'cpu', 'webgpu', 'metal' or 'cuda'; `device` a number or part of a device's name. Raises
    BackendUnavailable, with the reason and the remedy, if that cannot be had; nothing falls back silently.
    """

    tensor_over = Tensor  # for what runs below tensors, and returns some

    def __init__(self, backend: str = "auto", device: int | str | None = None) -> None:
        module, index = selector.select(backend, device)
        opened = module.open_device(index)
        self.backend: str = opened.info.backend.value
        self._tuner: tuner.Background | None = None
        super().__init__(opened, replace(opened.limits, tuned=self._tuned(opened.info)))
        self.bound = Launches(self.device, self.pool)
        self.launches: dict[Any, Launch] = self.bound.cached
        self.recording: dict[int, Any] = {}  # by thread, what records a function that the thread traces
        self._lock = threading.RLock()
        self._inferred: dict[Any, tuple[tuple[Kind, Layout], ...]] = {}  # of results
        self._layout_ids: dict[Layout, int] = {}
        self._layout_numbers = itertools.count()

    # Memory.

    def empty(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor with undefined contents."""
        if self.recording and (recorder := self.recording.get(threading.get_ident())) is not None:
            return recorder.empty(shape, dtype)
        element = dtypes.dtype(dtype)
        return Tensor(self.allocate(tuple(shape), element), Layout.contiguous(element, shape))

    def tensor(self, array: Any, dtype: Any = None) -> Tensor:
        """A Tensor with the elements of a NumPy array, or of anything NumPy makes one from.

        Arrays keep their dtype; Python floats become f32, integers i64, unless `dtype` says otherwise.
        """
        values = arguments.host_values(array, dtype)
        buffer = self.allocate(values.shape, dtypes.dtype(values.dtype))
        buffer.from_numpy(values)
        return Tensor(buffer, Layout.contiguous(buffer.dtype, values.shape))

    def full(self, shape: Sequence[int], value: bool | int | float, dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor filled with a number."""
        if self.recording and (recorder := self.recording.get(threading.get_ident())) is not None:
            return recorder.full(shape, value, dtype)
        tensor = self.empty(shape, dtype)
        tensor.buffer.fill(value)
        return tensor

    def zeros(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor of ones."""
        return self.full(shape, 1, dtype)

    def from_dlpack(self, source: Any, *, copy: bool | None = None) -> Tensor:
        """A Tensor of another library's array: over its memory where the device can use it, else with one copy.

        Raises InteropError for `copy=False` where a copy is needed, UnsupportedDType.
        """
        if isinstance(source, Tensor) and source.executor is self and not copy:
            return source
        self.check_open()
        found = interchange.from_dlpack(self, source, copy)
        return Tensor(found.buffer, Layout(found.buffer.dtype, found.shape, found.strides, found.offset))

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

    def cache_stats(self) -> CacheStats:
        """How often this process found a kernel for this backend on disk, did not, kept one, or compiled one."""
        return store.shared().stats(self.backend)

    def empty_cache(self) -> None:
        """Hands cached memory back to the device."""
        self.synchronize()
        self.pool.release_cached()

    # Operations.

    def apply(self, operation: Operation, operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Any:
        """New tensors with an operation's results."""
        if self.recording and (recorder := self.recording.get(threading.get_ident())) is not None:
            return recorder.apply(operation, operands, attributes)
        operands = arguments.tensors(self, operation, operands)
        inputs = tuple(o.layout if isinstance(o, Tensor) else o for o in operands)
        key = (operation, tuple(map(self._signature, operands)), *map(exactly, attributes.values()))
        found = self._inferred.get(key)
        if found is None:
            if len(self._inferred) >= MAX_INFERRED:
                self._inferred.clear()
            layouts = operation.infer(inputs, attributes)
            found = tuple(
                (self.kind(sizes(x.shape, operation.name), self._supported(x.dtype)), x) for x in layouts
            )
            self._inferred[key] = found
        outputs = [Tensor(self.new_buffer(kind), layout) for kind, layout in found]
        self.execute(operation, operands, outputs, attributes)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def execute(
        self,
        operation: Operation,
        operands: Sequence[Operand],
        outputs: Sequence[Buffer | Tensor],
        attributes: Mapping[str, Any],
    ) -> None:
        """Computes an operation into given outputs."""
        if self.recording and (recorder := self.recording.get(threading.get_ident())) is not None:
            recorder.refuse(operation)
        key = (
            operation,
            *map(arguments.key, operands),
            *map(arguments.key, outputs),
            *map(exactly, attributes.values()),
        )
        launch = self.launches.get(key)
        if launch is None:
            views, targets = arguments.checked(self, operation, operands, outputs)
            given, views = views, arguments.disjoint(self, operation, views, targets)
            plan = operation.plan(
                [v.layout if isinstance(v, Tensor) else v for v in views],
                [t.layout for t in targets],
                attributes,
                self.limits,
            )
            arguments.check_dtypes(self, operation.name, [*views, *targets])
            copied = any(v is not g for v, g in zip(views, given, strict=True))
            launch = self._prepare(None if copied else key, plan, [*views, *targets])
        launch()

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copies elements, broadcasting and converting; source and target may overlap."""
        if self.recording and (recorder := self.recording.get(threading.get_ident())) is not None:
            recorder.copy(source, target)
            return
        key = ("copy", source.key, target.key)
        launch = self.launches.get(key)
        if launch is None:
            arguments.view(self, "copy", source)
            arguments.target(self, "copy", target)
            if overlaps(source, target):
                source, key = source.clone(), None
            plan = map_form.copy_plan(source.layout, target.layout)
            launch = self._prepare(key, plan, [source, target])
        launch()

    # Programs.

    def run(
        self,
        program: Program | str,
        buffers: Mapping[str, Buffer | Tensor],
        *,
        lanes: int | Sequence[int],
        **scalars: bool | int | float,
    ) -> None:
        """Runs an Atlas program (or its text) once per lane of a grid of size `lanes` (a number, or one per axis).

        Buffers and scalars go by the program's names. Raises ProgramError for a program that breaks a rule,
        UnsupportedDType, ShapeError, BufferFreed.
        """
        program = text.parse_program(program) if isinstance(program, str) else program
        if not isinstance(program, Program):
            raise TypeError(f"run: a Program or its text is needed, got {type(program).__name__}")
        verify.verify(program)
        grid = sizes(lanes, f"{program.name}: lanes")
        if len(grid) != program.rank:
            raise ShapeError(f"{program.name}: its grid has {program.rank} axes, got lanes={lanes}")
        same_names(program.name, "buffers", [b.name for b in program.buffers], buffers)
        same_names(program.name, "scalars", [s.name for s in program.scalars], scalars)
        self.launch(
            program,
            [buffers[b.name] for b in program.buffers],
            [scalars[s.name] for s in program.scalars],
            grid,
        )

    def launch(
        self,
        kernel: Program | Tile,
        buffers: Sequence[Buffer | Tensor],
        scalars: Sequence[bool | int | float] = (),
        grid: Sequence[int] = (1,),
    ) -> None:
        """Launches a kernel on buffers in its order; `grid` in elements for a Program, in workgroups for a Tile."""
        if not isinstance(kernel, (Program, Tile)):
            raise TypeError(f"launch: a Program or Tile is needed, got {type(kernel).__name__}")
        name = kernel.name if isinstance(kernel, Program) else kernel.stem
        tensors, values = arguments.of_kernel(self, kernel, buffers, scalars)
        grid = sizes(grid, f"{name}: grid")
        reduced = kernel.reduced if isinstance(kernel, Program) else 0
        if 0 in grid[: len(grid) - reduced]:  # a row without elements still has its result
            return
        step = Step(kernel, tuple(range(len(tensors))), values, grid)
        key = (kernel, *(t.key for t in tensors), *map(exactly, values), *grid)
        launch = self.launches.get(key)
        if launch is None:
            plan = recognition.chosen(step, [t.buffer for t in tensors], self.limits)
            launch = self._prepare(key, plan, tensors)
        launch()

    # Order and time.

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        self.check_open()
        self.device.synchronize()

    def stream(self) -> Stream:
        """The executor's queue, in which everything runs in order."""
        return Stream(self)

    @functools.cached_property
    def timeline(self) -> Timeline:
        """The clock of the executor's events."""
        return timeline(self.device)

    def event(self) -> Event:
        """A mark to record in the queue, to wait for and to measure time between."""
        return Event(self)

    def profile(self) -> Profile:
        """A context manager that times every launch inside it, by the device's clock if it has one; see Profile."""
        return Profile(self)

    def close(self) -> None:
        """Waits, then releases the device and all its memory; buffers of the executor are freed."""
        with self._lock:
            if self.closed:
                return
            if self._tuner is not None:
                self._tuner.close()
            if self.usable:
                self.device.synchronize()
            self.usable = False
            self.closed = True
            self.bound.clear()
            self._inferred.clear()
            self.pool.close()
            self.device.close()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Executor({self.backend!r}, {self.device.info.name!r}{', closed' if self.closed else ''})"

    # How it is done.

    def _tuned(self, info: DeviceInfo) -> Winners:
        """The choices measured on the device; more are measured in the background where HOLOGRAM_TUNE asks for it."""
        winners = Winners(info)
        if config.tune:
            opened = functools.partial(Executor, self.backend, info.index)
            self._tuner = winners.missed = tuner.Background(opened, weakref.ref(winners))
            weakref.finalize(winners, self._tuner.stop)  # of an executor that nobody closed
        return winners

    def _prepare(self, key: Any, plan: Plan, operands: Sequence[Any]) -> Launch:
        self.check_open()
        return self.bound.prepare(key, plan, [o.buffer if isinstance(o, Tensor) else None for o in operands])

    @staticmethod
    def as_tensor(buffer: Buffer) -> Tensor:
        """The whole buffer as a tensor."""
        return Tensor(buffer, Layout.contiguous(buffer.dtype, buffer.shape))

    def layout_id(self, layout: Layout) -> int:
        """A number that only this layout has."""
        found = self._layout_ids.get(layout)
        if found is None:
            if len(self._layout_ids) >= MAX_LAYOUTS:
                self._layout_ids.clear()  # numbers are never given twice, so that old keys stay true
            found = self._layout_ids.setdefault(layout, next(self._layout_numbers))
        return found

    def _signature(self, operand: Operand) -> Any:
        return self.layout_id(operand.layout) if isinstance(operand, Tensor) else (type(operand), operand)


def from_dlpack(source: Any, executor: Executor, *, copy: bool | None = None) -> Tensor:
    """A Tensor of an executor for another library's array; see Executor.from_dlpack."""
    return executor.from_dlpack(source, copy=copy)
