"""Profiles: every launch with the device's times, what they add up to, and the trace file."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.machine.timeline import Clock, HostTimeline
from hologram.opset import OPERATIONS
from hologram.runtime.launches.replay import Replay
from tests.devices import MemoryDevice

SIZE = 1 << 16
PHASES = {"M", "X", "s", "f"}


@pytest.fixture
def profile(executor: Any) -> Any:
    """Five additions, an exponential, and nothing of what ran before or after."""
    x = executor.tensor(np.ones(SIZE, np.float32))
    out = executor.allocate(SIZE)
    hg.ops.exp(executor, x, out)
    with executor.profile() as profile:
        for _ in range(5):
            hg.ops.vector_add(executor, x, x, out)
        hg.ops.exp(executor, x, out)
    hg.ops.vector_add(executor, x, x, out)
    return profile


def test_a_profile_records_what_ran_inside(profile: Any) -> None:
    assert [t.subject.kernel for t in profile.launches] == ["atlas_add_f32"] * 5 + ["atlas_exp_f32"]
    for launch in profile.launches:
        assert launch.subject.grid == (SIZE,)
        assert launch.subject.bytes_bound == 8 * SIZE
        assert launch.thread == 0


def test_workgroups_are_those_of_the_device(profile: Any, executor: Any) -> None:
    for launch in profile.launches:
        if executor.limits.host_resident:
            assert launch.subject.workgroups is None
        else:
            assert 1 <= launch.subject.workgroups <= SIZE


def test_times_lie_on_one_axis(profile: Any) -> None:
    assert profile.launches[0].enqueued_ns >= 0
    for launch in profile.launches:
        assert launch.enqueued_ns <= launch.returned_ns
        assert launch.enqueued_ns <= launch.start_ns < launch.end_ns
    for before, after in zip(profile.launches, profile.launches[1:], strict=False):
        assert before.returned_ns <= after.enqueued_ns
        assert before.end_ns <= after.start_ns
    assert profile.duration_ns == profile.launches[-1].end_ns


def test_kernels_are_totals_with_the_longest_first(profile: Any) -> None:
    assert {k.name: k.count for k in profile.kernels} == {"atlas_add_f32": 5, "atlas_exp_f32": 1}
    for kernel in profile.kernels:
        own = sorted(t.duration_ns for t in profile.launches if t.subject.kernel == kernel.name)
        assert kernel.total_ns == sum(own)
        assert kernel.median_ns == own[len(own) // 2]
    totals = [k.total_ns for k in profile.kernels]
    assert totals == sorted(totals, reverse=True)
    assert sum(k.share for k in profile.kernels) == pytest.approx(1)


def test_the_clock_is_the_best_there_is(profile: Any, executor: Any) -> None:
    features = dict(executor.device.info.details).get("features")
    if executor.limits.host_resident:
        assert profile.clock is Clock.CALL
    else:
        # An adapter may; a vendor's API has it.
        lacks = features is not None and "TimestampQueryInside" not in features
        assert (profile.clock is Clock.DEVICE) == (not lacks)


def test_a_profile_prints_as_a_table(profile: Any) -> None:
    first, header, *rows = str(profile).splitlines()
    assert first.startswith("6 launches, ")
    assert profile.clock.value in first
    assert header.split() == ["kernel", "schedule", "count", "total", "median", "share"]
    assert [row.split()[0] for row in rows] == [k.name for k in profile.kernels]


def test_an_empty_profile_prints_and_saves(executor: Any, tmp_path: Path) -> None:
    with executor.profile() as profile:
        pass
    assert str(profile).startswith("0 launches, ")
    assert profile.kernels == []
    assert json.loads(profile.save(tmp_path / "trace.json").read_text())["traceEvents"]


def test_the_trace_file_is_of_the_trace_event_format(profile: Any, tmp_path: Path) -> None:
    path = profile.save(str(tmp_path / "trace.json"))
    trace = json.loads(path.read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    named = {(e["name"], e["pid"], e["tid"]) for e in events if e["ph"] == "M"}
    for event in events:
        assert event["ph"] in PHASES
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["ts"], (int, float))
        assert ("thread_name", event["pid"], event["tid"]) in named or event["ph"] == "M"
        assert ("process_name", event["pid"], 0) in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] in "sf":
            assert event["cat"] == "launch"
        if event["ph"] == "M":
            assert isinstance(event["args"]["name"], str)


def test_the_trace_file_has_a_call_an_execution_and_an_arrow_for_each_launch(
    profile: Any, tmp_path: Path
) -> None:
    events = json.loads(profile.save(tmp_path / "trace.json").read_text())["traceEvents"]
    calls, runs = ([e for e in events if e.get("cat") == c] for c in ("enqueue", "execution"))
    assert len(calls) == len(runs) == len(profile.launches)
    assert {e["pid"] for e in calls}.isdisjoint(e["pid"] for e in runs)
    for launch, call, run in zip(profile.launches, calls, runs, strict=True):
        assert call["name"] == run["name"] == launch.subject.kernel
        assert run["args"]["grid"] == [SIZE]
        assert run["args"]["bytes bound"] == 8 * SIZE
        assert call["ts"] == launch.enqueued_ns / 1e3
        assert (run["ts"], run["dur"]) == (launch.start_ns / 1e3, launch.duration_ns / 1e3)
    starts, ends = ({e["id"]: e["ts"] for e in events if e["ph"] == p} for p in "sf")
    assert starts.keys() == ends.keys()
    assert all(starts[k] <= ends[k] for k in starts)


def test_threads_have_rows_of_their_own(executor: Any, tmp_path: Path) -> None:
    def work() -> None:
        hg.exp(executor.ones((SIZE,)))

    with executor.profile() as profile:
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    launches = [t for t in profile.launches if t.subject.kernel == "atlas_exp_f32"]
    assert [t.thread for t in launches] == [0, 1]
    events = json.loads(profile.save(tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"enqueue, thread 0", "enqueue, thread 1"} <= rows


def test_profiles_may_lie_within_one_another(executor: Any) -> None:
    x = executor.ones((SIZE,))
    with executor.profile() as outer:
        hg.exp(x)
        with executor.profile() as inner:
            hg.sin(x)
        hg.cos(x)
    names = [[t.subject.kernel for t in p.launches] for p in (outer, inner)]
    assert names == [["atlas_exp_f32", "atlas_sin_f32", "atlas_cos_f32"], ["atlas_sin_f32"]]


def test_an_exception_ends_a_profile(executor: Any) -> None:
    x = executor.ones((SIZE,))
    profile = executor.profile()
    with contextlib.suppress(ZeroDivisionError), profile:
        hg.exp(x)
        raise ZeroDivisionError
    assert profile.launches == ()
    with profile:
        hg.sin(x)
    assert [t.subject.kernel for t in profile.launches] == ["atlas_sin_f32"]


def test_a_profile_changes_no_result(executor: Any) -> None:
    x = executor.tensor(np.linspace(-3, 3, SIZE, dtype=np.float32))
    expected = hg.softmax(x.reshape((256, 256)), dim=-1).to_numpy()
    with executor.profile():
        got = hg.softmax(x.reshape((256, 256)), dim=-1)
    np.testing.assert_array_equal(got.to_numpy(), expected)


def test_a_device_without_a_clock_is_waited_for() -> None:
    memory = MemoryDevice()
    timeline = memory.timeline()
    called: list[int] = []
    marks = timeline.around(lambda: called.append(memory.synchronized))
    start, end = timeline.times(marks)
    assert isinstance(timeline, HostTimeline)
    assert timeline.clock is Clock.WAIT
    assert (called, memory.synchronized) == ([1], 2)
    assert start <= end


def test_a_profile_sees_each_kernel_of_a_replay(executor: Any) -> None:
    x = executor.tensor(np.linspace(-3, 3, SIZE, dtype=np.float32).reshape((64, SIZE // 64)))
    plan = OPERATIONS["softmax"].plan([x.layout], [x.layout], {"dim": 1}, executor.target)
    replay = Replay(executor, plan, [x.layout], [x.layout])
    (expected,) = (t.to_numpy() for t in replay([x]))
    with executor.profile() as profile:
        (got,) = replay([x])
        replay([x])
    replay([x])
    names = [t.subject.kernel for t in profile.launches]
    assert names == [s.kernel.label for s in executor.bound.ready(plan, 2).steps] * 2
    np.testing.assert_array_equal(got.to_numpy(), expected)


def test_what_was_marked_before_a_close_is_known_or_refused(executor: Any) -> None:
    own = hg.Executor(backend=executor.backend)
    known, unknown = own.event(), own.event()
    known.record()
    known.synchronize()
    profile = own.profile()
    profile.__enter__()
    hg.exp(own.ones((8,)))
    unknown.record()
    own.close()
    assert known.elapsed_ms(known) == 0
    if executor.limits.host_resident:  # its marks are times already
        assert known.elapsed_ms(unknown) >= 0
        return
    with pytest.raises(hg.DeviceLost):
        unknown.synchronize()
    with pytest.raises(hg.DeviceLost):
        profile.__exit__(None)


def test_events_that_nobody_waits_for_take_no_memory(executor: Any) -> None:
    x = executor.ones((8,))
    last = executor.event()
    before = executor.memory_stats()
    for _ in range(3 * 4096):
        last = executor.event()
        last.record()
    hg.exp(x)
    end = executor.stream().record()
    assert last.elapsed_ms(end) > 0
    assert executor.memory_stats()["reserved"] == before["reserved"]


def test_a_profile_says_which_schedule_ran(executor: Any) -> None:
    long, short = (executor.ones(shape) for shape in ((4, 300_000), (3, 5)))
    ran = []
    for x in (long, short, long):
        with executor.profile() as profile:
            hg.sum(x, axis=1)
        ran.append([t.subject.schedule for t in profile.launches])
        assert {k.schedule for k in profile.kernels} == set(ran[-1])
        assert all(schedule in str(profile) for schedule in ran[-1])
    assert ran[0] == ran[2] != ran[1]
