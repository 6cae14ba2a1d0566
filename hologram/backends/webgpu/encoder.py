"""The one open command encoder of a device, with its one open compute pass: launches append, the rest flushes.

Creating an encoder, a pass and a submission costs ten times a dispatch, so dispatches share them. WebGPU keeps the
order of commands, and the barriers between dispatches of a pass, by itself.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hologram.backends.webgpu.native.library import LogicalDevice
from hologram.foundation import forks
from hologram.foundation.errors import DeviceLost, HologramError, OutOfMemory
from hologram.machine.kernel import Launch, in_turn

# Dispatches after which a batch is submitted, so that the GPU works while the host encodes. On a software adapter a
# submission blocks until the one before has run, so it pays to submit less often.
BATCH = 64
BATCH_SOFTWARE = 256
# Sleep between two looks whether the GPU is done: none at first, since it takes 60 us at least, but where a CPU
# emulates the GPU and would lose what looking takes.
SPIN_S, LONGEST_LOOK_S = 200e-6, 0.02

# The encoder's words, which compiled launches read and write (launch.ll): the open pass, the pipeline that is set in it
# (0: nobody knows), dispatches in the batch, and how many make one.
PASS, PIPELINE, COUNT, BATCHED = range(4)

_OUT_OF_MEMORY = 3  # WGPUErrorType
_SUCCESS = 1  # WGPUMapAsyncStatus


class Dispatch(NamedTuple):
    """All that a dispatch tells the encoder."""

    pipeline: Any  # see pipeline.Pipeline
    group: Any  # WGPUBindGroup
    offsets: Any  # uint32_t[]: where in the group's memories what the dispatch sees begins
    parameters: Any  # immediates
    size: int  # of them, in bytes
    x: int
    y: int
    z: int
    owners: tuple[Any, ...]  # what must stay alive


class Recorded(functools.partial):
    """A launch that appends dispatches: a partial of `_appender`'s function."""

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        return self.args[0]


def sequence(encoder: Encoder, launches: Sequence[Launch]) -> Launch:
    """One call for launches in order: neighbours are appended together, under one lock."""
    calls: list[Launch] = []
    for recorded, group in itertools.groupby(launches, lambda launch: type(launch) is Recorded):
        members: Any = list(group)
        calls += [encoder.launch([d for r in members for d in r.dispatches])] if recorded else members
    return in_turn(calls)


