"""Compute pipelines and bind groups: compiled, cached, and freed when nothing refers to them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any

from hologram.backends.webgpu.encoder import Encoder
from hologram.backends.webgpu.memory import Memory
from hologram.backends.webgpu.native.library import STAGE_COMPUTE, UNIFORM
from hologram.foundation.errors import CompileError, DeviceLost, HologramError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Places

GROUPS_KEPT = 4096
OFFSET_BITS = (1 << 32) - 1  # of the offsets that dispatches are told
BOUNDS_CHECKS = 1  # WGPUShaderRuntimeChecks


@frozen(slots=True)
class Signature:
    """What a pipeline layout depends on."""

    writable: tuple[bool, ...]  # of each storage buffer
    immediate_bytes: int  # 0: parameters, if any, come from a uniform buffer
    uniform: bool


@frozen(eq=False, slots=True)
class Layout:
    """`told` has the bits of a place that a dispatch is told of each memory: the rest is its bind group's."""

    signature: Signature
    group: Any  # WGPUBindGroupLayout
    pipeline: Any  # WGPUPipelineLayout
    told: int
    serial: int

    def offsets(self, ffi: Any, at: Sequence[int]) -> Any:
        """What a dispatch is told for memories seen from places on; nothing where the adapter takes no more offsets."""
        return ffi.new("uint32_t[]", [place & self.told for place in at] if self.told else 0)


@frozen(eq=False, slots=True)
class Pipeline:
    layout: Layout
    handle: Any  # WGPUComputePipeline
    address: int  # of that


