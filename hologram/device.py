"""What a backend promises: a Device holds memory and turns programs into kernels; a kernel bound to memory is a launch.

The hot path is the call of a bound launch: everything that does not change between two calls (pipeline, addresses,
packed scalars, group counts) is computed by `bind`, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from hologram.atlas.program import Program
from hologram.limits import Limits
from hologram.plan import Tile

MAX_KERNELS = 512  # that a device keeps at hand; launches keep those that they run


class BackendType(str, Enum):
    CPU = "cpu"
    WEBGPU = "webgpu"
    METAL = "metal"
    CUDA = "cuda"


@dataclass(frozen=True)
class DeviceInfo:
    """One device of a backend."""

    backend: BackendType
    index: int
    name: str
    driver: str
    limits: Limits
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """Bytes of a memory that a launch binds to one parameter."""

    memory: Any  # the backend's own handle
    offset: int  # bytes, a multiple of 256
    nbytes: int


Launch = Callable[[], Any]


class Kernel(Protocol):
    """Compiled code."""

    def bind(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Launch:
        """A call without arguments that enqueues the kernel.

        For a Program, `grid` is the size of every axis, in elements; for a Tile, workgroups along x, y and z. The
        launch keeps the memories alive.
        """
        ...

    def workgroups(self, grid: Sequence[int]) -> int | None:
        """How many workgroups a launch over this grid takes; None where the device has no such thing."""
        ...

    def source(self, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
        """The text that a launch over this grid is compiled from; see Device.source."""
        ...


class Clock(Enum):
    """What measures launches; the value says it in words."""

    DEVICE = "timestamps that the device writes"
    CALL = "the host's clock around each call, which is when the launch runs"
    WAIT = "the host's clock, waiting for each launch"


Mark = Any  # a place in a device's queue; each timeline has its own


class Timeline(Protocol):
    """Takes the time of places in a device's queue. Methods may be called from any thread."""

    clock: Clock

    def mark(self) -> Mark:
        """A mark behind everything enqueued so far."""
        ...

    def around(self, launch: Launch) -> tuple[Mark, Mark]:
        """Calls the launch; the marks right before and right behind it."""
        ...

    def times(self, marks: Sequence[Mark]) -> list[int]:
        """When the device passed the marks, in nanoseconds of time.perf_counter_ns; waits until it has."""
        ...


class HostTimeline:
    """The host's clock. `wait` is called before each look at it, so that the work before a mark is done."""

    def __init__(self, clock: Clock, wait: Callable[[], None]) -> None:
        self.clock = clock
        self._wait = wait

    def mark(self) -> Mark:
        self._wait()
        return time.perf_counter_ns()

    def around(self, launch: Launch) -> tuple[Mark, Mark]:
        start = self.mark()
        launch()
        return start, self.mark()

    def times(self, marks: Sequence[Mark]) -> list[int]:
        return list(marks)


def timeline(device: Device) -> Timeline:
    """A new timeline of the device's own clock; of the host's, for a device whose class has no `timeline()`."""
    own = getattr(device, "timeline", None)
    return HostTimeline(Clock.WAIT, device.synchronize) if own is None else own()


def sequence(device: Device, launches: Sequence[Launch]) -> Launch:
    """One call for launches in order; for a device whose class has no `sequence()`, one that calls each."""
    if len(launches) == 1:
        return launches[0]
    own = getattr(device, "sequence", None)
    return in_turn(launches) if own is None else own(launches)


def in_turn(launches: Sequence[Launch]) -> Launch:
    """A call that calls each."""
    fixed = tuple(launches)

    def run() -> None:
        for launch in fixed:
            launch()

    return fixed[0] if len(fixed) == 1 else run


class Device(Protocol):
    """An open device. Methods may be called from any thread.

    A device that can do better than wait for each launch to time it has a method `timeline()` as well: a new
    Timeline, whose marks do not wait. One that can run several bound launches with less Python than calling each has
    a method `sequence(launches)`, a Launch.
    """

    info: DeviceInfo

    @property
    def limits(self) -> Limits: ...

    def allocate(self, nbytes: int) -> Any:
        """New memory, contents undefined; raises OutOfMemory."""
        ...

    def release(self, memory: Any) -> None: ...

    def write(self, memory: Any, offset: int, data: memoryview) -> None:
        """Copies host bytes in, ordered after all launches before; `data` may change once this returns."""
        ...

    def read(self, memory: Any, offset: int, out: memoryview) -> None:
        """Waits for all launches before, then copies bytes out."""
        ...

    def copy(self, source: Any, source_offset: int, target: Any, target_offset: int, nbytes: int) -> None: ...

    def fill(self, memory: Any, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats `pattern` (1, 2, 4 or 8 bytes) over the range; ordered like a launch."""
        ...

    def host_view(self, memory: Any, offset: int, nbytes: int) -> memoryview | None:
        """The memory itself, writable, where the host can address it; None elsewhere. Waits for launches."""
        ...

    def compile(self, kernel: Program | Tile) -> Kernel:
        """Compiled code for a program or tile, cached; raises CompileError or UnsupportedDType."""
        ...

    def source(
        self, kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
    ) -> str:
        """The text that a launch of the kernel over `grid` is compiled from, in the device's language.

        The launch binds whole buffers, apart from one another and as large as it reaches. `scalars` are its numbers,
        where the text depends on them; left out, each counts as 1.
        """
        ...

    def flush(self) -> None:
        """Hands everything enqueued to the hardware."""
        ...

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Probe:
    """What asking a backend gave: its devices, or why there are none and what to do."""

    backend: BackendType
    devices: tuple[DeviceInfo, ...] = ()
    reason: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def available(self) -> bool:
        return bool(self.devices)


class Backend(Protocol):
    """What `hologram/backends/<name>/__init__.py` must offer as module attributes."""

    TYPE: BackendType
    PREFERENCE: int  # `auto` takes the available backend with the lowest; may be absent: 50

    def probe(self) -> Probe:
        """Asks for devices without side effects; loads the vendor's library, never raises for its absence."""
        ...

    def open_device(self, index: int) -> Device:
        """Opens the device with that index in the probe's list; raises BackendUnavailable."""
        ...

    def source(
        self, kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
    ) -> str:
        """As Device.source, on a usual device of this backend; none has to be here, and none is opened."""
        ...

    def usual_limits(self) -> Limits:
        """What `source` takes a usual device to be capable of."""
        ...
