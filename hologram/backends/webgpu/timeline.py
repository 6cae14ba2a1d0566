"""The GPU's own clock: timestamp queries between the dispatches of the open compute pass.

Marks cost a C call each and wait for nothing. They are written where the adapter can: within the pass, or between two
passes, which ends the open one. Query sets are made as they fill up and go with the last mark in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hologram.backends.webgpu.encoder import Encoder
from hologram.backends.webgpu.memory import Transfers
from hologram.backends.webgpu.native.library import COPY_SRC, QUERY_RESOLVE
from hologram.backends.webgpu.pipeline import Pipelines
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Launch
from hologram.machine.timeline import Clock, HostTimeline, Timeline, calibrated

SET_SIZE = 4096  # the most that WebGPU allows
WORD = 8  # bytes of a timestamp


class QuerySet:
    """Queries of which the first `used` are written."""

    def __init__(self, pipelines: Pipelines) -> None:
        lib, ffi = pipelines.lib, pipelines.ffi
        descriptor = ffi.new("WGPUQuerySetDescriptor *")
        descriptor.type = lib.WGPUQueryType_Timestamp
        descriptor.count = SET_SIZE
        handle = lib.wgpuDeviceCreateQuerySet(pipelines.encoder.device.handle, descriptor)
        self.handle = pipelines.encoder.owned(handle, lib.wgpuQuerySetRelease)
        self.used = 0
        self.ticks = np.empty(0, np.uint64)  # those that were read


@frozen(eq=False, slots=True)
class Query:
    """A mark: one query of a set."""

    queries: QuerySet
    index: int


class QueryTimeline:
    """See hologram.machine.device.Timeline. `within_pass`: the adapter writes timestamps inside compute passes."""

    clock = Clock.DEVICE

    def __init__(self, pipelines: Pipelines, transfers: Transfers, within_pass: bool) -> None:
        self._encoder: Encoder = pipelines.encoder
        self._pipelines = pipelines
        self._transfers = transfers
        self._within_pass = within_pass
        with self._encoder.lock:
            self._queries = QuerySet(pipelines)
            self._period_ns = self._encoder.lib.wgpuQueueGetTimestampPeriod(self._encoder.device.queue)
            self._tick, self._host_ns = self._calibrate()

    def mark(self) -> Query:
        encoder = self._encoder
        with encoder.lock:
            encoder.check()
            if self._queries.used == SET_SIZE:
                self._queries = QuerySet(self._pipelines)
            queries = self._queries
            index = queries.used
            if self._within_pass:
                pass_ = encoder.begin()
                encoder.lib.wgpuComputePassEncoderWriteTimestamp(pass_, queries.handle, index)
            else:
                encoder.lib.wgpuCommandEncoderWriteTimestamp(encoder.copies(), queries.handle, index)
            queries.used = index + 1
            return Query(queries, index)

    def around(self, launch: Launch) -> tuple[Query, Query]:
        with self._encoder.lock:
            start = self.mark()
            launch()
            return start, self.mark()

    def times(self, marks: Sequence[Query]) -> list[int]:
        with self._encoder.lock:
            ticks = [self._tick_of(m) for m in marks]
        return [self._host_ns + round((t - self._tick) * self._period_ns) for t in ticks]

    def _tick_of(self, mark: Query) -> int:
        if mark.index >= len(mark.queries.ticks):
            mark.queries.ticks = self._read(mark.queries)
        return int(mark.queries.ticks[mark.index])

    def _read(self, queries: QuerySet) -> np.ndarray:
        """Every timestamp that a set has so far; waits for the last."""
        lib, ffi, encoder = self._encoder.lib, self._encoder.ffi, self._encoder
        encoder.check()
        size = WORD * queries.used
        memory = self._transfers.allocate(size)
        descriptor = ffi.new("WGPUBufferDescriptor *")
        descriptor.size, descriptor.usage = size, QUERY_RESOLVE | COPY_SRC
        resolved = lib.wgpuDeviceCreateBuffer(encoder.device.handle, descriptor)
        ticks = np.empty(queries.used, np.uint64)
        try:
            encoder.check()
            commands = encoder.copies()
            lib.wgpuCommandEncoderResolveQuerySet(commands, queries.handle, 0, queries.used, resolved, 0)
            lib.wgpuCommandEncoderCopyBufferToBuffer(commands, resolved, 0, memory.live, 0, size)
            self._transfers.read(memory, 0, ticks.view(np.uint8).data)
        finally:
            self._transfers.release(memory)
            lib.wgpuBufferRelease(resolved)
        return ticks

    def _calibrate(self) -> tuple[int, int]:
        """A tick, and the host's nanoseconds at that tick."""

        def since_ns(mark: Query, earlier: Query) -> int:
            return round((self._tick_of(mark) - self._tick_of(earlier)) * self._period_ns)

        first, host_ns = calibrated(self._encoder.wait, self.mark, since_ns)
        return self._tick_of(first), host_ns


def timeline(pipelines: Pipelines, transfers: Transfers) -> Timeline:
    """A new timeline: the GPU's clock where the adapter writes timestamps behind any dispatch, else the host's."""
    features = pipelines.encoder.device.adapter.features
    within_pass = "TimestampQueryInsidePasses" in features
    if within_pass or "TimestampQueryInsideEncoders" in features:
        return QueryTimeline(pipelines, transfers, within_pass)
    return HostTimeline(Clock.WAIT, pipelines.encoder.wait)
