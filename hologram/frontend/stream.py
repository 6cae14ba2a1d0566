"""Order and time: an executor has one queue; events mark places in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hologram.foundation.errors import HologramError
from hologram.foundation.handles import Handle
from hologram.machine.timeline import Mark
from hologram.runtime.engine import Engine

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own from Python 3.11 on


class Stream(Handle):
    """The queue of an executor. Everything enqueued runs in the order of the calls.

    `other` is a queue of another library on the same device: within `with` what is enqueued here comes behind what
    that one held at its beginning, and what that one gets after it comes behind all that was enqueued here.

    Without `other` it has the method by which libraries of the device's vendor take a queue, where there is one: so
    they order theirs with it, as long as the executor is open.
    """

    _elsewhere = "an executor's stream() makes one"

    def __init__(self, executor: Engine, other: Any = None) -> None:
        self.executor = executor
        self.other = other

    def __enter__(self) -> Self:
        if self.other is not None:
            self.executor.dispatch(Stream._follow, "use of a stream", self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.other is not None:
            self.executor.dispatch(Stream._lead, "use of a stream", self)

    def __getattr__(self, name: str) -> Any:
        device = self.executor.device
        if self.other is None and name == device.queue_interface:
            self.executor.check_open()
            return lambda: (0, device.queue_handle)
        raise AttributeError(f"'Stream' object has no attribute {name!r}", name=name, obj=self)

    def _follow(self) -> None:
        self.executor.check_open()
        self.executor.device.follow(self.other)

    def _lead(self) -> None:
        self.executor.device.lead(self.other)

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        self.executor.synchronize()

    def record(self) -> Event:
        """A recorded event."""
        event = Event(self.executor)
        event.record()
        return event


class Event(Handle):
    """A mark in an executor's queue, passed when the work before it is done.

    Times are the device's own where it writes timestamps; elsewhere recording waits for the work before it.
    """

    _elsewhere = "an executor's event() makes one"

    def __init__(self, executor: Engine) -> None:
        self.executor = executor
        self._mark: Mark = None
        self._passed_ns: int | None = None

    def record(self) -> None:
        """Marks this place."""
        self.executor.dispatch(Event._record, "record of an event", self)

    def _record(self) -> None:
        self.executor.check_open()
        self._mark, self._passed_ns = self.executor.timeline.mark(), None

    def synchronize(self) -> None:
        """Waits until the work before the mark is done."""
        self.executor.dispatch(Event._time_ns, "synchronize of an event", self)

    def elapsed_ms(self, later: Event) -> float:
        """Milliseconds from this mark to a later one; waits for both."""
        later.synchronize()
        return (later._time_ns() - self._time_ns()) * 1e-6

    def _time_ns(self) -> int:
        if self._mark is None:
            raise HologramError("the event was not recorded: call record() first")
        if self._passed_ns is None:
            (self._passed_ns,) = self.executor.timeline.times([self._mark])
        return self._passed_ns
