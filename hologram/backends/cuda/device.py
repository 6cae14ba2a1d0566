"""An open CUDA device: memory, kernels, and the stream that orders them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hologram.atlas.program import Launchable
from hologram.backends.cuda import foreign
from hologram.backends.cuda.compiler import Compiler
from hologram.backends.cuda.context import Context
from hologram.backends.cuda.kernel import CudaKernel, KernelContext, launcher
from hologram.backends.cuda.launches.graph import sequence
from hologram.backends.cuda.launches.told import Told, slots_of
from hologram.backends.cuda.memory import WORD, Memory, Transfers
from hologram.backends.cuda.staging import FETCHED_BYTES
from hologram.backends.cuda.timeline import EventTimeline
from hologram.backends.cuda.vendor import Vendor, VendorKernel
from hologram.compiled import byte_programs
from hologram.compiled.device import CompilingDevice
from hologram.compiled.told import prepared
from hologram.foundation.dtypes import f32
from hologram.machine import hand_written
from hologram.machine.device import Device, DeviceInfo
from hologram.machine.kernel import Binding, Call, Kernel, Launch, Places, Prepared, check_range
from hologram.machine.plan import Tile
from hologram.machine.timeline import Timeline
from hologram.opset.tiles.product_library import LIBRARY

DLPACK_CUDA = 2  # kDLCUDA


class CudaDevice(CompilingDevice[Kernel]):
    """See hologram.machine.device.Device."""

    language = "cuda"
    array_interface = "__cuda_array_interface__"
    queue_interface = "__cuda_stream__"
    told = frozenset({f32})

    def __init__(
        self, info: DeviceInfo, context: Context, compiler: Compiler, vendor_library: Any = None
    ) -> None:
        super().__init__(info)
        self.dlpack_device = (DLPACK_CUDA, int(context.device))
        self.queue_handle = int(context.stream)
        self.context = context
        self.transfers = Transfers(context, info.limits.max_buffer_bytes)
        self.kernel_context = KernelContext(context, compiler, info.limits, launcher(context))
        self.vendor = vendor_library and Vendor(context, vendor_library, self.transfers.allocate)

    # Memory.

    def allocate(self, nbytes: int) -> Memory:
        """New memory; raises OutOfMemory."""
        with self.context.lock:
            return self.transfers.allocate(nbytes)

    def release(self, memory: Memory) -> None:
        """Frees the memory once the device is done with it; launches bound to it must not be called again."""
        self.transfers.release(memory)

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        """Copies host bytes in, at any offset and of any length, after all launches before."""
        data = data.cast("B")
        if len(data):
            check_range(self.info.backend, memory, offset, len(data))
            self.transfers.write(memory, offset, data)

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        """Waits for all launches before, then copies bytes out, from any offset and of any length."""
        out = out.cast("B")
        if len(out):
            check_range(self.info.backend, memory, offset, len(out))
            self.transfers.read(memory, offset, out)
            self.context.tidy()

    def fetch(self, memory: Memory, offset: int, nbytes: int) -> Callable[[], bytes]:
        """See hologram.machine.device.Device: what it gives waits for an event."""
        if not 0 < nbytes <= FETCHED_BYTES:
            return super().fetch(memory, offset, nbytes)
        check_range(self.info.backend, memory, offset, nbytes)
        return self.transfers.fetch(memory, offset, nbytes)

    def copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        """Copies within the device, any bytes; ranges of one memory may overlap, as with memmove."""
        if nbytes:
            check_range(self.info.backend, source, source_offset, nbytes)
            check_range(self.info.backend, target, target_offset, nbytes)
            with self.context.lock:
                self.transfers.copy(source, source_offset, target, target_offset, nbytes)

    def receive(
        self,
        sender: Device,
        source: Memory,
        source_offset: int,
        target: Memory,
        target_offset: int,
        nbytes: int,
    ) -> bool:
        """From a device of the same driver: by the driver's own way, past the host where the cards reach each other."""
        if not isinstance(sender, CudaDevice) or sender.context.library is not self.context.library:
            return False
        check_range(self.info.backend, source, source_offset, nbytes)
        check_range(self.info.backend, target, target_offset, nbytes)
        ours, theirs = self.context, sender.context
        for one, other in ((self, sender), (sender, self)):
            with one.context.lock:
                one.transfers.reach(other.transfers)
        foreign.wait_between(theirs, ours)
        to, from_ = target.address + target_offset, source.address + source_offset
        copy = ours.driver.cuMemcpyPeerAsync
        ours.call(copy, to, ours.handle, from_, theirs.handle, nbytes, ours.stream)
        foreign.wait_between(ours, theirs)  # what comes there may write, or free, what is read here
        return True

    def fill(self, memory: Memory, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats 1, 2, 4 or 8 bytes over a range that begins at a multiple of as many."""
        if not nbytes:
            return
        check_range(self.info.backend, memory, offset, nbytes)
        while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
            pattern = pattern[: len(pattern) // 2]
        if len(pattern) > WORD:  # which the driver does not set
            ahead = offset % self.limits.binding_alignment
            part = (Binding(memory, offset - ahead, ahead + nbytes),)
            value, size = int.from_bytes(pattern, "little"), len(pattern)
            kernel = self.compile(byte_programs.fill_program(size))
            kernel.bind(part, (ahead // size, value), (nbytes // size,))()
            return
        with self.context.lock:
            self.transfers.fill(memory, offset, nbytes, pattern)

    def address(self, memory: Memory, offset: int) -> int:
        return memory.address + offset

    def adopt_address(self, address: int, nbytes: int, owner: Any) -> Memory:
        """See hologram.machine.device.Device; raises InteropError for memory of another device."""
        with self.context.lock:
            foreign.require_here(self.context, address)
            memory = self.transfers.adopt(address, nbytes, owner)
        self.transfers.let_go()
        return memory

    # Streams of other libraries.

    def follow(self, stream: Any) -> None:
        """See hologram.machine.device.Device; the stream as foreign.stream_of takes it."""
        foreign.follow(self.context, stream)

    def lead(self, stream: Any) -> None:
        """See hologram.machine.device.Device."""
        foreign.lead(self.context, stream)

    def follow_users(self, queues: Sequence[Any]) -> None:
        """See hologram.machine.device.Device."""
        foreign.follow_users(self.context, queues)

    def hand_over(self, stream: Any) -> None:
        """DLPack's None is the default stream."""
        foreign.lead(self.context, stream)

    # Kernels and the stream.

    def check(self) -> None:
        """Raises why the device cannot be used any more."""
        self.context.check()

    @property
    def hand_written(self) -> frozenset[str]:
        return hand_written.stems(self.language) | ({LIBRARY.stem} if self.vendor else set())

    def make(self, kernel: Launchable) -> Kernel:
        """See CompilingDevice."""
        if isinstance(kernel, Tile) and kernel.stem == LIBRARY.stem:
            return VendorKernel(kernel, self.vendor, self.info.limits, self.compile)
        return CudaKernel(kernel, self.kernel_context)

    def place(self, memory: Memory) -> int:
        return memory.address

    def prepare(self, calls: Sequence[Call], arguments: Sequence[Any], places: Places) -> Prepared:
        """See Device: kernels are told addresses. What cannot be told is bound to them, and so are long sequences."""
        bind = super().prepare
        return places.with_room(
            prepared,
            calls,
            lambda call: slots_of(call, arguments, places),
            lambda slots: Told(self.context, slots),
            lambda some: bind(some, arguments, places),
        )

    def sequence(self, launches: Sequence[Launch]) -> Launch:
        """One call for launches in order; see hologram.machine.device.Device."""
        return sequence(self.context, launches)

    def timeline(self) -> Timeline:
        """A new timeline; see hologram.machine.device."""
        return EventTimeline(self.context)

    def flush(self) -> None:
        self.context.check()  # the driver sends each launch on its way at once
        self.context.tidy()

    def synchronize(self) -> None:
        self.transfers.free_released(wait=True)
        self.context.synchronize()
        with self.context.lock:
            self.transfers.settle()
        self.transfers.let_go()

    def close(self) -> None:
        """Waits for what was enqueued, and gives everything back; later calls raise DeviceLost."""
        with self.context.transferring, self.context.lock:
            try:
                if self.context.unusable is None:
                    self.context.synchronize()  # raises what is wrong with the work that waits
            finally:
                super().close()
                self.context.close()
        self.transfers.let_go()
