"""The driver's functions for memory: pools, pinned memory, copies and fills."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.machine import OK, Machine, S
from tests.backends.emulated.cuda.memory import Allocation, Memory, Misuse
from tests.backends.emulated.cuda.streams import Context, Stream


class MemoryCalls(Machine):
    """See cuda.bindings.driver, of which each function has the arguments and answers."""

    def cuPointerGetAttribute(self, which: Any, address: int) -> Any:
        if which != real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            raise Misuse(f"cuPointerGetAttribute: {which} is not emulated")
        for ordinal, card in enumerate(self.cards):
            if card.around(int(address)) is not None:
                return S.CUDA_SUCCESS, ordinal
        return S.CUDA_ERROR_INVALID_VALUE, 0

    def cuMemPoolCreate(self, properties: Any) -> Any:
        pinned = real.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        device = real.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        if properties.allocType != pinned or properties.location.type != device:
            raise Misuse("cuMemPoolCreate: a pool must be of pinned memory on a device")
        context = self.current_context("cuMemPoolCreate")
        if properties.location.id != context.ordinal:
            raise Misuse("cuMemPoolCreate: the pool is on another device than the current one")
        return S.CUDA_SUCCESS, self._new(SimpleNamespace(context=context, reached_by=set()))

    def cuMemPoolDestroy(self, handle: Any) -> Any:
        self._pop(handle, SimpleNamespace, "cuMemPoolDestroy")
        return OK

    def cuMemPoolSetAccess(self, handle: Any, given: Sequence[Any], count: int) -> Any:
        pool = self._get(handle, SimpleNamespace, "cuMemPoolSetAccess")
        for access in list(given)[:count]:
            device = real.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            both = real.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            if access.location.type != device or access.flags != both or access.location.id not in self.peers:
                raise Misuse("cuMemPoolSetAccess: of a device that cannot, or not to read and write")
            pool.reached_by.add(access.location.id)
        return OK

    def cuMemAllocFromPoolAsync(self, nbytes: int, pool: Any, stream: Any) -> Any:
        who = "cuMemAllocFromPoolAsync"
        self._get(pool, SimpleNamespace, who)
        context = self.stream_of(stream, who).context
        if not nbytes:
            raise Misuse(f"{who}: of no bytes")
        made = self.cards[context.ordinal].allocate(nbytes, "memory")
        return (S.CUDA_ERROR_OUT_OF_MEMORY, 0) if made is None else (S.CUDA_SUCCESS, made.address)

    def cuMemFreeAsync(self, pointer: int, stream: Any) -> Any:
        into = self.stream_of(stream, "cuMemFreeAsync")
        memory = self.cards[into.context.ordinal]
        allocation = memory.at(int(pointer))
        if allocation is None or allocation.freed:
            raise Misuse(f"cuMemFreeAsync: {int(pointer):#x} is no memory, or no more")
        allocation.freed = True
        into.add(lambda: memory.free(allocation))
        return OK

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> Any:
        context = self.current_context("cuMemHostAlloc")
        made = self.pinned.allocate(nbytes, "pinned memory", context)
        return (S.CUDA_ERROR_OUT_OF_MEMORY, 0) if made is None else (S.CUDA_SUCCESS, made.address)

    def cuMemFreeHost(self, address: int) -> Any:
        allocation = self.pinned.at(int(address))
        if allocation is None or allocation.freed:
            raise Misuse(f"cuMemFreeHost: {int(address):#x} is no pinned memory, or no more")
        allocation.freed = True
        self.pinned.free(allocation)
        return OK

    def range_of(self, memory: Memory, address: int, nbytes: int, who: str) -> Allocation:
        """The allocation that a range lies in."""
        found = memory.around(address)
        if found is None or found.freed:
            raise Misuse(f"{who}: {address:#x} is in no memory, or in none that is left")
        if address + nbytes > found.address + found.nbytes:
            raise Misuse(
                f"{who}: {nbytes} bytes at {address:#x} end outside of their memory of {found.nbytes}"
            )
        return found

    def _copy(self, who: str, ends: Sequence[tuple[Memory, int]], nbytes: int, stream: Stream) -> Any:
        """Enqueues a copy to the first end from the second."""
        (target, to), (source, from_) = ends
        watched = [self.range_of(memory, int(at), nbytes, who) for memory, at in ends]
        if target is source and abs(int(to) - int(from_)) < nbytes:
            raise Misuse(f"{who}: the ranges overlap")

        def run() -> None:
            for allocation in watched:
                if allocation.gone:
                    raise Misuse(f"{who}: its memory was freed before it ran")
            ctypes.memmove(int(to), int(from_), nbytes)

        stream.add(run)
        return OK

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> Any:
        into = self.stream_of(stream, "cuMemcpyHtoDAsync")
        ends = ((self.cards[into.context.ordinal], target), (self.pinned, source))
        return self._copy("cuMemcpyHtoDAsync", ends, nbytes, into)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: Any) -> Any:
        into = self.stream_of(stream, "cuMemcpyDtoHAsync")
        ends = ((self.pinned, target), (self.cards[into.context.ordinal], source))
        return self._copy("cuMemcpyDtoHAsync", ends, nbytes, into)

    def cuMemcpyPeerAsync(
        self, target: int, target_context: Any, source: int, source_context: Any, nbytes: int, stream: Any
    ) -> Any:
        who = "cuMemcpyPeerAsync"
        contexts = [self._get(c, Context, who) for c in (target_context, source_context)]
        ends = [(self.cards[c.ordinal], a) for c, a in zip(contexts, (target, source), strict=True)]
        return self._copy(who, ends, nbytes, self.stream_of(stream, who))

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> Any:
        into = self.stream_of(stream, "cuMemcpyDtoDAsync")
        card = self.cards[into.context.ordinal]
        return self._copy("cuMemcpyDtoDAsync", ((card, target), (card, source)), nbytes, into)

    def _set(self, who: str, address: int, item: bytes, pitch: int, count: int, stream: Any) -> Any:
        """Enqueues the writing of `count` items, `pitch` bytes apart."""
        into = self.stream_of(stream, who)
        if int(address) % len(item) or pitch % len(item):
            raise Misuse(f"{who}: items of {len(item)} bytes must lie at multiples of as many")
        span = pitch * (count - 1) + len(item)
        allocation = self.range_of(self.cards[into.context.ordinal], int(address), span, who)
        first = int(address) - allocation.address

        def run() -> None:
            for k, byte in enumerate(item):
                allocation.bytes[first + k : first + span : pitch] = byte

        into.add(run)
        return OK

    def cuMemsetD8Async(self, address: int, value: int, count: int, stream: Any) -> Any:
        return self._set("cuMemsetD8Async", address, value.to_bytes(1, "little"), 1, count, stream)

    def cuMemsetD16Async(self, address: int, value: int, count: int, stream: Any) -> Any:
        return self._set("cuMemsetD16Async", address, value.to_bytes(2, "little"), 2, count, stream)

    def cuMemsetD32Async(self, address: int, value: int, count: int, stream: Any) -> Any:
        return self._set("cuMemsetD32Async", address, value.to_bytes(4, "little"), 4, count, stream)
