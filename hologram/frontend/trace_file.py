"""A profile as a file of trace events, the JSON that Perfetto and chrome://tracing read.

The format: Google's "Trace Event Format". Times are microseconds. The host and the device are two processes; the host
has a row for each thread that launched, and an arrow leads from each call to its execution.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hologram.device import Clock

if TYPE_CHECKING:
    from hologram.frontend.profile import LaunchTime, Profile

HOST, DEVICE = 1, 2  # the numbers of the processes

Event = dict[str, Any]


def write(profile: Profile, path: str | os.PathLike[str]) -> Path:
    """Writes the file; gives its path."""
    target = Path(path)
    target.write_text(json.dumps(document(profile), allow_nan=False), encoding="utf-8")
    return target


def document(profile: Profile) -> dict[str, Any]:
    """The whole trace."""
    info = profile.executor.device.info
    return {
        "traceEvents": [
            *_names(profile),
            *(e for k, t in enumerate(profile.launches) for e in _events(profile, k, t)),
        ],
        "displayTimeUnit": "ns",
        "otherData": {
            "backend": info.backend.value,
            "device": info.name,
            "driver": info.driver,
            "clock": profile.clock.value if profile.clock else "",
        },
    }


def _names(profile: Profile) -> Iterator[Event]:
    """Events that name the rows."""
    info = profile.executor.device.info
    yield _name("process_name", HOST, 0, "host")
    yield _name("process_name", DEVICE, 0, f"{info.backend.value}: {info.name}")
    for thread in sorted({launch.thread for launch in profile.launches}):
        yield _name("thread_name", HOST, thread, f"enqueue, thread {thread}")
    for row in sorted({_row(profile, launch) for launch in profile.launches}):
        yield _name("thread_name", DEVICE, row, "execution")


def _name(kind: str, process: int, row: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "ts": 0, "args": {"name": name}}


def _row(profile: Profile, launch: LaunchTime) -> int:
    """A queue runs launches in turn; a device without one, as many at once as threads call."""
    return launch.thread if profile.clock is Clock.CALL else 0


def _events(profile: Profile, number: int, launch: LaunchTime) -> Iterator[Event]:
    """The call, the execution, and the two ends of the arrow between them."""
    subject, row = launch.subject, _row(profile, launch)
    arguments = {"grid": list(subject.grid), "bytes bound": subject.bytes_bound}
    if subject.workgroups is not None:
        arguments["workgroups"] = subject.workgroups
    named = {"name": subject.kernel}
    host, device = {"pid": HOST, "tid": launch.thread}, {"pid": DEVICE, "tid": row}
    called_us, busy_us = launch.enqueued_ns / 1e3, (launch.returned_ns - launch.enqueued_ns) / 1e3
    start_us, ran_us = launch.start_ns / 1e3, launch.duration_ns / 1e3
    yield {**named, **host, "ph": "X", "cat": "enqueue", "ts": called_us, "dur": busy_us, "args": arguments}
    yield {**named, **device, "ph": "X", "cat": "execution", "ts": start_us, "dur": ran_us, "args": arguments}
    arrow = {"name": "launch", "cat": "launch", "id": number}
    yield {**arrow, **host, "ph": "s", "ts": called_us}
    yield {**arrow, **device, "ph": "f", "bp": "e", "ts": start_us}
