"""An open Metal device: memory, kernels and the queue, behind one lock."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.atlas.program import Launchable
from hologram.backends.metal import reference
from hologram.backends.metal.kernel import KernelContext, MetalKernel, appender, sequence
from hologram.backends.metal.memory import Heap, Memory, view
from hologram.backends.metal.pipeline import Pipelines
from hologram.backends.metal.queue import Queue
from hologram.backends.metal.timeline import BatchTimeline
from hologram.backends.metal.told import Told, slots_of
from hologram.compiled import byte_programs
from hologram.compiled.device import CompilingDevice
from hologram.compiled.told import prepared
from hologram.foundation import forks
from hologram.foundation.dtypes import f32
from hologram.foundation.errors import DeviceLost
from hologram.machine.device import DeviceInfo
from hologram.machine.kernel import Binding, Call, Launch, Places, Prepared, check_range
from hologram.machine.limits import ALIGNMENT
from hologram.machine.timeline import Timeline

BLIT_WORD = 4  # macOS's own copies are of whole words


class MetalDevice(CompilingDevice[MetalKernel]):
    """See hologram.machine.device.Device."""

    compiles = reference.LIMITS.dtypes
    language = "msl"
    told = frozenset({f32})

    def __init__(self, info: DeviceInfo, queue: Queue) -> None:
        super().__init__(info)
        self.queue = queue
        self.heap = Heap(queue, info.limits.max_buffer_bytes)
        self.kernel_context = KernelContext(queue, Pipelines(queue), info.limits, appender(queue))
        forks.watch(queue)
        # Of a device that nobody closed the GPU may still use all that a batch holds; at exit as well.
        weakref.finalize(self, queue.close, self._closed())

    # Memory.

    def allocate(self, nbytes: int) -> Memory:
        """New memory; raises OutOfMemory."""
        with self.queue.lock:
            self.queue.check_usable()  # not what failed before: who allocates would take it for want of room
            return self.heap.allocate(nbytes)

    def adopt(self, data: memoryview) -> Memory | None:
        """Memory over the host's own pages, whose launches are waited for; raises OutOfMemory."""
        with self.queue.lock:
            self.queue.check_usable()
            return self.heap.adopt(data)

    def release(self, memory: Memory) -> None:
        """Lets go of the memory, which the GPU may still use; launches bound to it must not be called again."""
        memory.buffer = memory.owner = None

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        """Copies host bytes in, at any offset and of any length, after all launches before that use the memory."""
        source = np.frombuffer(data, np.uint8)
        if source.size:
            self._settled(memory, offset, source.size)
            ctypes.memmove(memory.address + offset, source.ctypes.data, source.size)

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        """Waits for the launches that use the memory, then copies bytes out, from any offset and of any length."""
        target = np.frombuffer(out, np.uint8)
        if target.size:
            self._settled(memory, offset, target.size)
            ctypes.memmove(target.ctypes.data, memory.address + offset, target.size)

    def host_view(self, memory: Memory, offset: int, nbytes: int) -> memoryview:
        """The memory itself; waits for the launches that use it, as each that comes later does: see kernel.appender."""
        check_range(self.info.backend, memory, offset, nbytes)
        seen = view(
            self.queue, memory, offset, nbytes
        )  # what another thread enqueues from here on is waited for
        self._settled(memory, offset, nbytes)
        return seen

    def copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        """Copies within the device, any bytes; ranges of one memory may overlap, as with memmove."""
        if not nbytes:
            return
        check_range(self.info.backend, source, source_offset, nbytes)
        check_range(self.info.backend, target, target_offset, nbytes)
        if abs(source.address + source_offset - target.address - target_offset) < nbytes:
            scratch = self.allocate(nbytes)
            self._copy(source, source_offset, scratch, 0, nbytes)
            source, source_offset = scratch, 0
        self._copy(source, source_offset, target, target_offset, nbytes)

    def _copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        """Under no lock: a kernel may have to be compiled, and the batch awaited."""
        if not (source_offset | target_offset | nbytes) % BLIT_WORD:
            self._blit(source, source_offset, target, target_offset, nbytes)
            return
        size = byte_programs.word(source_offset, target_offset, nbytes)
        from_, first_ = (o % ALIGNMENT // size for o in (source_offset, target_offset))
        bindings = (_part(source, source_offset, nbytes), _part(target, target_offset, nbytes))
        self.compile(byte_programs.copy_program(size)).bind(bindings, (from_, first_), (nbytes // size,))()

    def _blit(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        queue = self.queue
        with queue.lock:
            seen = source.seen(source_offset, nbytes) or target.seen(target_offset, nbytes)
            encoder, batch = queue.blits(), queue.open()
            batch.held.append((source.live, target.live, source.owner, target.owner))
            encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
                source.live, source_offset, target.live, target_offset, nbytes
            )
            source.serial = target.serial = batch.serial
            batch.count += 1
            if not seen:
                queue.flush_full()
        if seen:
            queue.wait(batch.serial)  # see kernel.appender

    def fill(self, memory: Memory, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats 1, 2, 4 or 8 bytes over any range that begins at a multiple of as many."""
        if not nbytes:
            return
        check_range(self.info.backend, memory, offset, nbytes)
        wide = max(byte_programs.word(offset, nbytes), len(pattern))
        value = int.from_bytes(pattern * (wide // len(pattern)), "little")
        part = (_part(memory, offset, nbytes),)
        self.compile(byte_programs.fill_program(wide)).bind(
            part, (offset % ALIGNMENT // wide, value), (nbytes // wide,)
        )()

    def _settled(self, memory: Memory, offset: int, nbytes: int) -> None:
        check_range(self.info.backend, memory, offset, nbytes)
        with self.queue.lock:
            self.queue.check()
            serial, waits = memory.serial, memory.live is not None and memory.serial > self.queue.done
        if waits:
            self.queue.wait(serial)

    # Kernels and the queue.

    def check(self) -> None:
        """Raises why the device cannot be used any more."""
        self.queue.check()

    def make(self, kernel: Launchable) -> MetalKernel:
        """See CompilingDevice."""
        return MetalKernel(kernel, self.kernel_context)

    def prepare(self, calls: Sequence[Call], arguments: Sequence[Any], places: Places) -> Prepared:
        """See Device: dispatches are told what they bind."""
        bind = super().prepare
        return places.with_room(
            prepared,
            calls,
            lambda call: slots_of(call, arguments, places),
            lambda slots: Told(self.kernel_context, slots, places),
            lambda some: bind(some, arguments, places),
        )

    def sequence(self, launches: Sequence[Launch]) -> Launch:
        """One call for launches in order; see hologram.machine.device.Device."""
        return sequence(self.kernel_context, launches)

    def timeline(self) -> Timeline:
        """A new timeline; see hologram.machine.device."""
        return BatchTimeline(self.queue)

    def flush(self) -> None:
        self.queue.flush()

    def synchronize(self) -> None:
        self.queue.wait()

    def close(self) -> None:
        """Waits for what was enqueued; later calls raise DeviceLost."""
        self.queue.close(self._closed())
        super().close()

    def _closed(self) -> DeviceLost:
        return DeviceLost(f"{self.queue.backend}: the device {self.info.name} was closed")


def _part(memory: Memory, offset: int, nbytes: int) -> Binding:
    """The memory from an aligned start to the last byte."""
    start = offset // ALIGNMENT * ALIGNMENT
    return Binding(memory, start, offset + nbytes - start)
