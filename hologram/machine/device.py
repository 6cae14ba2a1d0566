"""What a backend promises: a Device holds memory and turns programs into kernels; a kernel bound to memory is a launch.

The hot path is the call of a bound launch: everything that does not change between two calls (pipeline, addresses,
packed scalars, group counts) is computed by `bind`, once.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeVar

from hologram.atlas.program import Program
from hologram.foundation.bounded_caches import LRUCache
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.errors import InteropError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits
from hologram.machine.plan import Given, Tile

T = TypeVar("T")
_LOCK = threading.Lock()  # of the prepared launches that devices know

HOST_MEMORY = (1, 0)  # DLPack's kDLCPU, https://dmlc.github.io/dlpack/latest/c_api.html


@frozen
class DeviceInfo:
    """One device of a backend."""

    backend: str
    index: int
    name: str
    driver: str
    limits: Limits
    details: tuple[tuple[str, str], ...] = ()


@frozen(slots=True)
class Binding:
    """Bytes of a memory that a launch binds to one parameter."""

    memory: Any  # the backend's own handle
    offset: int  # bytes, a multiple of 256
    nbytes: int


Launch = Callable[[], Any]
# A launch that is told at the call where its operands lie: a list of places (see Device.place), and of numbers where
# the plan left some open (plan.Given).
Prepared = Callable[[list[Any]], Any]


@frozen(slots=True)
class Area:
    """Bytes that begin `first` bytes behind the place that is argument number `argument`."""

    argument: int
    first: int
    nbytes: int


@frozen
class Call:
    """A step of a plan, compiled: what it is launched with, and where in the arguments its operands lie."""

    kernel: Kernel
    areas: tuple[Area, ...]
    scalars: tuple[Number, ...]
    grid: tuple[int, ...]

    def spans(self, arguments: Sequence[Any]) -> list[Span]:
        """Its operands' memory, as arguments say."""
        return [(arguments[a.argument] + a.first, a.nbytes) for a in self.areas]


Span = tuple[int, int]  # a place, and bytes from there on


@frozen
class Draft:
    """A launch of words, which may be those of other sizes when it is finished; what depends on sizes is in them."""

    words: tuple[int, ...]
    finish: Callable[[Sequence[int]], Prepared]

    def launch(self) -> Prepared:
        """The launch of its own words."""
        return self.finish(self.words)


class Places(Protocol):
    """What knows the memory behind places: an executor's pool."""

    def find(self, place: int) -> tuple[Any, int]:
        """The memory and the offset that a place stands for."""
        ...

    def with_room(self, call: Callable[..., T], *arguments: Any) -> T:
        """Calls what takes memory of the device's; once more with the caches released, where there was no room."""
        ...


class Kernel(ABC):
    """Compiled code."""

    @abstractmethod
    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        """A call without arguments that enqueues the kernel.

        For a Program, `grid` is the size of every axis, in elements; for a Tile, workgroups along x, y and z. The
        launch keeps the memories alive.
        """

    @abstractmethod
    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """The text that a launch over this grid is compiled from; see Device.source."""

    def workgroups(self, grid: Sequence[int]) -> int | None:
        """How many workgroups a launch over this grid takes; None where the device has no such thing."""
        return None

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        """How that launch maps to threads, in a few words, where there is a choice; see bind."""
        return ""


def dtypes_of(kernel: Program | Tile) -> list[DType]:
    """Of a kernel's buffers, in order."""
    if isinstance(kernel, Tile):
        return [dtype for _, dtype, _ in kernel.buffers]
    return [b.dtype for b in kernel.buffers]


def read_by_epilogue(kernel: Program | Tile) -> list[int]:
    """A tile's buffers that only its epilogue reads, which come last, in the order of the epilogue's own."""
    if isinstance(kernel, Program) or kernel.epilogue is None:
        return []
    places = [name for name, _, _ in kernel.buffers]
    return [places.index(b.name) for b in kernel.epilogue.buffers if b.name in places]


def check_bindings(name: str, kernel: Program | Tile, bindings: Sequence[Binding], alignment: int) -> None:
    """Raises ShapeError unless there is a binding for each buffer, aligned and within its memory's `size`."""
    if len(bindings) != len(kernel.buffers):
        raise ShapeError(f"{name} takes {len(kernel.buffers)} buffers, got {len(bindings)}")
    for b in bindings:
        if b.offset % alignment or b.offset + b.nbytes > b.memory.size:
            raise ShapeError(
                f"{name}: a binding must start at a multiple of {alignment} and lie within its memory of "
                f"{b.memory.size} bytes, got {b.nbytes} bytes at {b.offset}"
            )


