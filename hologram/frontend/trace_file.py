"""A profile as a file of trace events, the JSON that Perfetto and chrome://tracing read.

The format: Google's "Trace Event Format". Times are microseconds. The host and the device are two processes; the host
has a row for each thread that launched, and an arrow leads from each call to its execution.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hologram.machine.device import DeviceInfo
from hologram.runtime.launches.observer import LaunchTime

HOST, DEVICE = 1, 2  # the numbers of the processes

Event = dict[str, Any]


def write(
    path: str | os.PathLike[str], launches: Sequence[LaunchTime], info: DeviceInfo, clock: str, at_once: bool
) -> Path:
    """Writes the file; gives its path. `at_once`: the device runs as many launches as threads call, not one by one."""
    target = Path(path)
    target.write_text(json.dumps(document(launches, info, clock, at_once), allow_nan=False), encoding="utf-8")
    return target


def document(launches: Sequence[LaunchTime], info: DeviceInfo, clock: str, at_once: bool) -> dict[str, Any]:
    """The whole trace."""
    rows = [launch.thread if at_once else 0 for launch in launches]
    events = (_events(k, *placed) for k, placed in enumerate(zip(launches, rows, strict=True)))
    return {
        "traceEvents": [*_names(launches, rows, info), *(e for group in events for e in group)],
        "displayTimeUnit": "ns",
        "otherData": {"backend": info.backend, "device": info.name, "driver": info.driver, "clock": clock},
    }


def _names(launches: Sequence[LaunchTime], rows: Sequence[int], info: DeviceInfo) -> Iterator[Event]:
    """Events that name the rows."""
    yield _name("process_name", HOST, 0, "host")
    yield _name("process_name", DEVICE, 0, f"{info.backend}: {info.name}")
    for thread in sorted({launch.thread for launch in launches}):
        yield _name("thread_name", HOST, thread, f"enqueue, thread {thread}")
    for row in sorted(set(rows)):
        yield _name("thread_name", DEVICE, row, "execution")


def _name(kind: str, process: int, row: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "ts": 0, "args": {"name": name}}


def _events(number: int, launch: LaunchTime, row: int) -> Iterator[Event]:
    """The call, the execution, and the two ends of the arrow between them."""
    subject = launch.subject
    arguments = {"grid": list(subject.grid), "bytes bound": subject.bytes_bound, "schedule": subject.schedule}
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
