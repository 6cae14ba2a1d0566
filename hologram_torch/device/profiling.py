"""What a profile of PyTorch's shows of the devices: their launches, and the operators that these belong to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from torch._C._autograd import DeviceType  # pyright: ignore
from torch.autograd.profiler_util import FunctionEvent

from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.profile import Profile
from hologram.runtime.launches.observer import LaunchTime
from hologram_torch.device.devices import devices
from hologram_torch.device.memory import Growth
from hologram_torch.libraries.with_profiler import running, ways
from hologram_torch.loading import NAME


@frozen
class Watched:
    """A device's launches in one cycle of a profiler; `unix_ns` is how far Unix time is ahead of Python's counter."""

    index: int
    profile: Profile
    unix_ns: int
    growth: Growth | None  # where memory is profiled

    @property
    def began_ns(self) -> int:
        """In Unix time, which PyTorch's events have too."""
        return self.profile.began_ns + self.unix_ns

    def end(self) -> None:
        """Waits for the launches."""
        if self.growth is not None:
            self.growth.end()
        self.profile.__exit__(None)

    def span_us(self, launch: LaunchTime, origin_ns: int) -> tuple[float, float]:
        """When a launch ran on the device, and for how long."""
        return (self.began_ns + launch.start_ns - origin_ns) / 1000, launch.duration_ns / 1000

    @property
    def title(self) -> str:
        info, clock = self.profile.executor.device.info, self.profile.clock
        return f"{NAME}:{self.index} ({info.backend}: {info.name}; clock: {clock.value if clock else 'none'})"


def begin(watched: dict[Executor, Watched], memory: bool) -> None:
    """Watches the devices that are open."""
    for executor in devices.opened():
        _watch(watched, memory, executor)


def _watch(watched: dict[Executor, Watched], memory: bool, executor: Executor) -> None:
    """Watches a device, unless another thread does: two may come to a device that was just opened."""
    unix_ns = time.time_ns() - time.perf_counter_ns()
    index = devices.number(executor)
    one = Watched(index, executor.profile(), unix_ns, Growth(executor, index) if memory else None)
    if watched.setdefault(executor, one) is one:
        try:
            one.profile.__enter__()
            if one.growth is not None:
                one.growth.begin()
        except BaseException:  # then there is nothing to end
            del watched[executor]
            raise


def _opened(executor: Executor) -> None:
    for profile in running:
        _watch(profile.hologram_watched, profile.profile_memory, executor)


def settle() -> None:
    """Watches devices that are opened while a profile runs, from then on."""
    devices.on_opening.append(_opened)
    ways.update(begin=begin, rows=rows, extend=extend)
    for profile in running:
        begin(profile.hologram_watched, profile.profile_memory)


def rows(watched: Sequence[Watched], events: Sequence[Any], origin_ns: int) -> Iterator[Any]:
    """An event for each launch, which is counted as a kernel of the operator that launched it."""
    number = max((e.id for e in events), default=0)
    for one in watched:
        launches = one.profile.launches
        callers = _callers(events, [(one.began_ns + x.enqueued_ns - origin_ns) / 1000 for x in launches])
        for launch, caller in zip(launches, callers, strict=True):
            number += 1
            name, (start, duration) = launch.subject.kernel, one.span_us(launch, origin_ns)
            if caller is not None:
                caller.append_kernel(name, one.index, duration)
            yield FunctionEvent(
                id=number, name=name, trace_name=name, thread=launch.thread, start_us=start, end_us=start + duration,
                use_device=NAME, device_type=DeviceType.PrivateUse1, device_index=one.index,
                device_resource_id=launch.thread, input_shapes=(), stack=[],
            )  # fmt: skip


def _callers(events: Sequence[Any], times: Sequence[float]) -> list[Any]:
    """For each time, in microseconds, which operator of the host began last of those that last still; None for none.

    Where several threads run operators this may be another thread's: events do not say which of Python's it is.
    """
    operators = sorted(
        (e for e in events if e.device_type == DeviceType.CPU and not (e.is_async or _is_of_python(e))),
        key=lambda e: (e.time_range.start, -e.time_range.end),
    )
    callers: list[Any] = [None] * len(times)
    lasting: list[Any] = []
    after = 0
    for place in sorted(range(len(times)), key=times.__getitem__):
        at = times[place]
        while after < len(operators) and operators[after].time_range.start <= at:
            lasting.append(operators[after])
            after += 1
        while lasting and lasting[-1].time_range.end < at:
            lasting.pop()
        if lasting:
            callers[place] = lasting[-1]
    return callers


def _is_of_python(event: Any) -> bool:
    """Whether it is a function of Python's, which a profile with stacks has too; ours launch what operators ask for."""
    return getattr(event, "is_python_function", False)


def extend(path: str, watched: Sequence[Watched]) -> None:
    """Adds a process for each device to a file in the "Trace Event Format", whose times are microseconds."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    origin_ns = int(trace.get("baseTimeNanoseconds", 0))
    for one in watched:
        trace["traceEvents"] += _trace_events(one, origin_ns)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file)


def _trace_events(one: Watched, origin_ns: int) -> Iterator[dict[str, Any]]:
    place = {"pid": one.index, "tid": 0}
    yield {"ph": "M", "name": "process_name", **place, "ts": 0, "args": {"name": one.title}}
    for launch in one.profile.launches:
        subject, (start, duration) = launch.subject, one.span_us(launch, origin_ns)
        told = {"device": one.index, "grid": list(subject.grid), "schedule": subject.schedule}
        row = {**place, "tid": launch.thread, "ts": start, "dur": duration, "args": told}
        yield {"ph": "X", "cat": "kernel", "name": subject.kernel, **row}
