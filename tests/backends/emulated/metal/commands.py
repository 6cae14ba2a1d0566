"""MTLCommandQueue, its command buffers and encoders: work is done when somebody waits for it, and not before.

So a wait that is missing shows, by stale results or by poison. Buffers that are not tracked need a fence between the
encoders that see them. Command buffers do not retain: what goes before they are done is used after its release.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tests.backends.emulated.metal.library import Pipeline
from tests.backends.emulated.metal.memory import Buffer
from tests.backends.emulated.metal.objects import Error, Misuse, Size, autoreleased, require

NOT_ENQUEUED, COMMITTED, COMPLETED, FAILED = 0, 2, 4, 5
MOST_COMMAND_BUFFERS = 64
MOST_INDEX = 30
MOST_BYTES = 4096
MOST_SHARED_BYTES = 32 << 10
MOST_THREADS = (1024, 1024, 1024)


class Queue:
    """MTLCommandQueue."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting: deque[CommandBuffer] = deque()
        self.unfinished = (
            0  # command buffers that were made; their end is awaited, or Metal aborts for an open encoder
        )
        self.fail_next: Error | None = None  # how the next command buffer ends; a test's own wish

    def commandBufferWithUnretainedReferences(self) -> CommandBuffer:
        autoreleased("a command buffer")
        with self.lock:
            if len(self.waiting) == MOST_COMMAND_BUFFERS:  # Metal waits for the first
                self.waiting.popleft().execute()
            self.unfinished += 1
        return CommandBuffer(self)


class Fence:
    """MTLFence: `past` are the encoders whose work is done once it is passed."""

    def __init__(self) -> None:
        self.past: frozenset[Encoder] = frozenset()


