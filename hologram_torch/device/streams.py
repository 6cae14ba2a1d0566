"""Streams and events of the device: it has one queue, which runs everything in order.

So all streams of a device are that queue, waiting for one on the same device is done before it begins, and an event is
a place in it. PyTorch's own in C++ would wait for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C._autograd import DeviceType  # pyright: ignore

from hologram.frontend import stream as queue
from hologram_torch.accelerator import is_meant
from hologram_torch.device.devices import devices
from hologram_torch.stand_in import StandIn
from hologram_torch.watch import unread

KIND: Any = DeviceType.PrivateUse1
TheirStream: Any = torch._C.Stream  # PyTorch's, also where a door stands before it; ours widen its signatures
TheirEvent: Any = torch._C.Event


def synchronize(device: Any = None) -> None:
    """Waits until everything asked of a device is done."""
    executor = devices.executor(devices.index_of(device))
    executor.synchronize()
    unread.read(executor)


class Stream(TheirStream, metaclass=StandIn):
    """torch.Stream: of a device of hologram its queue, of others PyTorch's."""

    def __new__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not is_meant(device):
            return TheirStream(device, *args, **kwargs)
        return _streams[devices.index_of(kwargs.get("device_index", device))]

    def synchronize(self) -> None:
        """Waits until everything asked of the device is done."""
        synchronize(self.device)

    def query(self) -> bool:
        """Whether everything is done: waits for it, since no backend tells without."""
        self.synchronize()
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Marks this place of the queue with an event, a new one if None."""
        mark = event or Event(self.device)
        mark.record(self)
        return mark

    def wait_event(self, event: Event) -> None:
        """Has what is asked later come after an event; one of the same device comes before it anyway."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Has what is asked later come after what another stream was asked."""
        if stream.device != self.device:
            stream.synchronize()

    def __enter__(self) -> Stream:
        _local.before.append(devices.current)
        devices.current = self.device.index
        return self

    def __exit__(self, *exception: object) -> None:
        devices.current = _local.before.pop()


class _Local(threading.local):
    def __init__(self) -> None:
        self.before: list[int] = []  # current devices outside streams that were entered


_local = _Local()


class _Streams(dict[int, Stream]):
    """The one stream of each device."""

    def __missing__(self, index: int) -> Stream:
        devices.place(index)
        made = TheirStream.__new__(Stream, stream_id=0, device_index=index, device_type=int(KIND))
        self[index] = made
        return made


_streams = _Streams()
current_stream_of = _streams.__getitem__  # by number


class Event(TheirEvent, metaclass=StandIn):
    """torch.Event: of a device of hologram a place in its queue, of others PyTorch's."""

    _mark: queue.Event | None = None
    _timed: bool

    def __new__(cls, device: Any = None, **kwargs: Any) -> Any:
        if not is_meant(device):
            return TheirEvent(device, **kwargs)
        if kwargs.get("interprocess"):
            raise NotImplementedError("hologram: events are not shared between processes")
        index = devices.index_of(device)
        devices.place(index)
        event = TheirEvent.__new__(cls, device=torch.device("hologram", index), **kwargs)
        event._timed = bool(kwargs.get("enable_timing"))
        return event

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks this place of the queue."""
        if not isinstance(stream, (torch.Stream, type(None))):
            raise TypeError(f"hologram: an event is recorded in a stream, got {type(stream).__name__}")
        index = devices.current if stream is None else stream.device.index
        self._mark = devices.executor(index).event()
        self._mark.record()

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Has what a stream is asked later come after this; on the same device it does anyway."""
        index = devices.current if stream is None else stream.device.index
        if self._mark is not None and self._mark.executor is not devices.executor(index):
            self.synchronize()

    def synchronize(self) -> None:
        """Waits for what was asked before; an event that was not recorded waits for nothing."""
        if self._mark is not None:
            self._mark.synchronize()

    def query(self) -> bool:
        """Whether what was asked before is done: waits for it, since no backend tells without."""
        self.synchronize()
        return True

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this event to another."""
        if not (self._timed and other._timed):
            raise ValueError("hologram: both events must be created with enable_timing=True")
        if self._mark is None or other._mark is None:
            raise ValueError("hologram: both events must be recorded before the time between them is asked")
        if self._mark.executor is not other._mark.executor:
            raise ValueError("hologram: the time between two events is that of one device")
        return self._mark.elapsed_ms(other._mark)


class TimedEvent(Event):
    """torch.hologram.Event: as torch.cuda.Event, whose first argument is whether it keeps time."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        return super().__new__(
            cls, None, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )


def current_stream(device: Any = None) -> Stream:
    """The stream of a device: everything runs in order."""
    return _streams[devices.index_of(device)]


default_stream = current_stream


@contextmanager
def stream(stream: Stream | None) -> Iterator[Stream | None]:
    """A context in which a stream is the current one, and its device; nothing for None."""
    if stream is None:
        yield None
        return
    with stream:
        yield stream


def set_stream(stream: Stream) -> None:
    """Makes a stream the current one, and its device."""
    devices.current = stream.device.index
