"""The stand-in for PyObjC's modules: devices of Apple's that are this CPU, as far as the backend uses them."""

from __future__ import annotations

import weakref
from typing import Any

from tests.backends.emulated.metal.commands import Fence, Queue
from tests.backends.emulated.metal.library import Pipeline, compile_library
from tests.backends.emulated.metal.memory import Buffer
from tests.backends.emulated.metal.objects import (
    CompileOptions,
    ComputePipelineDescriptor,
    Size,
    autoreleased,
    pool,
)

APPLE_7, METAL_3 = 1007, 5001


class Device:
    """MTLDevice."""

    def __init__(
        self, number: int, families: tuple[int, ...] = (APPLE_7, METAL_3), room: int = 8 << 30
    ) -> None:
        self.number, self.families, self.room = number, families, room
        self.allocated = 0
        self.queues: list[Queue] = []

    def name(self) -> str:
        return f"Apple M{self.number} (emulated)"

    def registryID(self) -> int:
        return self.number

    def supportsFamily_(self, family: int) -> bool:
        return family in self.families

    def hasUnifiedMemory(self) -> bool:
        return True

    def maxBufferLength(self) -> int:
        return self.room // 2

    def recommendedMaxWorkingSetSize(self) -> int:
        return self.room

    def currentAllocatedSize(self) -> int:
        return self.allocated

    def maxThreadsPerThreadgroup(self) -> Size:
        return Size(1024, 1024, 1024)

    def maxThreadgroupMemoryLength(self) -> int:
        return 32 << 10

    def newCommandQueue(self) -> Queue:
        self.queues.append(Queue())
        return self.queues[-1]

    def newFence(self) -> Fence:
        return Fence()

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> Buffer | None:
        if nbytes > self.maxBufferLength():
            return None
        return self._counted(Buffer(nbytes, options), nbytes)

    def _counted(self, buffer: Buffer, nbytes: int) -> Buffer:
        self.allocated += nbytes
        weakref.finalize(buffer, self._freed, nbytes)
        return buffer

    def _freed(self, nbytes: int) -> None:
        self.allocated -= nbytes

    def newBufferWithBytesNoCopy_length_options_deallocator_(
        self, pages: Any, nbytes: int, options: int, deallocator: Any
    ) -> Buffer | None:
        return self._counted(Buffer(nbytes, options, pages), nbytes)

    def newLibraryWithSource_options_error_(self, text: str, options: Any, error: None) -> tuple[Any, Any]:
        autoreleased("a library's error")
        return compile_library(text, options)

    def newComputePipelineStateWithDescriptor_options_reflection_error_(
        self, descriptor: Any, options: int, reflection: None, error: None
    ) -> tuple[Any, Any]:
        autoreleased("a pipeline's error")
        return Pipeline(descriptor), None


class Metal:
    """The module `Metal`, with Apple's own numbers."""

    MTLResourceStorageModeShared = 0
    MTLResourceHazardTrackingModeUntracked = 256
    MTLResourceUsageRead = 1
    MTLGPUFamilyApple7 = APPLE_7
    MTLGPUFamilyMetal3 = METAL_3
    MTLLanguageVersion3_1 = 196609
    MTLCommandBufferStatusCompleted = 4
    MTLCommandBufferErrorOutOfMemory = 8
    MTLCompileOptions = CompileOptions
    MTLComputePipelineDescriptor = ComputePipelineDescriptor
    MTLSizeMake = Size

    def __init__(self, devices: tuple[Device, ...]) -> None:
        self._devices = devices

    def MTLCopyAllDevices(self) -> tuple[Device, ...]:
        return self._devices


class Emulated:
    """See hologram.backends.metal.framework.Framework."""

    def __init__(self, devices: tuple[Device, ...] | None = None) -> None:
        self.metal: Any = Metal(devices if devices is not None else (Device(1), Device(2)))
        self.pool = pool