class CommandBuffer:
    """MTLCommandBuffer without references of its own."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.state = NOT_ENQUEUED
        self.encoders: list[Encoder] = []
        self.open: Encoder | None = None
        self._error: Error | None = None
        self._times = (0.0, 0.0)

    def computeCommandEncoder(self) -> ComputeEncoder:
        return self._begin(ComputeEncoder(self))

    def blitCommandEncoder(self) -> BlitEncoder:
        return self._begin(BlitEncoder(self))

    def _begin(self, encoder: Any) -> Any:
        autoreleased("an encoder")
        require(self.state == NOT_ENQUEUED, "an encoder is made of a command buffer that was committed")
        require(self.open is None, "an encoder is made while another of its command buffer is open")
        self.open = encoder
        self.encoders.append(encoder)
        return encoder

    def commit(self) -> None:
        with self.queue.lock:
            require(self.state == NOT_ENQUEUED, "a command buffer is committed twice")
            require(self.open is None, "a command buffer is committed while an encoder is open")
            self.state = FAILED  # where what follows raises
            earlier = [e for c in self.queue.waiting for e in c.encoders]
            for encoder in self.encoders:
                encoder.check_order(earlier)
                earlier.append(encoder)
            self.state = COMMITTED
            self.queue.waiting.append(self)

    def waitUntilCompleted(self) -> None:
        with self.queue.lock:
            require(self.state != NOT_ENQUEUED, "a command buffer is waited for that was not committed")
            while self.state == COMMITTED:
                self.queue.waiting.popleft().execute()

    def status(self) -> int:
        return self.state

    def error(self) -> Error | None:
        return self._error

    def GPUStartTime(self) -> float:
        return self._timed()[0]

    def GPUEndTime(self) -> float:
        return self._timed()[1]

    def _timed(self) -> tuple[float, float]:
        require(self.state >= COMPLETED, "the time of a command buffer is asked for before it is done")
        return self._times

    def execute(self) -> None:
        begin = time.perf_counter()
        self.queue.unfinished -= 1
        state = FAILED
        self._error, self.queue.fail_next = self.queue.fail_next, None
        try:
            if self._error is None:
                for encoder in self.encoders:
                    for command in encoder.commands:
                        command()
                state = COMPLETED
        finally:
            self._times = begin, time.perf_counter()
            for encoder in self.encoders:
                encoder.forget()
            self.state = state


def _alive(reference: weakref.ref[Any], who: str) -> Any:
    found = reference()
    if found is None:
        raise Misuse(f"{who} uses a buffer or pipeline that was released before the GPU was done with it")
    return found


class Encoder:
    """MTLCommandEncoder."""

    def __init__(self, commands: CommandBuffer) -> None:
        self.buffer = weakref.ref(commands)
        self.commands: list[Callable[[], None]] = []
        self.touched: set[tuple[int, int]] = set()  # start and end of untracked memory
        self.past: set[Encoder] = set()
        self.ended = self.updated = False

    def endEncoding(self) -> None:
        self.encoding("endEncoding")
        self.ended = True
        commands = self.buffer()
        if commands is not None:
            commands.open = None

    def waitForFence_(self, fence: Fence) -> None:
        self.encoding("waitForFence")
        require(not self.commands, "an encoder waits for a fence after its first command")
        self.past |= fence.past

    def updateFence_(self, fence: Fence) -> None:
        self.encoding("updateFence")
        self.updated = True
        fence.past = frozenset({self, *(e for e in self.past if not e.forgotten)})

    def encoding(self, what: str) -> None:
        require(not self.ended, f"{what} of an encoder after endEncoding")

    def touch(self, buffer: Buffer) -> None:
        if not buffer.tracked:
            self.touched.add((buffer.start, buffer.start + buffer.nbytes))

    def check_order(self, earlier: Iterable[Encoder]) -> None:
        for other in earlier:
            if other in self.past:
                continue
            meet = any(a < d and c < b for a, b in self.touched for c, d in other.touched)
            require(not meet, "two encoders see the same untracked memory, and no fence orders them")

    @property
    def forgotten(self) -> bool:
        return self.ended and not self.commands and not self.touched

    def forget(self) -> None:
        self.commands.clear()
        self.touched.clear()
        self.past.clear()


class BlitEncoder(Encoder):
    """MTLBlitCommandEncoder."""

    def copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
        self, source: Buffer, first: int, target: Buffer, last: int, size: int
    ) -> None:
        self.encoding("copyFromBuffer")
        require(not (first | last | size) % 4, f"copyFromBuffer: multiples of 4, got {first}, {last}, {size}")
        require(
            0 < size <= source.nbytes - first, f"copyFromBuffer: {size} bytes at {first} of {source.nbytes}"
        )
        require(size <= target.nbytes - last, f"copyFromBuffer: {size} bytes at {last} of {target.nbytes}")
        begin, end = source.start + first, target.start + last
        require(abs(begin - end) >= size, "copyFromBuffer: the ranges overlap")
        self.touch(source)
        self.touch(target)
        seen = (weakref.ref(source), weakref.ref(target))

        def copy() -> None:
            for reference in seen:
                _alive(reference, "copyFromBuffer")
            ctypes.memmove(end, begin, size)

        self.commands.append(copy)


class ComputeEncoder(Encoder):
    """MTLComputeCommandEncoder, of serial dispatches."""

    def __init__(self, commands: CommandBuffer) -> None:
        super().__init__(commands)
        self._pipeline: weakref.ref[Pipeline] | None = None
        self._buffers: dict[int, tuple[weakref.ref[Buffer], int]] = {}
        self._bytes: dict[int, bytes] = {}
        self._resources: list[weakref.ref[Buffer]] = []

    def setComputePipelineState_(self, pipeline: Pipeline) -> None:
        self.encoding("setComputePipelineState")
        self._pipeline = weakref.ref(pipeline)

    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, index: int) -> None:
        self.encoding("setBuffer")
        require(0 <= index <= MOST_INDEX, f"setBuffer: index {index} is past {MOST_INDEX}")
        require(0 <= offset < buffer.nbytes, f"setBuffer: offset {offset} of {buffer.nbytes} bytes")
        self._buffers[index] = weakref.ref(buffer), offset
        self._bytes.pop(index, None)

    def setBytes_length_atIndex_(self, content: bytes, length: int, index: int) -> None:
        self.encoding("setBytes")
        require(0 <= index <= MOST_INDEX, f"setBytes: index {index} is past {MOST_INDEX}")
        require(0 < length <= MOST_BYTES, f"setBytes: 1 to {MOST_BYTES} bytes, got {length}")
        require(len(content) >= length, f"setBytes: {len(content)} bytes are not {length}")
        self._bytes[index] = bytes(content[:length])
        self._buffers.pop(index, None)

    def useResource_usage_(self, resource: Buffer, usage: int) -> None:
        self.encoding("useResource")
        require(usage in (1, 2, 3), f"useResource: usage {usage}")
        self._resources.append(weakref.ref(resource))
        self.touch(resource)

    def dispatchThreadgroups_threadsPerThreadgroup_(self, groups: Size, threads: Size) -> None:
        self.encoding("dispatchThreadgroups")
        require(self._pipeline is not None, "dispatchThreadgroups: no pipeline is set")
        pipeline = _alive(self._pipeline, "dispatchThreadgroups")  # type: ignore[arg-type]
        require(min(*groups, *threads) > 0, f"dispatchThreadgroups: {groups} of {threads}")
        count = threads[0] * threads[1] * threads[2]
        fits = count <= pipeline.most_threads and all(
            t <= m for t, m in zip(threads, MOST_THREADS, strict=True)
        )
        require(fits, f"{pipeline.name}: workgroups of {threads}, it takes {pipeline.most_threads} threads")
        shared = pipeline.shared_bytes
        require(shared <= MOST_SHARED_BYTES, f"{pipeline.name}: {shared} bytes of threadgroup memory")
        bound = {index: self._argument(pipeline, index, size) for index, size in pipeline.arguments.items()}
        for index in pipeline.indirect:
            self._check_indirect(pipeline.name, self._bytes[index])
        held, reference = dict(self._bytes), weakref.ref(pipeline)
        seen = [*(r for r, _ in self._buffers.values()), *self._resources]

        def run() -> None:
            pipeline = _alive(reference, "a dispatch")
            buffers = [_alive(r, pipeline.name) for r in seen]
            given = {k: ctypes.create_string_buffer(v, len(v)) for k, v in held.items()}
            addresses = {k: v if v else ctypes.addressof(given[k]) for k, v in bound.items()}
            pipeline.run(addresses, groups, threads)
            for buffer in buffers:
                buffer.check_surroundings(pipeline.name)

        self.commands.append(run)

    def _check_indirect(self, name: str, content: bytes) -> None:
        """Each pointer must lead into a buffer that the encoder was told of: others need not be resident."""
        known = [b for b in (r() for r in self._resources) if b is not None]
        for k in range(0, len(content), 8):
            address = int.from_bytes(content[k : k + 8], "little")
            inside = any(b.start <= address < b.start + b.nbytes for b in known)
            require(inside, f"{name}: a pointer leads to no buffer of useResource")

    def _argument(self, pipeline: Pipeline, index: int, size: int) -> int:
        """The address of what is bound to an argument, 0 for bytes."""
        name = pipeline.name
        if size > 0:
            require(index in self._bytes, f"{name}: no bytes are bound to its argument {index}")
            content = self._bytes[index]
            require(
                len(content) >= size, f"{name}: argument {index} has {size} bytes, {len(content)} are bound"
            )
            return 0
        require(index in self._buffers, f"{name}: no buffer is bound to its argument {index}")
        reference, offset = self._buffers[index]
        buffer = _alive(reference, name)
        address = buffer.start + offset
        require(not address % -size, f"{name}: argument {index} must lie at a multiple of {-size}")
        self.touch(buffer)
        return address
