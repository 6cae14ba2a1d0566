"""The command queue of a device: launches gather in an open command buffer, and run in order.

Encoders and command buffers cost more than a dispatch, so dispatches share them, and a batch is handed over when it
is full or somebody waits. Metal would keep order and life of every buffer itself, at a price for each one bound: here
buffers are untracked and command buffers do not retain. One fence, which every encoder waits for and then updates,
keeps the order; a batch holds its dispatches, which hold what they refer to, until the GPU is done with it.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import Any

from hologram.backends.metal.framework import Framework
from hologram.foundation import forks
from hologram.foundation.errors import DeviceLost, HologramError, OutOfMemory

BATCH = 50  # dispatches; MLX's number for the smaller GPUs, to be measured


class Batch:
    """A command buffer, and what it refers to."""

    __slots__ = ("commands", "count", "held", "serial")

    def __init__(self, commands: Any, serial: int) -> None:
        self.commands = commands
        self.serial = serial
        self.count = 0  # dispatches and copies
        self.held: list[Any] = []


class Queue:
    """Every method may be called from any thread."""

    def __init__(self, backend: str, framework: Framework, device: Any) -> None:
        self.backend = backend
        self.framework = framework
        self.device = device
        self.name = str(device.name())
        self.lock = threading.RLock()
        self.unusable: HologramError | None = None  # why nothing can be enqueued any more
        self.forked = False
        self.failure: HologramError | None = None  # of a batch, until somebody is told
        self.encoder: Any = (
            None  # the open compute encoder; None also makes launches ask `begin`, which checks
        )
        self.pipeline: Any = None  # set in it
        self.batch: Batch | None = None  # the open one
        self.pending: deque[Batch] = deque()  # committed
        self.last: Batch | None = None  # that was committed
        self.serial = 0  # of the newest batch
        self.done = 0  # the newest batch that the GPU is done with
        self.views: dict[int, Any] = {}  # memory that others see, by view
        self._blits: Any = None  # the open blit encoder
        self.handle = device.newCommandQueue()
        self._fence = device.newFence()
        self._ordered = False  # whether an encoder has updated the fence

    # State.

    def check_usable(self) -> None:
        """Raises why the device cannot be used any more."""
        if self.unusable is not None:
            raise self.unusable

    def check(self) -> None:
        """Raises why a batch failed, once, or why the device cannot be used any more."""
        self.check_usable()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Makes every later call raise BackendUnavailable; see hologram.foundation.forks.

        What is being encoded is never released here: Metal ends a process that lets go of an open encoder.
        """
        left = (self.encoder, self._blits, self.batch, self.last, *self.pending)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))
        self.lock = threading.RLock()
        self.unusable = forks.unavailable(self.backend)
        self.forked = True
        self.encoder = self._blits = self.pipeline = None

    # Recording.

    def begin(self) -> Any:
        """The open compute encoder."""
        if self.encoder is None:
            self.encoder = self._encoder("computeCommandEncoder")
        return self.encoder

    def blits(self) -> Any:
        """The open blit encoder."""
        if self._blits is None:
            self._blits = self._encoder("blitCommandEncoder")
        return self._blits

    def open(self) -> Batch:
        """The open batch."""
        if self.batch is None:
            self.check()
            with self.framework.pool():
                self.serial += 1
                self.batch = Batch(self.handle.commandBufferWithUnretainedReferences(), self.serial)
        return self.batch

    def _encoder(self, kind: str) -> Any:
        commands = self.open().commands
        self._end_encoders()
        with self.framework.pool():
            encoder = getattr(commands, kind)()
        if self._ordered:
            encoder.waitForFence_(self._fence)
        return encoder

    def _end_encoders(self) -> None:
        for encoder in (self.encoder, self._blits):
            if encoder is not None:
                encoder.updateFence_(self._fence)
                encoder.endEncoding()
                self._ordered = True
        self.encoder = self._blits = self.pipeline = None

    # Handing over, and waiting.

    def flush(self) -> None:
        """Hands over what is recorded."""
        with self.lock:
            self.check()
            self.commit()
            while self.pending and self._is_done(self.pending[0]):
                self.finish(self.pending.popleft())

    def flush_full(self) -> None:
        """Hands over the open batch if there is enough in it; callers hold the lock."""
        if self.batch is not None and self.batch.count >= BATCH:
            self.flush()

    def wait(self, serial: int | None = None) -> None:
        """Waits for the batch of that number, by default for all that was enqueued; callers hold no lock."""
        with self.lock:
            self.check()
            serial = self.serial if serial is None else serial
            if self.batch is not None and serial >= self.batch.serial:
                self.commit()
            awaited = [batch for batch in self.pending if batch.serial <= serial]
        for batch in awaited:  # not under the lock: others may enqueue meanwhile
            batch.commands.waitUntilCompleted()
        with self.lock:
            while self.pending and self.pending[0].serial <= serial:
                self.finish(self.pending.popleft())
            self.check()

    def close(self, reason: HologramError) -> None:
        """Waits for all, as far as it can; later calls raise `reason`.

        Of a lost device as well: the GPU may still use what batches hold, and an open encoder has to be ended.
        """
        with self.lock:
            if self.forked:
                return
            self.commit()
            while self.pending:
                self.pending[0].commands.waitUntilCompleted()
                self.finish(self.pending.popleft())
            self.unusable = reason

    def commit(self) -> None:
        """Hands over the open batch, as it is; callers hold the lock."""
        if self.batch is None:
            return
        self._end_encoders()
        batch, self.batch = self.batch, None
        self.pending.append(batch)
        self.last = batch
        batch.commands.commit()

    def _is_done(self, batch: Batch) -> bool:
        return batch.commands.status() >= self.framework.metal.MTLCommandBufferStatusCompleted

    def finish(self, batch: Batch) -> None:
        """Takes note of a batch that the GPU is done with: lets go of what it held, and sees whether it failed."""
        self.done = batch.serial
        batch.held.clear()
        with self.framework.pool():
            error = batch.commands.error()
            if error is not None:
                self._fail(int(error.code()), str(error.localizedDescription()))

    def _fail(self, code: int, message: str) -> None:
        what = f"{self.backend}: a batch of launches on {self.name} failed with code {code}: {message}"
        if code == self.framework.metal.MTLCommandBufferErrorOutOfMemory:
            self.failure = self.failure or OutOfMemory(what)
        else:  # a fault, a timeout, a device that is gone: what the batch should have written is unknown
            self.unusable = self.unusable or DeviceLost(f"{what}; open a new Executor")
