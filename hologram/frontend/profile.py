"""Profile: every launch of an executor with the times of its device, and what they add up to."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from hologram.foundation import lazy
from hologram.foundation.frozen import frozen
from hologram.foundation.handles import Handle
from hologram.machine.kernel import Launch
from hologram.machine.timeline import Clock, Mark
from hologram.runtime.engine import Engine
from hologram.runtime.launches.observer import LaunchTime, Subject

if TYPE_CHECKING:
    import os
    import pathlib

    from hologram.foundation import display
    from hologram.frontend import trace_file
else:  # needed to show a profile, not to open an executor
    display, trace_file = (
        lazy.module("hologram.foundation.display"),
        lazy.module("hologram.frontend.trace_file"),
    )


@frozen(slots=True)
class KernelTime:
    """What the launches of one kernel add up to; `share` is the part of all launches' time, 0 to 1.

    One that ran on several `schedule`s has one of these for each.
    """

    name: str
    schedule: str
    count: int
    total_ns: int
    median_ns: int
    share: float


@frozen(slots=True)
class _Call:
    """One launch with marks in place of the device's times."""

    subject: Subject
    thread: int
    enqueued_ns: int
    returned_ns: int
    marks: tuple[Mark, Mark]


class Profile(Handle):
    """Times every launch of an executor between enter and exit; the results are there from exit on.

    Where the device writes timestamps nothing waits for a launch; elsewhere each is waited for, and `clock` says so.
    `launches` are in the order of the calls, `kernels` the totals, the longest first. `print(profile)` shows a table.
    """

    _elsewhere = "pickle its launches and kernels"

    def __init__(self, executor: Engine) -> None:
        self.executor = executor
        self.clock: Clock | None = None
        self.launches: tuple[LaunchTime, ...] = ()
        self.began_ns = 0  # by time.perf_counter_ns
        self.duration_ns = 0  # from enter to the end of the last launch
        self._calls: list[_Call] = []

    def __enter__(self) -> Profile:
        return self.executor.dispatch(Profile._begin, "profile", self)

    def _begin(self) -> Profile:
        self.executor.synchronize()
        self._timeline = self.executor.device.timeline()
        self.clock = self._timeline.clock
        self._calls = []
        self.launches = ()
        self.began_ns = time.perf_counter_ns()
        self.executor.bound.watch(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.executor.bound.unwatch(self)
        if kind is None:
            self._collect()

    @property
    def kernels(self) -> list[KernelTime]:
        times: dict[tuple[str, str], list[int]] = {}
        for launch in self.launches:
            key = (launch.subject.kernel, launch.subject.schedule)
            times.setdefault(key, []).append(launch.duration_ns)
        everything = sum(map(sum, times.values())) or 1
        totals = [
            KernelTime(*key, len(t), sum(t), round(float(np.median(t))), sum(t) / everything)
            for key, t in times.items()
        ]
        return sorted(totals, key=lambda k: -k.total_ns)

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the launches as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing; gives the file's path."""
        clock = self.clock.value if self.clock else ""
        return trace_file.write(
            path, self.launches, self.executor.device.info, clock, self.clock is Clock.CALL
        )

    def __str__(self) -> str:
        busy_ns = sum(launch.duration_ns for launch in self.launches)
        shown = display.table(
            "kernel",
            "schedule",
            "count",
            "total",
            "median",
            "share",
            numbers=("count", "total", "median", "share"),
        )
        for k in self.kernels:
            times = (display.duration(ns * 1e-9) for ns in (k.total_ns, k.median_ns))
            shown.add_row(k.name, k.schedule, str(k.count), *times, f"{k.share:.1%}")
        count = f"{len(self.launches)} launch{'' if len(self.launches) == 1 else 'es'}"
        busy, span = display.duration(busy_ns * 1e-9), display.duration(self.duration_ns * 1e-9)
        clock = self.clock.value if self.clock else "none yet"
        return f"{count}, {busy} of {span} (clock: {clock})\n{display.plain(shown)}"

    def observed(self, subject: Subject, launch: Launch) -> Launch:
        """See Observer."""
        around, calls, now = self._timeline.around, self._calls, time.perf_counter_ns

        def run() -> None:
            enqueued_ns = now()
            marks = around(launch)
            calls.append(_Call(subject, threading.get_ident(), enqueued_ns, now(), marks))

        return run

    def _collect(self) -> None:
        calls = tuple(self._calls)  # other threads' launches may still end
        times = self._timeline.times([mark for call in calls for mark in call.marks])
        starts, ends = times[::2], times[1::2]
        # The clocks are aligned to some microseconds; what is certain is that nothing runs before it is enqueued.
        late = max((c.enqueued_ns - s for c, s in zip(calls, starts, strict=True)), default=0)
        shift = max(late, 0) - self.began_ns
        threads = {ident: n for n, ident in enumerate(dict.fromkeys(c.thread for c in calls))}
        self.launches = tuple(
            LaunchTime(
                call.subject,
                threads[call.thread],
                call.enqueued_ns - self.began_ns,
                call.returned_ns - self.began_ns,
                start + shift,
                end + shift,
            )
            for call, start, end in zip(calls, starts, ends, strict=True)
        )
        self.duration_ns = max((launch.end_ns for launch in self.launches), default=0)
        self._calls = []
