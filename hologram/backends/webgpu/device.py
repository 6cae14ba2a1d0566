"""An open WebGPU device: memory, kernels and the queue, behind one lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.program import Launchable
from hologram.backends.webgpu import byte_programs, told
from hologram.backends.webgpu.encoder import BATCH, BATCH_SOFTWARE, Encoder, sequence
from hologram.backends.webgpu.kernel import KernelContext, WebGPUKernel
from hologram.backends.webgpu.memory import FETCHED_BYTES, WORD, Memory, Transfers
from hologram.backends.webgpu.native import probing
from hologram.backends.webgpu.native.conduct import found
from hologram.backends.webgpu.native.library import LogicalDevice, library
from hologram.backends.webgpu.native.probing import adapters, describe, probe
from hologram.backends.webgpu.pipeline import Pipelines
from hologram.backends.webgpu.timeline import timeline
from hologram.backends.webgpu.unfinished import Unfinished
from hologram.compiled.device import CompilingDevice
from hologram.foundation import forks
from hologram.foundation.dtypes import DType, f32
from hologram.foundation.errors import BackendUnavailable, DeviceLost
from hologram.machine.device import DeviceInfo
from hologram.machine.kernel import Binding, Call, Launch, Places, Prepared, check_range
from hologram.machine.limits import ALIGNMENT
from hologram.machine.timeline import Timeline


class WebGPUDevice(CompilingDevice[WebGPUKernel]):
    """See hologram.machine.device.Device. `limits` may be lowered below the adapter's, which tests of paging do."""

    language = "wgsl"
    shared_bytes = 16 << 20  # a bind group costs 20 us, and sees memories; dispatches are told where in them

    def __init__(self, info: DeviceInfo, logical: LogicalDevice) -> None:
        super().__init__(info)
        adapter, limits = logical.adapter, info.limits
        self.compiles = probing.limits(adapter).dtypes
        mappable = limits.unified_memory and "MappablePrimaryBuffers" in adapter.features
        immediates = adapter.limits["maxImmediateSize"] if "Immediates" in adapter.features else 0
        self.encoder = (
            Encoder(logical, BATCH_SOFTWARE, blocks=True) if limits.software else Encoder(logical, BATCH)
        )
        self.transfers = Transfers(self.encoder, limits.max_buffer_bytes, mappable)
        self.pipelines = Pipelines(self.encoder)
        self.unfinished = Unfinished(self.transfers, limits.loop_turns)
        float_atomics = "ShaderFloat32Atomic" in adapter.features
        self.kernel_context = KernelContext(
            self.encoder, self.pipelines, limits, immediates, float_atomics, self.unfinished
        )
        self._closed = False
        forks.watch(self.encoder)

    def describe(self, info: DeviceInfo) -> None:
        """Replaces what is known of the device, before any kernel is compiled."""
        self.info = info
        self.unfinished = Unfinished(self.transfers, info.limits.loop_turns)
        self.kernel_context = replace(self.kernel_context, limits=info.limits, unfinished=self.unfinished)

    # Memory.

    def allocate(self, nbytes: int) -> Memory:
        """New memory; raises OutOfMemory with the adapter's limit, or where the driver has no room."""
        with self.encoder.lock:
            self.encoder.check()
            return self.transfers.allocate(nbytes)

    def release(self, memory: Memory) -> None:
        """Frees the memory once the GPU is done with it; launches bound to it must not be called again."""
        with self.encoder.lock:
            if self._closed or self.encoder.forked:
                memory.handle = None
                return
            self.encoder.flush()  # destroying a buffer takes recorded commands that use it along
            self.pipelines.forget(memory)
            self.transfers.release(memory)

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        """Copies host bytes in, at any offset and of any length, after all launches before."""
        data = data.cast("B")
        if not len(data):
            return
        check_range("webgpu", memory, offset, len(data))
        with self.encoder.lock:
            if self.transfers.mappable or not (offset | len(data)) % WORD:
                self.transfers.write(memory, offset, data)
                return
            # Queue writes are whole words: the bytes go to scratch memory, and from there to their place.
            size = -(-len(data) // WORD) * WORD
            scratch = self.transfers.allocate(size)
            self.transfers.write(scratch, 0, memoryview(bytes(data).ljust(size, b"\0")))
            self.copy(scratch, 0, memory, offset, len(data))
            self.release(scratch)

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        """Waits for all launches before, then copies bytes out, from any offset and of any length."""
        out = out.cast("B")
        if not len(out):
            return
        check_range("webgpu", memory, offset, len(out))
        with self.encoder.lock:
            self.unfinished.check()
            self.transfers.read(memory, offset, out)

    def fetch(self, memory: Memory, offset: int, nbytes: int) -> Callable[[], bytes]:
        """See hologram.machine.device.Device."""
        if not 0 < nbytes <= FETCHED_BYTES:
            return super().fetch(memory, offset, nbytes)
        check_range("webgpu", memory, offset, nbytes)
        with self.encoder.lock:
            landing = self.transfers.fetch(memory, offset, nbytes)

        def fetched() -> bytes:
            with self.encoder.lock:
                self.unfinished.check()
                return landing()

        return fetched

    def copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        """Copies within the device, any bytes; ranges of one memory may overlap, as with memmove."""
        if not nbytes:
            return
        check_range("webgpu", source, source_offset, nbytes)
        check_range("webgpu", target, target_offset, nbytes)
        with self.encoder.lock:
            if source is not target and not (source_offset | target_offset | nbytes) % WORD:
                commands = self.encoder.copies()
                self.encoder.lib.wgpuCommandEncoderCopyBufferToBuffer(
                    commands, source.live, source_offset, target.live, target_offset, nbytes
                )
                return
            if source is target and abs(source_offset - target_offset) < nbytes + ALIGNMENT:
                scratch = self.transfers.allocate(nbytes)
                self.copy(source, source_offset, scratch, 0, nbytes)
                self.copy(scratch, 0, target, target_offset, nbytes)
                self.release(scratch)
                return
            source_start, target_start = (o // ALIGNMENT * ALIGNMENT for o in (source_offset, target_offset))
            scalars, lanes = byte_programs.copy_scalars(
                source_offset - source_start, target_offset - target_start, nbytes
            )
            bindings = (
                _until(source, source_start, source_offset + nbytes),
                _until(target, target_start, target_offset + nbytes),
            )
            self.compile(byte_programs.copy_program()).bind(bindings, scalars, (lanes,))()

    def fill(self, memory: Memory, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats 1, 2, 4 or 8 bytes over any range."""
        if not nbytes:
            return
        check_range("webgpu", memory, offset, nbytes)
        with self.encoder.lock:
            if not any(pattern) and not (offset | nbytes) % WORD:
                commands = self.encoder.copies()
                self.encoder.lib.wgpuCommandEncoderClearBuffer(commands, memory.live, offset, nbytes)
                return
            start = offset // ALIGNMENT * ALIGNMENT
            scalars, lanes = byte_programs.fill_scalars(offset - start, nbytes, pattern)
            binding = _until(memory, start, offset + nbytes)
            self.compile(byte_programs.fill_program()).bind((binding,), scalars, (lanes,))()

    # No `host_view`: a mapped buffer is closed to the GPU, and nothing would end the mapping before the next launch.

    # Kernels and the queue.

    def check(self) -> None:
        """Raises why the device cannot be used any more."""
        self.encoder.check()

    def make(self, kernel: Launchable) -> WebGPUKernel:
        """See CompilingDevice."""
        with self.encoder.lock:
            return WebGPUKernel(kernel, self.kernel_context)

    def sequence(self, launches: Sequence[Launch]) -> Launch:
        """One call for launches in order; see hologram.machine.device.Device."""
        return sequence(self.encoder, launches)

    @property
    def told(self) -> frozenset[DType]:  # type: ignore[override]
        return frozenset({f32})

    def prepare(self, calls: Sequence[Call], arguments: Sequence[Any], places: Places) -> Prepared:
        """See Device: one call that appends dispatches, whose bind groups are found by place."""
        with self.encoder.lock:
            slots = told.slots(calls, arguments, places, self.pipelines)
        if slots is None:
            return super().prepare(calls, arguments, places)
        return told.launch_of(self.encoder, self.pipelines, slots, places)

    def timeline(self) -> Timeline:
        """A new timeline; see hologram.machine.device."""
        with self.encoder.lock:
            self.encoder.check()
            return timeline(self.pipelines, self.transfers)

    def flush(self) -> None:
        self.encoder.flush()

    def synchronize(self) -> None:
        with self.encoder.lock:
            self.encoder.wait()
            self.unfinished.check()

    def close(self) -> None:
        """Waits for what was enqueued, and gives everything back; later calls raise DeviceLost."""
        with self.encoder.lock:
            if self._closed:
                return
            self._closed = True
            if self.encoder.forked:
                return
            if not self.encoder.device.health.lost:
                self.encoder.wait()
            self.encoder.unusable = DeviceLost(f"webgpu: the device {self.info.name} was closed")
            super().close()
            self.transfers.close()
            self.pipelines.close()
            self.encoder.device.close()


def _until(memory: Memory, start: int, stop: int) -> Binding:
    """The memory from an aligned start to the word that holds the last byte."""
    return Binding(memory, start, -(-stop // WORD) * WORD - start)


def open_device(index: int, **lowered: Any) -> WebGPUDevice:
    """Opens the device with that index in the probe's list, with all of its adapter's limits and features.

    `lowered` replaces fields of its Limits by smaller ones. Raises BackendUnavailable.
    """
    probed = probe()
    if not 0 <= index < len(probed.devices):
        why = (
            f"{probed.reason}: {probed.remedy}"
            if probed.reason
            else f"there are {len(probed.devices)} devices"
        )
        raise BackendUnavailable(f"webgpu: no device {index}: {why}")
    logical = LogicalDevice(library(), adapters()[index])
    info = describe(logical.adapter, index)
    device = WebGPUDevice(info, logical)
    subgroups = info.limits.software and "Subgroup" in logical.adapter.features
    measured = found(logical.adapter, device.pipelines, device.transfers, subgroups)
    device.describe(replace(info, limits=replace(measured.limits(info.limits), **lowered)))
    return device
