"""Executor: an open device with its memory, its compiled kernels and its cached launches.

The hot path is `launches`: a dictionary from (operation, keys of the operands, attributes) to a call without
arguments. Everything slower (planning, compiling, binding) happens once per such key.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram import dtypes, lazy
from hologram.atlas.program import Access, Program
from hologram.device import Binding, Launch
from hologram.dtypes import DType
from hologram.errors import BackendUnavailable, BufferFreed, OutOfMemory, ShapeError, UnsupportedDType
from hologram.limits import Limits
from hologram.opset.layout import Layout
from hologram.opset.operation import Operation
from hologram.opset.plan import Plan, Step, Tile
from hologram.runtime import interchange, selector
from hologram.runtime.boundary import BoundaryPool
from hologram.runtime.buffer import Buffer
from hologram.runtime.planner import overlaps, spread_rows, storage_bytes
from hologram.runtime.pool import Block, Pool
from hologram.runtime.profile import Profile
from hologram.runtime.stream import Event, Stream
from hologram.tensor import Tensor

if TYPE_CHECKING:
    from hologram.atlas import text, verify
    from hologram.opset import form_map
else:  # needed to compute, not to open
    text, verify = lazy.module("hologram.atlas.text"), lazy.module("hologram.atlas.verify")
    form_map = lazy.module("hologram.opset.form_map")

MAX_LAUNCHES = 8192
Number = bool | int | float
Operand = Buffer | Tensor | Number | None


class Executor:
    """Runs operations on one device. A context manager; any thread may use it.

    `backend` is 'auto', 'cpu', 'webgpu', 'metal' or 'cuda'; `device` a number or part of a device's name. Raises
    BackendUnavailable, with the reason and the remedy, if that cannot be had; nothing falls back silently.
    """

    def __init__(self, backend: str = "auto", device: int | str | None = None) -> None:
        module, index = selector.select(backend, device)
        self.device = module.open_device(index)
        self.backend: str = self.device.info.backend.value
        self.limits: Limits = self.device.limits
        self.pool = Pool(self.device)
        self.boundary = BoundaryPool(self.pool)
        self.launches: dict[Any, Launch] = {}
        self.closed = False
        self._lock = threading.RLock()
        self._inferred: dict[Any, tuple[Layout, ...]] = {}  # layouts of results
        self._layout_ids: dict[Layout, int] = {}
        self._launches_of: dict[int, set[Any]] = {}  # block token -> keys of launches that touch it
        self._profile: Profile | None = None
        self._process = os.getpid()
        self.pool.on_release.append(self._forget)

    # Memory.

    def allocate(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Buffer:
        """A Buffer of a size or shape, contents undefined.

        Raises ShapeError for negative sizes, UnsupportedDType for a dtype the device lacks, OutOfMemory.
        """
        element = self._supported(dtype)
        sizes = _sizes(shape)
        nbytes = math.prod(sizes) * element.itemsize
        self._check_open()
        block = self.boundary.take_any(nbytes) or self.pool.take(storage_bytes(nbytes))
        return Buffer(self, block, sizes, element)

    def allocate_boundary(self, class_: int, pages: int = 1, dtype: Any = dtypes.u8) -> Buffer:
        """A Buffer over `pages` pages of 256 bytes in one of the 96 classes of the boundary pool."""
        element = self._supported(dtype)
        self._check_open()
        block = self.boundary.allocate(class_, pages)
        return Buffer(self, block, (pages * 256 // element.itemsize,), element)

    def empty(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor with undefined contents."""
        element = dtypes.dtype(dtype)
        return Tensor(self.allocate(tuple(shape), element), Layout.contiguous(element, shape))

    def tensor(self, array: Any, dtype: Any = None) -> Tensor:
        """A Tensor with the elements of a NumPy array, or of anything NumPy makes one from.

        Arrays keep their dtype; Python floats become f32, integers i64, unless `dtype` says otherwise.
        """
        if isinstance(array, Tensor):
            array = array.to_numpy()
        known = isinstance(array, (np.ndarray, np.generic)) or hasattr(array, "__array__")
        values = np.asarray(array)
        if dtype is not None:
            values = values.astype(dtypes.dtype(dtype).numpy, copy=False)
        elif not known and values.dtype == np.float64:
            values = values.astype(np.float32)
        buffer = self.allocate(values.shape, dtypes.dtype(values.dtype))
        buffer.from_numpy(values)
        return Tensor(buffer, Layout.contiguous(buffer.dtype, values.shape))

    def full(self, shape: Sequence[int], value: bool | int | float, dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor filled with a number."""
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

    def empty_cache(self) -> None:
        """Hands cached memory back to the device."""
        self.synchronize()
        self.pool.release_cached()

    # Operations.

    def apply(self, operation: Operation, operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Any:
        """New tensors with an operation's results."""
        operands = self._tensors(operation, operands)
        inputs = tuple(o.layout if isinstance(o, Tensor) else o for o in operands)
        key = (operation, tuple(map(self._signature, operands)), *map(_hashable, attributes.values()))
        layouts = self._inferred.get(key)
        if layouts is None:
            if len(self._inferred) >= MAX_LAUNCHES:
                self._inferred.clear()
            layouts = self._inferred[key] = operation.infer(inputs, attributes)
        outputs = [Tensor(self.allocate(layout.shape, layout.dtype), layout) for layout in layouts]
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
        key = (operation, *map(_key, operands), *map(_key, outputs), *map(_hashable, attributes.values()))
        launch = self.launches.get(key)
        if launch is None:
            views = [self._view(operation.name, o) for o in operands]
            targets = [self._target(operation.name, o) for o in outputs]
            given, views = views, self._disjoint(operation, views, targets)
            plan = operation.plan(
                [v.layout if isinstance(v, Tensor) else v for v in views],
                [t.layout for t in targets],
                attributes,
                self.limits,
            )
            self._check_plan_dtypes(operation.name, [*views, *targets])
            copied = any(v is not g for v, g in zip(views, given, strict=True))
            launch = self._prepare(None if copied else key, plan, [*views, *targets])
        launch()

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copies elements, broadcasting and converting; source and target may overlap."""
        key = ("copy", source.key, target.key)
        launch = self.launches.get(key)
        if launch is None:
            self._view("copy", source)
            self._target("copy", target)
            if overlaps(source, target):
                source, key = source.clone(), None
            plan = form_map.copy_plan(source.layout, target.layout)
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
        verify.verify(program)
        grid = _sizes(lanes)
        if len(grid) != program.rank:
            raise ShapeError(f"{program.name}: its grid has {program.rank} axes, got lanes={lanes}")
        _same_names(program.name, "buffers", [b.name for b in program.buffers], buffers)
        _same_names(program.name, "scalars", [s.name for s in program.scalars], scalars)
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
        name = kernel.name if isinstance(kernel, Program) else kernel.stem
        parameters = (
            [(b.name, b.dtype, b.access.value) for b in kernel.buffers]
            if isinstance(kernel, Program)
            else kernel.buffers
        )
        if len(parameters) != len(buffers) or len(kernel.scalars) != len(scalars):
            raise ShapeError(
                f"{name}: takes {len(parameters)} buffers and {len(kernel.scalars)} scalars, "
                f"got {len(buffers)} and {len(scalars)}"
            )
        tensors = []
        for (parameter, dtype, access), buffer in zip(parameters, buffers, strict=True):
            tensor = self._view(f"{name}, {parameter}", buffer)
            if access != Access.READ.value:
                self._target(f"{name}, {parameter}", buffer)
            if tensor.dtype != dtype:
                raise UnsupportedDType(f"{name}: buffer {parameter} must be {dtype}, got {tensor.dtype}")
            tensors.append(tensor)
        reduced = kernel.reduced if isinstance(kernel, Program) else 0
        if 0 in grid[: len(grid) - reduced]:  # a row without elements still has its result
            return
        step = Step(kernel, tuple(range(len(tensors))), tuple(scalars), tuple(grid))
        key = (kernel, *(t.key for t in tensors), *scalars, *grid)
        (self.launches.get(key) or self._prepare(key, Plan((step,)), tensors))()

    # Order and time.

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        self._check_open()
        self.device.synchronize()

    def stream(self) -> Stream:
        """The executor's queue, in which everything runs in order."""
        return Stream(self)

    def event(self) -> Event:
        """A mark to record in the queue, to wait for and to measure time between."""
        return Event(self)

    def profile(self) -> Profile:
        """A context manager that times every launch inside it; see Profile."""
        return Profile(self)

    def close(self) -> None:
        """Waits, then releases the device and all its memory; buffers of the executor are freed."""
        with self._lock:
            if self.closed:
                return
            if os.getpid() == self._process:
                self.device.synchronize()
            self.closed = True
            self.launches.clear()
            self._launches_of.clear()
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

    def set_profile(self, profile: Profile | None) -> None:
        """Starts or ends the timing of launches; those cached so far are bound anew."""
        with self._lock:
            self._profile = profile
            self.launches.clear()
            self._launches_of.clear()

    @staticmethod
    def as_tensor(buffer: Buffer) -> Tensor:
        """The whole buffer as a tensor."""
        return Tensor(buffer, Layout.contiguous(buffer.dtype, buffer.shape))

    def layout_id(self, layout: Layout) -> int:
        """A small number for a layout; equal layouts have one number."""
        return self._layout_ids.setdefault(layout, len(self._layout_ids))

    def _signature(self, operand: Operand) -> Any:
        return self.layout_id(operand.layout) if isinstance(operand, Tensor) else (type(operand), operand)

    def _supported(self, dtype: Any) -> DType:
        element = dtypes.dtype(dtype)
        if element not in self.limits.dtypes:
            raise UnsupportedDType(f"{self.backend} ({self.device.info.name}) has no {element}")
        return element

    def _check_open(self) -> None:
        if self.closed:
            raise BufferFreed("the executor is closed")
        if os.getpid() != self._process:
            raise BackendUnavailable("an executor cannot be used in a forked process: open a new one there")

    def _tensors(
        self, operation: Operation, operands: Sequence[Operand]
    ) -> tuple[Tensor | Number | None, ...]:
        """Operands with NumPy arrays and buffers made tensors."""
        found: list[Tensor | Number | None] = []
        for name, operand in zip(operation.operand_names(len(operands)), operands, strict=True):
            if isinstance(operand, Buffer):
                operand = self.as_tensor(operand)
            elif isinstance(operand, np.generic):
                operand = operand.item()
            elif isinstance(operand, (np.ndarray, list, tuple)):
                operand = self.tensor(operand)
            elif operand is not None and not isinstance(operand, (Tensor, bool, int, float)):
                raise TypeError(
                    f"{operation.name}: {name} must be a Tensor or a number, got {type(operand).__name__}"
                )
            if operand is None and name not in operation.optional:
                raise TypeError(f"{operation.name}: {name} must be a Tensor or a number, got None")
            found.append(operand)
        return tuple(found)

    def _view(self, who: str, operand: Any) -> Any:
        """A buffer as a tensor, after the checks that every use needs; numbers as they are."""
        if isinstance(operand, Buffer):
            operand = self.as_tensor(operand)
        if not isinstance(operand, Tensor):
            if operand is None or isinstance(operand, (bool, int, float)):
                return operand
            if isinstance(operand, np.generic):
                return operand.item()
            raise TypeError(f"{who}: a Buffer, Tensor or number is needed, got {type(operand).__name__}")
        if operand.executor is not self:
            raise ShapeError(f"{who}: operands must belong to {self}, got one of {operand.executor}")
        if operand.key is None:
            self._check_open()
            raise BufferFreed(f"{who}: an operand's buffer was freed")
        low, high = operand.layout.span
        if low < 0 or high > operand.buffer.size:
            raise ShapeError(
                f"{who}: a layout reaches [{low}, {high}) of a buffer of {operand.buffer.size} elements"
            )
        return operand

    def _target(self, who: str, output: Any) -> Tensor:
        tensor = self._view(who, output)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{who}: an output must be a Buffer or Tensor, got {type(output).__name__}")
        layout = tensor.layout
        if any(s == 0 and n > 1 for s, n in zip(layout.strides, layout.shape, strict=True)):
            raise ShapeError(f"{who}: an output cannot be an expanded view, whose elements share memory")
        return tensor

    def _disjoint(self, operation: Operation, views: list[Any], targets: list[Tensor]) -> list[Any]:
        """Inputs, copied where they lie in an output's memory and the operation cannot work in place there."""
        return [
            v.clone()
            if isinstance(v, Tensor)
            and any(
                overlaps(v, t) and not (operation.in_place and v.layout == t.layout and v.key == t.key)
                for t in targets
            )
            else v
            for v in views
        ]

    def _check_plan_dtypes(self, who: str, operands: Sequence[Any]) -> None:
        for operand in operands:
            if isinstance(operand, Tensor) and operand.dtype not in self.limits.dtypes:
                raise UnsupportedDType(
                    f"{who}: {self.backend} ({self.device.info.name}) has no {operand.dtype}"
                )

    def _prepare(self, key: Any, plan: Plan, operands: Sequence[Any]) -> Launch:
        """A launch of a plan on operands, cached under `key` unless that is None."""
        self._check_open()
        plan = spread_rows(plan, self.limits)
        tensors = [o for o in operands if isinstance(o, Tensor)]
        if plan.scratch:
            launch = self._with_scratch(plan, operands)
        else:
            launch = self._bind(plan, operands)
        if key is not None:
            with self._lock:
                if len(self.launches) >= MAX_LAUNCHES:
                    self.launches.clear()
                    self._launches_of.clear()
                self.launches[key] = launch
                for tensor in tensors:
                    self._launches_of.setdefault(tensor.buffer.live_block().token, set()).add(key)
        return launch

    def _bind(self, plan: Plan, operands: Sequence[Any]) -> Launch:
        """Every step's kernel, bound."""
        launches = []
        for step in plan.steps:
            kernel = self.device.compile(step.kernel)
            bindings = [_binding(operands[k]) for k in step.operands]
            launch = kernel.bind(bindings, step.scalars, step.grid)
            launches.append(self._profile.timed(step, launch) if self._profile else launch)
        if len(launches) == 1:
            return launches[0]
        return _sequence(tuple(launches))

    def _with_scratch(self, plan: Plan, operands: Sequence[Any]) -> Launch:
        """Scratch memory is taken for each call and given back at once: later work in the queue may reuse it."""
        bound: dict[tuple[int, ...], Launch] = {}

        def launch() -> None:
            blocks = [self.pool.take(storage_bytes(s.size * s.dtype.itemsize)) for s in plan.scratch]
            tokens = tuple(b.token for b in blocks)
            call = bound.get(tokens)
            if call is None:
                if len(bound) >= 8:
                    bound.clear()
                call = bound[tokens] = self._bind(plan, [*operands, *blocks])
            call()
            for block in blocks:
                self.pool.give(block)

        return launch

    def _forget(self, block: Block) -> None:
        """Drops the launches that touch a block which goes back to the device."""
        with self._lock:
            for key in self._launches_of.pop(block.token, ()):
                self.launches.pop(key, None)


def _key(operand: Any) -> Any:
    """What stands for an operand in the key of a launch: numbers with their type, for 1, 1.0 and True are equal."""
    if isinstance(operand, (Buffer, Tensor)):
        return operand.key
    if operand is None or isinstance(operand, (bool, int, float, np.generic)):
        return (type(operand), operand)
    raise TypeError(f"operands must be Buffers, Tensors or numbers, got {type(operand).__name__}")


def _binding(operand: Tensor | Block) -> Binding:
    if isinstance(operand, Block):
        return Binding(operand.memory, operand.offset, operand.nbytes)
    block = operand.buffer.live_block()
    return Binding(block.memory, block.offset, min(storage_bytes(operand.buffer.nbytes), block.nbytes))


def _sequence(launches: tuple[Launch, ...]) -> Launch:
    def run() -> None:
        for launch in launches:
            launch()

    return run


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for n in sizes:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise TypeError(f"allocate: sizes must be integers, got {shape!r}")
        if n < 0:
            raise ShapeError(f"allocate: sizes must not be negative, got {shape}")
    if math.prod(sizes) >= 1 << 63:
        raise OutOfMemory(f"allocate: {shape} has more elements than any memory")
    return tuple(int(n) for n in sizes)


def _same_names(who: str, what: str, wanted: Sequence[str], given: Mapping[str, Any]) -> None:
    if set(wanted) != set(given):
        raise ShapeError(
            f"{who}: {what} must be {', '.join(wanted) or 'none'}, got {', '.join(given) or 'none'}"
        )


def from_dlpack(source: Any, executor: Executor, *, copy: bool | None = None) -> Tensor:
    """A Tensor of an executor for another library's array; see Executor.from_dlpack."""
    return executor.from_dlpack(source, copy=copy)