class Encoder:
    """Commands on their way to the queue; every method may be called from any thread."""

    def __init__(self, device: LogicalDevice, batch: int, *, blocks: bool = False) -> None:
        self.device = device
        self.blocks = blocks  # a submission waits until the one before has run
        self.lib, self.ffi = device.library.lib, device.library.ffi
        self.words = array("Q", [0, 0, 0, batch])
        self.lock = threading.RLock()
        self.unusable: HologramError | None = None  # why nothing can be enqueued any more
        self.forked = False
        self.commands: Any = None  # WGPUCommandEncoder
        self.pass_: Any = (
            None  # WGPUComputePassEncoder; None also makes launches ask `begin`, which checks `unusable`
        )
        self.writes = 0  # queue writes since the last wait: they may hold staging memory
        self.unsubmitted = False  # whether queue writes wait for a submission
        self._submission = self.ffi.new("WGPUCommandBuffer[1]")
        self._map_status = status = self.ffi.new("int *")

        interrupted = device.health.interrupted

        @self.ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", interrupted)
        def on_map(result: int, _message: Any, _1: Any, _2: Any) -> None:
            status[0] = result

        self._map_info = self.ffi.new("WGPUBufferMapCallbackInfo *")
        self._map_info.mode = self.lib.WGPUCallbackMode_AllowProcessEvents
        self._map_info.callback = on_map
        self._callbacks = (on_map,)

    # State.

    @property
    def batch(self) -> int:
        """After how many dispatches a batch is submitted."""
        return self.words[BATCHED]

    @batch.setter
    def batch(self, dispatches: int) -> None:
        self.words[BATCHED] = dispatches

    def check(self) -> None:
        """Raises what the library reported since the last check, or why the device cannot be used any more."""
        health = self.device.health
        health.check()
        if self.unusable is None and health.lost:
            self.unusable = DeviceLost(
                f"webgpu: {self.device.adapter.name} was lost: {health.lost}; open a new Executor"
            )
        if self.unusable is not None:
            health.errors.clear()
            raise self.unusable
        if health.errors:
            kind, message = health.errors[0]
            health.errors.clear()
            if "device is lost" in message:
                health.lost = message
                self.check()
            # wgpu-native 29 calls the driver's refusal of a buffer a validation error.
            if kind == _OUT_OF_MEMORY or "Not enough memory" in message:
                raise OutOfMemory(f"webgpu: {message}")
            raise HologramError(f"webgpu: {message}")

    def abandon(self) -> None:
        """Makes every later call raise BackendUnavailable; see hologram.foundation.forks."""
        self.lock = threading.RLock()
        self.unusable = forks.unavailable("webgpu")
        self.forked = True
        self.commands = self.pass_ = None
        self.words[PASS] = 0

    def owned(self, handle: Any, release: Callable[[Any], None]) -> Any:
        """The handle, released with its last reference; not in a forked child, where the library has no threads.

        Each object of a device keeps all of it: what nobody releases costs the device's memory and threads.
        """

        def drop(h: Any) -> None:
            if not self.forked:
                release(h)

        return self.ffi.gc(handle, drop)

    def __del__(self) -> None:
        if not self.forked:
            self._end_pass()
            if self.commands is not None:
                self.lib.wgpuCommandEncoderRelease(self.commands)

    # Recording.

    def begin(self) -> Any:
        """The open compute pass."""
        if self.pass_ is None:
            encoder = self._encoder()
            self.pass_ = self.lib.wgpuCommandEncoderBeginComputePass(encoder, self.ffi.NULL)
            self.words[PASS], self.words[PIPELINE] = self.address(self.pass_), 0
        return self.pass_

    def address(self, handle: Any) -> int:
        """Where a handle of the library's leads, for compiled launches."""
        return int(self.ffi.cast("uintptr_t", handle))

    def copies(self) -> Any:
        """The open command encoder, for commands that are not allowed inside a pass."""
        self._end_pass()
        return self._encoder()

    def launch(self, dispatches: Sequence[Dispatch]) -> Launch:
        """A call that appends dispatches, at most a batch at a time, so that the GPU starts on them."""
        append = _appender(self)  # not kept: the encoder goes with its last reference
        batch = self.batch
        parts = [Recorded(append, tuple(dispatches[k : k + batch])) for k in range(0, len(dispatches), batch)]
        return in_turn(parts)

    # Submitting.

    def flush(self) -> None:
        """Submits what is recorded."""
        with self.lock:
            self.check()
            if self.commands is None:
                self._submit_writes()
                return
            self._before_submission()
            self._end_pass()
            lib = self.lib
            encoder, self.commands, self.words[COUNT] = self.commands, None, 0
            buffer = lib.wgpuCommandEncoderFinish(encoder, self.ffi.NULL)
            lib.wgpuCommandEncoderRelease(encoder)
            try:
                self.check()  # the library ends the process where commands are submitted that could not be finished
                self._submission[0] = buffer
                lib.wgpuQueueSubmit(self.device.queue, 1, self._submission)
            finally:
                lib.wgpuCommandBufferRelease(buffer)
            self.unsubmitted = False
            self.check()

    def idle(self) -> bool:
        """Whether everything written and flushed is done; does not wait."""
        if self.blocks and not self._done():
            return False
        self._submit_writes()
        return self._done()

    def wait(self) -> None:
        """Flushes, and waits until everything is done."""
        with self.lock:
            self.flush()
            self._poll()
            self.check()

    @contextmanager
    def mapped(self, buffer: Any, mode: int, offset: int, size: int, *, alone: bool = False) -> Iterator[Any]:
        """The address of a range of a mappable buffer, once the GPU is done with all that was submitted.

        `alone`: once it is done with what uses the buffer. The caller holds the lock. `offset` is a multiple of 8,
        `size` of 4.
        """
        try:
            yield self._map(buffer, mode, offset, size, alone)
        except BaseException:  # Ctrl-C too: a buffer that stays mapped is closed to the GPU
            self.lib.wgpuBufferUnmap(buffer)
            self.device.health.errors.clear()  # where it was not mapped
            raise
        self.lib.wgpuBufferUnmap(buffer)

    def _map(self, buffer: Any, mode: int, offset: int, size: int, alone: bool) -> Any:
        self._submit_writes()
        status = self._map_status
        status[0] = 0
        self.lib.wgpuBufferMapAsync(buffer, mode, offset, size, self._map_info[0])
        if alone:
            self._looked(lambda: self._done() or status[0] != 0)
        else:
            self._poll()
        if status[0] != _SUCCESS:
            self.check()
            raise HologramError(f"webgpu: mapping {size} bytes at {offset} failed with status {status[0]}")
        get = self.lib.wgpuBufferGetConstMappedRange if mode == 1 else self.lib.wgpuBufferGetMappedRange
        return get(buffer, offset, size)

    def _poll(self) -> None:
        self._submit_writes()
        self._settle()
        self.writes = 0

    def _done(self) -> bool:
        """Whether all that was submitted has run.

        wgpu-native 29 gives a byte where its header says a WGPUBool: what the other three hold is chance. May go when
        this gives 0 or 1 while the GPU works.
        """
        return bool(self.lib.wgpuDevicePoll(self.device.handle, 0, self.ffi.NULL) & 0xFF)

    def _settle(self) -> None:
        """Waits until all that was submitted has run, by looks that come the rarer the longer it takes.

        Python hears Ctrl-C between them, in the main thread only; the library's own wait would keep it from that.
        """
        if threading.current_thread() is threading.main_thread():
            self._looked(self._done)
        self.lib.wgpuDevicePoll(
            self.device.handle, 1, self.ffi.NULL
        )  # which also tells who waits for a mapping

    def _looked(self, done: Callable[[], bool]) -> None:
        """Looks until something is done."""
        begun = time.perf_counter()
        while not done():
            waited = time.perf_counter() - begun
            spins = waited < SPIN_S and not self.blocks
            time.sleep(0 if spins else min(waited / 8, LONGEST_LOOK_S))

    def _before_submission(self) -> None:
        """Waits here, where Ctrl-C is heard, for what the library would wait for."""
        if self.blocks:
            self._settle()

    def _submit_writes(self) -> None:
        """An empty submission carries the queue's writes, which wait for one."""
        if self.unsubmitted:
            self._before_submission()
            self.lib.wgpuQueueSubmit(self.device.queue, 0, self.ffi.NULL)
            self.unsubmitted = False

    def _encoder(self) -> Any:
        if self.commands is None:
            self.check()
            self.commands = self.lib.wgpuDeviceCreateCommandEncoder(self.device.handle, self.ffi.NULL)
        return self.commands

    def _end_pass(self) -> None:
        if self.pass_ is not None:
            self.lib.wgpuComputePassEncoderEnd(self.pass_)
            self.lib.wgpuComputePassEncoderRelease(self.pass_)
            self.pass_ = None
            self.words[PASS] = 0


def _appender(encoder: Encoder) -> Callable[[Sequence[Dispatch]], None]:
    """The function that appends dispatches to the open pass. What it calls is looked up here, not each time."""
    lib, words = encoder.lib, encoder.words
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    set_immediates = lib.wgpuComputePassEncoderSetImmediates
    dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups

    def append(dispatches: Sequence[Dispatch]) -> None:
        with encoder.lock:
            pass_ = encoder.pass_ or encoder.begin()
            current = words[PIPELINE]
            for pipeline, group, offsets, parameters, size, x, y, z, _ in dispatches:
                if pipeline.address != current:
                    set_pipeline(pass_, pipeline.handle)
                    current = pipeline.address
                set_bind_group(pass_, 0, group, len(offsets), offsets)
                if size:
                    set_immediates(pass_, 0, parameters, size)
                dispatch(pass_, x, y, z)
            words[PIPELINE] = current
            words[COUNT] += len(dispatches)
            if words[COUNT] >= words[BATCHED]:
                encoder.flush()

    return append
