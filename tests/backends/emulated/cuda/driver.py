"""A stand-in for cuda.bindings.driver: the functions that the backend calls, on an emulated card, strictly.

It has the types and enumerations of the real module, and functions of the same names, arguments and answers. What a
program may meet it answers with a status, as the driver does: no memory left, code that is none. What no correct
program does it raises `Misuse` for at once, where a driver would crash, corrupt memory, or do what was meant by luck.
Work is done when somebody waits for it and not before, so that a wait that is missing shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.kernel_calls import KernelCalls
from tests.backends.emulated.cuda.machine import CARD_BYTES, OK, S
from tests.backends.emulated.cuda.memory import Memory, Misuse
from tests.backends.emulated.cuda.memory_calls import MemoryCalls
from tests.backends.emulated.cuda.streams import Context, Event, Stream
from tests.backends.emulated.cuda.tensor_maps import TensorMaps


class Driver(MemoryCalls, KernelCalls, TensorMaps):
    """All the functions; here those of devices, contexts, streams and events."""

    # The driver and its devices.

    def cuInit(self, flags: int) -> Any:
        self.started = True
        return OK

    def cuGetErrorString(self, status: Any) -> Any:
        return S.CUDA_SUCCESS, S(status).name.lower().encode()

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
        numbers = {
            name: getattr(real.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}") for name in self.attributes
        }
        (found,) = (self.attributes[name] for name, number in numbers.items() if number == which)
        return S.CUDA_SUCCESS, found

    def cuDeviceCanAccessPeer(self, device: int, peer: int) -> Any:
        return S.CUDA_SUCCESS, int(int(device) != int(peer) and {int(device), int(peer)} <= self.peers)

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        context = self.contexts[int(device)]
        context.count += 1
        if context.handle not in self.handles:
            context.handle = self._new(context)
        return S.CUDA_SUCCESS, context.handle

    def cuDevicePrimaryCtxReset(self, device: int) -> Any:
        self._destroyed(self.contexts[int(device)])
        return OK

    def cuDevicePrimaryCtxRelease(self, device: int) -> Any:
        context = self.contexts[int(device)]
        if not context.count:
            raise Misuse("cuDevicePrimaryCtxRelease: it is not held")
        context.count -= 1
        if not context.count:
            self._ended(context)
        return OK

    def _ended(self, context: Context) -> None:
        """Raises Misuse for what a context leaves behind."""
        if context.error:
            self._destroyed(context)
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

    def _destroyed(self, context: Context) -> None:
        """All that it had goes with a context: whoever still names any of it reaches for memory that is not there."""
        context.error = ""
        self.cards[context.ordinal] = Memory(CARD_BYTES)
        for allocation in self.pinned.live():
            if allocation.context is context:
                self.pinned.free(allocation)
        self.handles = {k: v for k, v in self.handles.items() if getattr(v, "context", None) is not context}

    def cuCtxPushCurrent(self, handle: Any) -> Any:
        context = self._get(handle, Context, "cuCtxPushCurrent")
        if not context.count:
            raise Misuse("cuCtxPushCurrent: the context was given back")
        self.current.stack = [*getattr(self.current, "stack", []), context]
        return OK

    def cuCtxPopCurrent(self) -> Any:
        context = self.current_context("cuCtxPopCurrent")
        self.current.stack = self.current.stack[:-1]
        return S.CUDA_SUCCESS, context.handle

    def cuCtxSynchronize(self) -> Any:
        context = self.current_context("cuCtxSynchronize")
        for thing in tuple(self.handles.values()):
            if isinstance(thing, Stream) and thing.context is context:
                self._drain(thing)
        return self._status(context)

    # Streams and events.

    def cuStreamCreate(self, flags: Any) -> Any:
        return S.CUDA_SUCCESS, self._new(Stream(self.current_context("cuStreamCreate")))

    def cuStreamSynchronize(self, handle: Any) -> Any:
        stream = self.stream_of(handle, "cuStreamSynchronize")
        self._drain(stream)
        return self._status(stream.context)

    def cuStreamDestroy(self, handle: Any) -> Any:
        self._drain(self.stream_of(handle, "cuStreamDestroy"))
        self._pop(handle, Stream, "cuStreamDestroy")
        return OK

    def cuStreamGetCtx(self, handle: Any) -> Any:
        return S.CUDA_SUCCESS, self.stream_of(handle, "cuStreamGetCtx", current=False).context.handle

    def cuStreamWaitEvent(self, handle: Any, event: Any, flags: int) -> Any:
        who = "cuStreamWaitEvent"
        waiting, passed = self.stream_of(handle, who), self._get(event, Event, who)
        if passed.stream is not None and passed.stream is not waiting:
            first, place = passed.stream, passed.place
            waiting.add(lambda: first.drain(place))
        return OK

    def cuEventCreate(self, flags: Any) -> Any:
        timing = not int(flags) & int(real.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        return S.CUDA_SUCCESS, self._new(Event(self.current_context("cuEventCreate"), timing))

    def cuEventRecord(self, handle: Any, stream: Any) -> Any:
        who = "cuEventRecord"
        event, into = self._get(handle, Event, who), self.stream_of(stream, who)
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

    def cuEventQuery(self, handle: Any) -> Any:
        event = self._get(handle, Event, "cuEventQuery")
        if event.context.error:
            return self._status(event.context)
        return OK if event.passed else (S.CUDA_ERROR_NOT_READY,)

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
