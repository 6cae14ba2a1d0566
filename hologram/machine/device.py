"""What a backend promises: a Device holds memory and turns programs into kernels; a kernel bound to memory is a launch.

The hot path is the call of a bound launch: everything that does not change between two calls (pipeline, addresses,
packed scalars, group counts) is computed by `bind`, once.
"""

from __future__ import annotations

import functools
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from hologram.atlas.program import Launchable
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import InteropError
from hologram.foundation.frozen import frozen
from hologram.foundation.handles import Handle
from hologram.machine import hand_written
from hologram.machine.kernel import Call, Draft, Kernel, Launch, Places, Prepared, Repetition, in_turn
from hologram.machine.limits import Limits
from hologram.machine.rebinding import Rebinding
from hologram.machine.timeline import Clock, HostTimeline, Timeline

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


class Device(Handle, ABC):
    """An open device. Methods may be called from any thread.

    What is abstract every device has to have; all else is here as any device can do it, through the host where it must.
    """

    _elsewhere = "an Executor opens one; its info says which"
    info: DeviceInfo
    # Where consumers of DLPack find the memory: (device type, number) there; elsewhere than on the host, `address` is
    # known.
    dlpack_device: tuple[int, int] = HOST_MEMORY
    # The attribute by which other libraries of a vendor take addresses ("__..._array_interface__", version 3).
    array_interface: ClassVar[str | None] = None

    @property
    def limits(self) -> Limits:
        return self.info.limits

    def describe(self, info: DeviceInfo) -> None:
        """Replaces what is known of the device, before any kernel is compiled."""
        self.info = info

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

    def fetch(self, memory: Any, offset: int, nbytes: int) -> Callable[[], bytes]:
        """Begins to copy a few bytes out, behind all launches before; a call of what it gives waits for these alone.

        That may be called once, or never.
        """
        apart = self.allocate(nbytes)
        self.copy(memory, offset, apart, 0, nbytes)
        self.flush()

        def fetched() -> bytes:
            data = bytearray(nbytes)
            self.read(apart, 0, memoryview(data))
            self.release(apart)
            return bytes(data)

        return fetched

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

    # What it can compile, and the folder of shaders/ that has its hand-written kernels: limits promise no more.
    compiles: frozenset[DType] = frozenset(dtypes.ALL)
    language: ClassVar[str] = ""

    @property
    def hand_written(self) -> Collection[str]:
        """The stems of the hand-written kernels that it has."""
        return hand_written.stems(self.language) if self.language else ()

    @abstractmethod
    def compile(self, kernel: Launchable) -> Kernel:
        """Compiled code for a program or tile, cached; raises CompileError or UnsupportedDType."""

    def give_up(self, kernel: Launchable) -> None:
        """Says that nobody in sight will ask for compiled code of a kernel again: it need not be kept at hand."""

    def forget_kernels(self) -> None:
        """Keeps no compiled code at hand any more; launches keep what they run."""

    @property
    def compiled(self) -> int:
        """How many kernels were compiled so far, where the device counts them."""
        return 0

    def source(
        self, kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
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
        made = Rebinding(self.sequence, calls, places)
        with _LOCK:
            self._rebinding.add(made)
        return made

    def draft(self, calls: Sequence[Call], arguments: Sequence[Any]) -> Draft | None:
        """As `prepare`, not finished yet; None where a device has no such launches."""
        return None

    def repeat(self, calls: Sequence[Call], arguments: Sequence[Any], again: Repetition) -> Prepared | None:
        """As `prepare`, for a launch that repeats itself; None where a device has no such launches."""
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