class Pipelines:
    """Makes the objects of one device that launches are built of; callers hold the encoder's lock."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.lib, self.ffi = encoder.lib, encoder.ffi
        self.layouts: dict[Signature, Layout] = {}
        # Bind groups by what they see: where they are, the handle, and the memories. Compiled launches look here too.
        self.groups: dict[Any, tuple[int, Any, list[Memory]]] = {}
        self.groups_kept = GROUPS_KEPT
        self._serials = itertools.count(1)

    def compile(self, name: str, text: str, entry: str, signature: Signature) -> Pipeline:
        """Raises CompileError with naga's or the driver's message."""
        with self.encoder.device.library.log() as log:
            return self._compile(name, text, entry, signature, log)

    def _compile(self, name: str, text: str, entry: str, signature: Signature, log: list[str]) -> Pipeline:
        lib, ffi, device = self.lib, self.ffi, self.encoder.device.handle
        try:
            layout = self._layout(signature)
        except DeviceLost:
            raise
        except HologramError as error:  # more buffers than there can be, say
            raise CompileError(name, str(error), text) from error
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        source.code, keep_text = self.encoder.device.library.view(text)
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        # Atlas loops are counted, so they end: naga need not count their turns again. Bounds stay checked.
        module = lib.wgpuDeviceCreateShaderModuleTrusted(device, descriptor, BOUNDS_CHECKS)
        try:
            self._check(name, text, log)
            wanted = ffi.new("WGPUComputePipelineDescriptor *")
            wanted.layout = layout.pipeline
            wanted.compute.module = module
            wanted.compute.entryPoint, keep_entry = self.encoder.device.library.view(entry)
            pipeline = lib.wgpuDeviceCreateComputePipeline(device, wanted)
            try:
                self._check(name, text, log)
            except HologramError:
                lib.wgpuComputePipelineRelease(pipeline)
                raise
        finally:
            lib.wgpuShaderModuleRelease(module)
        del keep_text, keep_entry
        handle = self.encoder.owned(pipeline, lib.wgpuComputePipelineRelease)
        return Pipeline(layout, handle, self.encoder.address(handle))

    def bound(
        self, layout: Layout, bindings: Sequence[Binding], uniform: tuple[Any, int] | None = None
    ) -> tuple[Any, Any]:
        """A bind group, and a dispatch's offsets; one with a `uniform`, a buffer and its size, is not kept."""
        offsets = layout.offsets(self.ffi, [b.offset for b in bindings])
        bases = [Binding(b.memory, b.offset & ~layout.told, b.nbytes) for b in bindings]
        if uniform is not None:
            return self._create_group(layout, bases, uniform), offsets
        key = (layout, *((b.memory.serial, b.offset, b.nbytes) for b in bases))
        known = self.groups.get(key)
        return (self._keep(key, layout, bases, None) if known is None else known)[1], offsets

    def key(self, layout: Layout, sizes: Sequence[int], uniform: tuple[Any, int] | None) -> bytes:
        """The beginning of the keys of bind groups of so many bytes of each memory; a uniform buffer has its own."""
        serial = layout.serial if uniform is None else next(self._serials)
        return struct.pack(f"={1 + len(sizes)}q", serial, *sizes)

    def placed(
        self,
        layout: Layout,
        prefix: bytes,
        at: Sequence[int],
        sizes: Sequence[int],
        uniform: tuple[Any, int] | None,
        places: Places,
    ) -> tuple[int, Any, list[Memory]]:
        """A bind group that sees memory from places on, kept by those bits that dispatches are not told."""
        untold = ~layout.told
        bases = [place & untold for place in at]
        key = prefix + struct.pack(f"={len(bases)}q", *bases)
        known = self.groups.get(key)
        if known is None:
            spans = zip(bases, sizes, strict=True)
            bindings = [Binding(*places.find(place), nbytes) for place, nbytes in spans]
            known = self._keep(key, layout, bindings, uniform)
        return known

    def _keep(
        self, key: Any, layout: Layout, bindings: Sequence[Binding], uniform: tuple[Any, int] | None
    ) -> tuple[int, Any, list[Memory]]:
        group = self._create_group(layout, bindings, uniform)
        entry = self.encoder.address(group), group, [b.memory for b in bindings]
        if len(self.groups) >= self.groups_kept:
            self._drop(next(iter(self.groups)))
        self.groups[key] = entry
        for binding in bindings:
            binding.memory.groups.add(key)
        return entry

    def forget(self, memory: Memory) -> None:
        """Drops the cached bind groups that see a memory."""
        for key in tuple(memory.groups):
            self._drop(key)

    def _drop(self, key: Any) -> None:
        for memory in self.groups.pop(key)[2]:
            memory.groups.discard(key)

    def uniform(self, content: bytes) -> tuple[Any, int]:
        """A buffer that holds parameters, where they do not fit in immediates."""
        lib, ffi = self.lib, self.ffi
        descriptor = ffi.new("WGPUBufferDescriptor *")
        descriptor.size = size = -(-len(content) // 16) * 16
        descriptor.usage = UNIFORM
        descriptor.mappedAtCreation = 1
        handle = self.encoder.owned(
            lib.wgpuDeviceCreateBuffer(self.encoder.device.handle, descriptor), lib.wgpuBufferRelease
        )
        self.encoder.check()
        ffi.memmove(lib.wgpuBufferGetMappedRange(handle, 0, size), content, len(content))
        lib.wgpuBufferUnmap(handle)
        self.encoder.check()
        return handle, size

    def close(self) -> None:
        self.groups.clear()
        self.layouts.clear()

    def _check(self, name: str, text: str, log: list[str]) -> None:
        messages = [message for _, message in self.encoder.device.health.errors]
        if messages and not any("is lost" in m for m in messages):
            self.encoder.device.health.errors.clear()
            raise CompileError(name, "\n".join([*messages, *log]), text)
        self.encoder.check()

    def _layout(self, signature: Signature) -> Layout:
        if signature in self.layouts:
            return self.layouts[signature]
        lib, ffi, device = self.lib, self.ffi, self.encoder.device.handle
        kinds = [
            lib.WGPUBufferBindingType_Storage if w else lib.WGPUBufferBindingType_ReadOnlyStorage
            for w in signature.writable
        ]
        if signature.uniform:
            kinds.append(lib.WGPUBufferBindingType_Uniform)
        storages = len(signature.writable)
        dynamic = storages <= self.encoder.device.adapter.limits["maxDynamicStorageBuffersPerPipelineLayout"]
        entries = ffi.new("WGPUBindGroupLayoutEntry[]", len(kinds))
        for position, kind in enumerate(kinds):
            entries[position].binding = position
            entries[position].visibility = STAGE_COMPUTE
            entries[position].buffer.type = kind
            entries[position].buffer.hasDynamicOffset = dynamic and position < storages
        wanted = ffi.new("WGPUBindGroupLayoutDescriptor *")
        wanted.entryCount, wanted.entries = len(kinds), entries
        group = self.encoder.owned(
            lib.wgpuDeviceCreateBindGroupLayout(device, wanted), lib.wgpuBindGroupLayoutRelease
        )
        groups = ffi.new("WGPUBindGroupLayout[]", [group])
        descriptor = ffi.new("WGPUPipelineLayoutDescriptor *")
        descriptor.bindGroupLayoutCount, descriptor.bindGroupLayouts = 1, groups
        descriptor.immediateSize = signature.immediate_bytes
        pipeline = self.encoder.owned(
            lib.wgpuDeviceCreatePipelineLayout(device, descriptor), lib.wgpuPipelineLayoutRelease
        )
        self.encoder.check()
        self.layouts[signature] = Layout(
            signature, group, pipeline, OFFSET_BITS if dynamic else 0, next(self._serials)
        )
        return self.layouts[signature]

    def _create_group(
        self, layout: Layout, bindings: Sequence[Binding], uniform: tuple[Any, int] | None
    ) -> Any:
        lib, ffi = self.lib, self.ffi
        ranges = [(b.memory.live, b.offset, b.nbytes) for b in bindings]
        if uniform is not None:
            ranges.append((uniform[0], 0, uniform[1]))
        entries = ffi.new("WGPUBindGroupEntry[]", len(ranges))
        for position, (buffer, offset, size) in enumerate(ranges):
            entry = entries[position]
            entry.binding, entry.buffer, entry.offset, entry.size = position, buffer, offset, size
        descriptor = ffi.new("WGPUBindGroupDescriptor *")
        descriptor.layout, descriptor.entryCount, descriptor.entries = layout.group, len(ranges), entries
        group = self.encoder.owned(
            lib.wgpuDeviceCreateBindGroup(self.encoder.device.handle, descriptor), lib.wgpuBindGroupRelease
        )
        self.encoder.check()
        return group
