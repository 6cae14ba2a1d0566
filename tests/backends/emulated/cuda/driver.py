"""A stand-in for cuda.bindings.driver: the functions that the backend calls, on an emulated card, strictly.

It has the types and enumerations of the real module, and functions of the same names, arguments and answers. What a
program may meet it answers with a status, as the driver does: no memory left, code that is none. What no correct
program does it raises `Misuse` for at once, where a driver would crash, corrupt memory, or do what was meant by luck.
Work is done when somebody waits for it and not before, so that a wait that is missing shows.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.kernels import Kernel, Outcome
from tests.backends.emulated.cuda.memory import Allocation, Memory, Misuse
from tests.backends.emulated.cuda.streams import Context, Event, Graph, Launch, Stream

S = real.CUresult
OK = (S.CUDA_SUCCESS,)
CARD_BYTES = 1 << 30
PINNED_BYTES = 1 << 30
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
    "WARP_SIZE": 32,
    "MULTIPROCESSOR_COUNT": 132,
}
MOST_GROUPS = (2**31 - 1, 65535, 65535)
MOST_BLOCK = (1024, 1024, 64)


class Driver:
    """The functions; `cards` is how many there are, `version` what the driver says of itself."""

    def __init__(self, cards: int = 2, version: int = 13000, architecture: int = 90) -> None:
        self.attributes = ATTRIBUTES | {
            "COMPUTE_CAPABILITY_MAJOR": architecture // 10,
            "COMPUTE_CAPABILITY_MINOR": architecture % 10,
        }
        self.version = version
        self.started = False
        self.calls = 0
        self.lock = threading.RLock()
        self.current = threading.local()  # .stack: the contexts of a thread
        self.cards = [Memory(CARD_BYTES) for _ in range(cards)]
        self.contexts = [Context(k) for k in range(cards)]
        self.pinned = Memory(PINNED_BYTES)
        self.handles: dict[int, Any] = {}
        self._numbers = itertools.count(0x1000, 16)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("CU"):  # types
            return getattr(real, name)
        raise AttributeError(f"the emulated driver has no {name}")

    # Handles are integers here; the real ones are made of integers.
    CUfunction = CUkernel = int
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def _new(self, thing: Any) -> int:
        number = next(self._numbers)
        self.handles[number] = thing
        return number

    def _get(self, handle: Any, kind: type, who: str) -> Any:
        found = self.handles.get(int(handle))
        if not isinstance(found, kind):
            raise Misuse(f"{who}: there is no {kind.__name__} {int(handle):#x}, or no more")
        return found

    def _pop(self, handle: Any, kind: type, who: str) -> Any:
        self._get(handle, kind, who)
        return self.handles.pop(int(handle))

    def _context(self, who: str) -> Context:
        """The calling thread's."""
        if not getattr(self.current, "stack", None):
            raise Misuse(f"{who}: the thread has no current context")
        return self.current.stack[-1]

    def _stream(self, handle: Any, who: str, current: bool = True) -> Stream:
        """A stream, of the current context where that counts."""
        stream = self._get(handle, Stream, who)
        if current and self._context(who) is not stream.context:
            raise Misuse(f"{who}: the stream is of another context than the current one")
        return stream

    # The driver and its devices.

    def cuInit(self, flags: int) -> Any:
        self.started = True
        return OK

    def cuGetErrorString(self, status: Any) -> Any:
        return S.CUDA_SUCCESS, status.name.lower().encode()

    def cuDriverGetVersion(self) -> Any:
        return S.CUDA_SUCCESS, self.version

    def cuDeviceGetCount(self) -> Any:
        return S.CUDA_SUCCESS, len(self.cards)

    def cuDeviceGet(self, ordinal: int) -> Any:
        if not self.started:
            raise Misuse("cuDeviceGet: the driver was not started (cuInit)")
        return S.CUDA_SUCCESS, range(len(self.cards))[ordinal]

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return S.CUDA_SUCCESS, f"emulated card {device}".encode().ljust(size, b"\0")

    def cuDeviceTotalMem(self, device: int) -> Any:
        return S.CUDA_SUCCESS, self.cards[device].capacity

    def cuDeviceGetAttribute(self, which: Any, device: int) -> Any:
        return S.CUDA_SUCCESS, self.attributes[which.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        context = self.contexts[device]
        context.count += 1
        return S.CUDA_SUCCESS, self._new(context)

    def cuDevicePrimaryCtxReset(self, device: int) -> Any:
        self.contexts[device].error = ""
        return OK

    def cuDevicePrimaryCtxRelease(self, device: int) -> Any:
        context = self.contexts[device]
        if not context.count:
            raise Misuse("cuDevicePrimaryCtxRelease: it is not held")
        context.count -= 1
        if not context.count:
            self._ended(context)
        return OK

    def _ended(self, context: Context) -> None:
        """Raises Misuse for what a context leaves behind."""
        if context.error:
            context.error = ""
            self.cards[context.ordinal] = Memory(CARD_BYTES)
            self.handles = {
                k: v for k, v in self.handles.items() if getattr(v, "context", None) is not context
            }
            return
        left = [type(v).__name__ for v in self.handles.values() if getattr(v, "context", None) is context]
        left += [a.kind for a in self.cards[context.ordinal].live()]
        self.cards[context.ordinal].close()
        if not any(c.count for c in self.contexts):
            self.pinned.close()
            left += [a.kind for a in self.pinned.live()]
            left += ["code" for v in self.handles.values() if isinstance(v, tuple)]
        if left:
            raise Misuse(f"a context was given back that still has {', '.join(sorted(left))}")

    def cuCtxPushCurrent(self, handle: Any) -> Any:
        context = self._get(handle, Context, "cuCtxPushCurrent")
        if not context.count:
            raise Misuse("cuCtxPushCurrent: the context was given back")
        self.current.stack = [*getattr(self.current, "stack", []), context]
        return OK

    def cuCtxPopCurrent(self) -> Any:
        context = self._context("cuCtxPopCurrent")
        self.current.stack = self.current.stack[:-1]
        return S.CUDA_SUCCESS, context

    def cuCtxSynchronize(self) -> Any:
        context = self._context("cuCtxSynchronize")
        for thing in tuple(self.handles.values()):
            if isinstance(thing, Stream) and thing.context is context:
                self._drain(thing)
        return self._status(context)

    # Streams and events.

    def cuStreamCreate(self, flags: Any) -> Any:
        return S.CUDA_SUCCESS, self._new(Stream(self._context("cuStreamCreate")))

    def cuStreamSynchronize(self, handle: Any) -> Any:
        stream = self._stream(handle, "cuStreamSynchronize")
        self._drain(stream)
        return self._status(stream.context)

    def cuStreamDestroy(self, handle: Any) -> Any:
        self._drain(self._stream(handle, "cuStreamDestroy"))
        self._pop(handle, Stream, "cuStreamDestroy")
        return OK

    def cuEventCreate(self, flags: Any) -> Any:
        timing = not int(flags) & int(real.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        return S.CUDA_SUCCESS, self._new(Event(self._context("cuEventCreate"), timing))

    def cuEventRecord(self, handle: Any, stream: Any) -> Any:
        who = "cuEventRecord"
        event, into = self._get(handle, Event, who), self._stream(stream, who)
        if event.context is not into.context:
            raise Misuse(f"{who}: event and stream are of different contexts")
        with self.lock:
            event.record(into)
        return OK

    def cuEventSynchronize(self, handle: Any) -> Any:
        event = self._get(handle, Event, "cuEventSynchronize")
        if event.stream is not None:
            self._drain(event.stream, event.place)
        return self._status(event.context)

    def cuEventElapsedTime(self, first: Any, last: Any) -> Any:
        who = "cuEventElapsedTime"
        start, end = self._get(first, Event, who), self._get(last, Event, who)
        for event in (start, end):
            if not event.timing or event.stream is None:
                raise Misuse(f"{who}: an event was never recorded, or takes no time")
        if not (start.passed and end.passed):
            return S.CUDA_ERROR_NOT_READY, 0.0
        return S.CUDA_SUCCESS, float(np.float32((end.passed_s - start.passed_s) * 1e3))

    def cuEventDestroy(self, handle: Any) -> Any:
        self._pop(handle, Event, "cuEventDestroy")
        return OK

    def _drain(self, stream: Stream, until: int | None = None) -> None:
        with self.lock:
            stream.drain(until)

    def _status(self, context: Context) -> Any:
        return (getattr(S, context.error),) if context.error else OK

    # Memory.

    def cuMemPoolCreate(self, properties: Any) -> Any:
        pinned = real.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        device = real.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        if properties.allocType != pinned or properties.location.type != device:
            raise Misuse("cuMemPoolCreate: a pool must be of pinned memory on a device")
        context = self._context("cuMemPoolCreate")
        if properties.location.id != context.ordinal:
            raise Misuse("cuMemPoolCreate: the pool is on another device than the current one")
        return S.CUDA_SUCCESS, self._new(SimpleNamespace(context=context))

    def cuMemPoolDestroy(self, handle: Any) -> Any:
        self._pop(handle, SimpleNamespace, "cuMemPoolDestroy")
        return OK

    def cuMemAllocFromPoolAsync(self, nbytes: int, pool: Any, stream: Any) -> Any:
        who = "cuMemAllocFromPoolAsync"
        self._get(pool, SimpleNamespace, who)
        context = self._stream(stream, who).context
        if not nbytes:
            raise Misuse(f"{who}: of no bytes")
        made = self.cards[context.ordinal].allocate(nbytes, "memory")
        return (S.CUDA_ERROR_OUT_OF_MEMORY, 0) if made is None else (S.CUDA_SUCCESS, made.address)

    def cuMemFreeAsync(self, pointer: int, stream: Any) -> Any:
        into = self._stream(stream, "cuMemFreeAsync")
        memory = self.cards[into.context.ordinal]
        allocation = memory.at(int(pointer))
        if allocation is None or allocation.freed:
            raise Misuse(f"cuMemFreeAsync: {int(pointer):#x} is no memory, or no more")
        allocation.freed = True
        into.add(lambda: memory.free(allocation))
        return OK

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> Any:
        self._context("cuMemHostAlloc")
        made = self.pinned.allocate(nbytes, "pinned memory")
        return (S.CUDA_ERROR_OUT_OF_MEMORY, 0) if made is None else (S.CUDA_SUCCESS, made.address)

    def cuMemFreeHost(self, address: int) -> Any:
        allocation = self.pinned.at(int(address))
        if allocation is None or allocation.freed:
            raise Misuse(f"cuMemFreeHost: {int(address):#x} is no pinned memory, or no more")
        allocation.freed = True
        self.pinned.free(allocation)
        return OK

    def _range(self, memory: Memory, address: int, nbytes: int, who: str) -> Allocation:
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
        watched = [self._range(memory, int(at), nbytes, who) for memory, at in ends]
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
        into = self._stream(stream, "cuMemcpyHtoDAsync")
        ends = ((self.cards[into.context.ordinal], target), (self.pinned, source))
        return self._copy("cuMemcpyHtoDAsync", ends, nbytes, into)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: Any) -> Any:
        into = self._stream(stream, "cuMemcpyDtoHAsync")
        ends = ((self.pinned, target), (self.cards[into.context.ordinal], source))
        return self._copy("cuMemcpyDtoHAsync", ends, nbytes, into)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> Any:
        into = self._stream(stream, "cuMemcpyDtoDAsync")
        card = self.cards[into.context.ordinal]
        return self._copy("cuMemcpyDtoDAsync", ((card, target), (card, source)), nbytes, into)

    def _set(self, who: str, address: int, item: bytes, pitch: int, count: int, stream: Any) -> Any:
        """Enqueues the writing of `count` items, `pitch` bytes apart."""
        into = self._stream(stream, who)
        if int(address) % len(item) or pitch % len(item):
            raise Misuse(f"{who}: items of {len(item)} bytes must lie at multiples of as many")
        span = pitch * (count - 1) + len(item)
        allocation = self._range(self.cards[into.context.ordinal], int(address), span, who)
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

    def cuMemsetD2D32Async(
        self, address: int, pitch: int, value: int, width: int, height: int, stream: Any
    ) -> Any:
        if width != 1:
            raise Misuse("cuMemsetD2D32Async: the emulated card sets one column")
        return self._set("cuMemsetD2D32Async", address, value.to_bytes(4, "little"), pitch, height, stream)

    # Kernels.

    def cuLibraryLoadData(
        self, code: bytes, options: Any, values: Any, count: int, more: Any, of_them: Any, further: int
    ) -> Any:
        try:
            return S.CUDA_SUCCESS, self._new((Kernel(code),))
        except ValueError:
            return S.CUDA_ERROR_INVALID_IMAGE, None

    def cuLibraryGetKernel(self, library: Any, name: bytes) -> Any:
        (kernel,) = self._get(library, tuple, "cuLibraryGetKernel")
        if kernel.entry.encode() != name:
            return S.CUDA_ERROR_NOT_FOUND, None
        return S.CUDA_SUCCESS, int(library) + 1  # found again by its library

    def cuLibraryUnload(self, library: Any) -> Any:
        with self.lock:
            self._pop(library, tuple, "cuLibraryUnload")
            self._unused(int(library), "cuLibraryUnload")
        return OK

    def _unused(self, handle: int, who: str) -> None:
        for thing in self.handles.values():
            waits = isinstance(thing, Stream) and not thing.context.error
            if waits and any(handle in work.uses for work in thing.queue):
                raise Misuse(f"{who}: work that was enqueued still needs it")

    def cuLaunchKernel(self, function: Any, *rest: Any) -> Any:
        *sizes, shared, stream, parameters, extra = rest
        if shared or extra:
            raise Misuse("cuLaunchKernel: with shared memory or extra options, which no kernel here asks for")
        with self.lock:
            self.calls += 1
            into = self._stream(stream, "cuLaunchKernel", current=False)
            launch = self._launch(function, sizes[:3], sizes[3:], parameters)
            into.add(lambda: self._run(launch, into.context), launch.library)
            return self._status(into.context)

    def _launch(self, function: Any, grid: Sequence[int], block: Sequence[int], parameters: int) -> Launch:
        library = int(function) - 1
        (kernel,) = self._get(library, tuple, "a launch")
        who = f"a launch of {kernel.entry}"
        if any(not 0 < n <= most for n, most in zip(grid, MOST_GROUPS, strict=True)):
            raise Misuse(f"{who}: over {tuple(grid)} workgroups")
        if any(not 0 < n <= most for n, most in zip(block, MOST_BLOCK, strict=True)):
            raise Misuse(f"{who}: in workgroups of {tuple(block)}")
        if np.prod(block) > kernel.most_threads:
            raise Misuse(
                f"{who}: {tuple(block)} threads, more than its launch bound of {kernel.most_threads}"
            )
        if kernel.shared_bytes > self.attributes["MAX_SHARED_MEMORY_PER_BLOCK"]:
            raise Misuse(f"{who}: {kernel.shared_bytes} bytes of shared memory")
        (x, y, z), (u, v, w) = grid, block
        return Launch(kernel, library, _parameters(kernel, parameters, who), (x, y, z), (u, v, w))

    def _run(self, launch: Launch, context: Context) -> None:
        """Runs a kernel, whose buffers must be there, and which must leave all other memory alone."""
        kernel, card = launch.kernel, self.cards[context.ordinal]
        if context.error:
            return
        touched = []
        for k in kernel.pointers:
            address = int.from_bytes(launch.parameters[k], "little")
            found = card.around(address)
            if found is None or found.gone:
                raise Misuse(f"{kernel.entry}: parameter {k} points to no memory, or to none that is left")
            touched.append(found)
        outcome = kernel.run(launch.parameters, launch.grid, launch.block)
        if outcome is Outcome.TRAPPED:
            context.error = S.CUDA_ERROR_ILLEGAL_ADDRESS.name
        if outcome is Outcome.STUCK:
            raise Misuse(f"{kernel.entry}: threads ended while others of their workgroup wait at a barrier")
        for allocation in touched:
            allocation.check(kernel.entry)

    # Graphs.

    def cuGraphCreate(self, flags: int) -> Any:
        return S.CUDA_SUCCESS, self._new(Graph())

    def cuGraphAddKernelNode(self, graph: Any, before: Sequence[int], count: int, node: Any) -> Any:
        found: Graph = self._get(graph, Graph, "cuGraphAddKernelNode")
        if count != len(before) or not set(before) <= set(found.nodes):
            raise Misuse("cuGraphAddKernelNode: after nodes that the graph does not have")
        if node.sharedMemBytes or self._get(node.ctx, Context, "cuGraphAddKernelNode").error:
            raise Misuse("cuGraphAddKernelNode: with shared memory, which no kernel here asks for")
        grid = (node.gridDimX, node.gridDimY, node.gridDimZ)
        block = (node.blockDimX, node.blockDimY, node.blockDimZ)
        number = next(self._numbers)
        found.nodes[number] = self._launch(node.kern, grid, block, node.kernelParams), tuple(before)
        return S.CUDA_SUCCESS, number

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        context = self._context("cuGraphInstantiate")
        launches = self._get(graph, Graph, "cuGraphInstantiate").ordered()
        return S.CUDA_SUCCESS, self._new(Executable(context, launches))

    def cuGraphDestroy(self, graph: Any) -> Any:
        self._pop(graph, Graph, "cuGraphDestroy")
        return OK

    def cuGraphLaunch(self, executable: Any, stream: Any) -> Any:
        with self.lock:
            into = self._stream(stream, "cuGraphLaunch", current=False)
            found: Executable = self._get(executable, Executable, "cuGraphLaunch")
            if found.context is not into.context:
                raise Misuse("cuGraphLaunch: the graph is of another context than the stream")

            def run() -> None:
                for launch in found.launches:
                    self._run(launch, into.context)

            into.add(run, int(executable), *(launch.library for launch in found.launches))
            return self._status(into.context)

    def cuGraphExecDestroy(self, executable: Any) -> Any:
        with self.lock:
            self._pop(executable, Executable, "cuGraphExecDestroy")
            self._unused(int(executable), "cuGraphExecDestroy")
        return OK


class Executable:
    """An instantiated graph."""

    def __init__(self, context: Context, launches: Sequence[Launch]) -> None:
        self.context = context
        self.launches = launches


def _parameters(kernel: Kernel, table: int, who: str) -> tuple[bytes, ...]:
    """What the driver copies of a launch's parameters.

    It knows their sizes and takes the rest on trust. Here they must lie behind their table one after the other, each
    at the next multiple of 8, so that one too many, one too few, or one of another size is seen.
    """
    count = len(kernel.sizes)
    places = (ctypes.c_void_p * count).from_address(table)
    end = table + 8 * count
    for k, (place, size) in enumerate(zip(places, kernel.sizes, strict=True)):
        if place != end:
            raise Misuse(
                f"{who}: parameter {k} of {count} does not follow the one before, which does not fit"
            )
        end += -(-size // 8) * 8
    return tuple(ctypes.string_at(p, size) for p, size in zip(places, kernel.sizes, strict=True))