def check_range(backend: str, memory: Any, offset: int, nbytes: int) -> None:
    """Raises ShapeError for bytes that do not lie in a memory of `size` bytes, of which `nbytes` were asked for."""
    if offset < 0 or nbytes < 0 or offset + nbytes > memory.size:
        raise ShapeError(
            f"{backend}: {nbytes} bytes at {offset} do not lie in a memory of {memory.nbytes} bytes"
        )


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


def nothing() -> None:
    """The launch over an empty grid."""


def in_turn(launches: Sequence[Launch]) -> Launch:
    """A call that calls each."""
    fixed = tuple(launches)

    def run() -> None:
        for launch in fixed:
            launch()

    return fixed[0] if len(fixed) == 1 else run


class Device(ABC):
    """An open device. Methods may be called from any thread.

    What is abstract every device has to have; all else is here as any device can do it, through the host where it must.
    """

    info: DeviceInfo
    # Where consumers of DLPack find the memory: (device type, number) there; elsewhere than on the host, `address` is
    # known.
    dlpack_device: tuple[int, int] = HOST_MEMORY
    # The attribute by which other libraries of a vendor take addresses ("__..._array_interface__", version 3).
    array_interface: ClassVar[str | None] = None

    @property
    def limits(self) -> Limits:
        return self.info.limits

    # Memory.

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """New memory, contents undefined; raises OutOfMemory."""

    def release(self, memory: Any) -> None:
        """Gives memory back; by default it goes with its last reference."""

    @abstractmethod
    def write(self, memory: Any, offset: int, data: memoryview) -> None:
        """Copies host bytes in, ordered after all launches before; `data` may change once this returns."""

    @abstractmethod
    def read(self, memory: Any, offset: int, out: memoryview) -> None:
        """Waits for all launches before, then copies bytes out."""

    def copy(self, source: Any, source_offset: int, target: Any, target_offset: int, nbytes: int) -> None:
        """Copies within the device; ranges of one memory may overlap. Ordered like a launch."""
        data = memoryview(bytearray(nbytes))
        self.read(source, source_offset, data)
        self.write(target, target_offset, data)

    def receive(
        self, sender: Device, source: Any, source_offset: int, target: Any, target_offset: int, nbytes: int
    ) -> bool:
        """Copies from another device's memory past the host, ordered like a launch on both; False: it cannot."""
        return False

    def fill(self, memory: Any, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats `pattern` (1, 2, 4 or 8 bytes) over the range; ordered like a launch."""
        self.write(memory, offset, memoryview(pattern * (nbytes // len(pattern))))

    def host_view(self, memory: Any, offset: int, nbytes: int) -> memoryview | None:
        """The memory itself, writable, where the host can address it; None elsewhere.

        Waits for launches; as long as the view lives, later ones that touch its bytes are done when their call returns.
        """
        return None

    def address(self, memory: Any, offset: int) -> int | None:
        """The address in the device's memory, where other libraries can use one; None elsewhere."""
        return None

    def adopt(self, data: memoryview) -> Any:
        """Memory over bytes of the host, which it keeps alive until it is released; None: the device cannot use them.

        They are writable and aligned to their elements. Raises OutOfMemory.
        """
        return None

    def adopt_address(self, address: int, nbytes: int, owner: Any) -> Any:
        """Memory over bytes of the device that another library lends, from a multiple of Limits.binding_alignment on.

        `owner` is held until it is released and the device is done with it. None: the device has no such memory.
        """
        return None

    # Other libraries' queues on the same device.

    # The number by which other libraries know the queue, where they can, and the method by which those of a vendor ask
    # for it ("__..._stream__": version 0 and the number).
    queue_handle: int | None = None
    queue_interface: ClassVar[str | None] = None

    def follow(self, stream: Any) -> None:
        """Orders what is enqueued from now on behind what a queue of another library holds; raises InteropError."""
        raise InteropError(
            f"{self.info.name} ({self.info.backend}) knows no queues of other libraries, got {stream!r}"
        )

    def lead(self, stream: Any) -> None:
        """Orders what such a queue gets from now on behind all that was enqueued here; raises InteropError."""
        raise InteropError(
            f"{self.info.name} ({self.info.backend}) knows no queues of other libraries, got {stream!r}"
        )

    def follow_users(self, queues: Sequence[Any]) -> None:
        """Orders what is enqueued from now on behind what queues hold that `hand_over` named: some may be no more.

        Where there are no queues of others that is nothing.
        """

    def hand_over(self, stream: Any) -> None:
        """As `lead`, for a consumer of DLPack's; by default by waiting."""
        self.synchronize()

    # Kernels and the queue.

    @abstractmethod
    def compile(self, kernel: Program | Tile) -> Kernel:
        """Compiled code for a program or tile, cached; raises CompileError or UnsupportedDType."""

    def give_up(self, kernel: Program | Tile) -> None:
        """Says that nobody in sight will ask for compiled code of a kernel again: it need not be kept at hand."""

    def source(
        self, kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
    ) -> str:
        """The text that a launch of the kernel over `grid` is compiled from, in the device's language.

        The launch binds whole buffers, apart from one another and as large as it reaches. `scalars` are its numbers,
        where the text depends on them; left out, each counts as 1.
        """
        return self.compile(kernel).source(grid, scalars)

    # Bytes of memory that small blocks share, where telling a launch of another memory costs; 0 where each has its own.
    shared_bytes: ClassVar[int] = 0

    # Dtypes of the scalars that prepared launches may be told at each call (plan.Given).
    told: ClassVar[frozenset[DType]] = frozenset()

    def place(self, memory: Any) -> int | None:
        """The address of a memory's first byte, where launches are told addresses; None: the pool numbers memories."""
        return None

    def prepare(self, calls: Sequence[Call], arguments: Sequence[Any], places: Places) -> Prepared:
        """The calls in order as one launch, for all arguments like these: as large, and apart where these are.

        Threads may call it at once. By default kernels are bound anew to memory that was not met lately.
        """
        made = Rebinding(self, calls, places)
        with _LOCK:
            self._rebinding.add(made)
        return made

    def draft(self, calls: Sequence[Call], arguments: Sequence[Any]) -> Draft | None:
        """As `prepare`, not finished yet; None where a device has no such launches."""
        return None

    @functools.cached_property
    def _rebinding(self) -> weakref.WeakSet[Rebinding]:
        return weakref.WeakSet()

    def forget(self, place: int, nbytes: int) -> None:
        """Lets go of what prepared launches keep of memory that is about to be released."""
        with _LOCK:
            known = tuple(self._rebinding)
        for prepared in known:
            prepared.forget(place, nbytes)

    def sequence(self, launches: Sequence[Launch]) -> Launch:
        """One call for bound launches in order; worth having where it can cost less than a call of each."""
        return in_turn(launches)

    def timeline(self) -> Timeline:
        """A new timeline; by default of the host's clock, which waits for each launch."""
        return HostTimeline(Clock.WAIT, self.synchronize)

    def flush(self) -> None:
        """Hands everything enqueued to the hardware; by default nothing waits to be."""

    def synchronize(self) -> None:
        """Waits until everything enqueued is done; by default it is when a launch's call returns."""

    def close(self) -> None:
        """Gives back what the device holds; it is not used afterwards."""


MAX_BOUND = 64  # sets of memory that one prepared launch is bound to


class Rebinding:
    """Calls that are bound to each set of memory they meet; the last few stay bound."""

    def __init__(self, device: Device, calls: Sequence[Call], places: Places) -> None:
        self._device = device
        self._calls = tuple(calls)
        self._places = places
        self._bound: LRUCache[tuple[Any, ...], Launch] = LRUCache(MAX_BOUND)

    def __call__(self, arguments: list[Any]) -> None:
        # -0.0 is another number than 0.0, and NaN the same as itself. Code, and what a sequence becomes, take memory.
        key = tuple([x if type(x) is int else repr(x) for x in arguments])
        self._bound.get(key, lambda _: self._places.with_room(self._bind, arguments))()

    def forget(self, place: int, nbytes: int) -> None:
        """Drops what is bound to that memory."""
        end = place + nbytes
        self._bound.drop(lambda arguments: any(type(x) is int and place <= x < end for x in arguments))

    def _bind(self, arguments: list[Any]) -> Launch:
        launches = []
        for call in self._calls:
            bindings = [Binding(*self._places.find(place), nbytes) for place, nbytes in call.spans(arguments)]
            scalars = [arguments[x.argument] if type(x) is Given else x for x in call.scalars]
            launches.append(call.kernel.bind(bindings, scalars, call.grid))
        return self._device.sequence(launches)


@frozen
class Probe:
    """What asking a backend gave: its devices, or why there are none and what to do."""

    backend: str
    devices: tuple[DeviceInfo, ...] = ()
    reason: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        return bool(self.devices)


class BackendModule(Protocol):
    """What the package of a backend offers as attributes: a folder of hologram/backends, or an entry point's module.

    It may have DEVICE_FILES as well: patterns of files below /dev, of which Linux has one wherever there is a device
    that is not emulated by software. Where it has none, `auto` passes over the backend without loading its library.
    """

    NAME: str  # the folder's, or the entry point's
    PREFERENCE: int  # `auto` takes the available backend with the lowest; the CPU's is 100

    def probe(self) -> Probe:
        """Asks for devices without side effects; loads the vendor's library, never raises for its absence."""
        ...

    def open_device(self, index: int) -> Device:
        """Opens the device with that index in the probe's list; raises BackendUnavailable."""
        ...

    def source(
        self, kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
    ) -> str:
        """As Device.source, on a reference device of this backend; none has to be here, and none is opened."""
        ...

    def reference_limits(self) -> Limits:
        """What `source` takes a reference device to be capable of."""
        ...
