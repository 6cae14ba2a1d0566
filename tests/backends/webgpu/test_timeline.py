"""Timestamps of the GPU: where they are written, and that their axis is the host's."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from hologram.backends.webgpu.device import WebGPUDevice
from hologram.backends.webgpu.memory import Memory
from hologram.backends.webgpu.timeline import SET_SIZE, QueryTimeline
from hologram.machine.kernel import Launch
from tests.golden.programs import PROGRAMS

SIZE = 1 << 18


@pytest.fixture(params=["within the pass", "between passes"])
def timeline(request: pytest.FixtureRequest, shared_device: WebGPUDevice) -> QueryTimeline:
    within_pass = request.param == "within the pass"
    feature = "TimestampQueryInsidePasses" if within_pass else "TimestampQueryInsideEncoders"
    if feature not in shared_device.encoder.device.adapter.features:
        pytest.skip(f"the adapter has no {feature}")
    return QueryTimeline(shared_device.pipelines, shared_device.transfers, within_pass)


@pytest.fixture
def launch(
    shared_device: WebGPUDevice, upload: Callable[[np.ndarray], Memory], whole: Callable
) -> tuple[Launch, Memory]:
    """An addition of 3 to 4, and where its result goes."""
    x, y, out = (upload(np.full(SIZE, number, np.float32)) for number in (3, 4, -777))
    return shared_device.compile(PROGRAMS["add_f32"]).bind(whole(x, y, out), (), (SIZE,)), out


def test_marks_do_not_wait_and_are_passed_in_order(
    timeline: QueryTimeline, launch: tuple[Launch, Memory], shared_device: WebGPUDevice, download: Callable
) -> None:
    call, out = launch
    before_ns = time.perf_counter_ns()
    marks = [mark for _ in range(8) for mark in timeline.around(call)]
    assert shared_device.encoder.commands is not None  # all of it still waits to be submitted
    times = timeline.times(marks)
    after_ns = time.perf_counter_ns()
    assert times == sorted(times)
    assert all(end > start for start, end in zip(times[::2], times[1::2], strict=True))
    slack_ns = 2_000_000  # of the calibration, on a busy machine
    assert before_ns - slack_ns <= times[0] <= times[-1] <= after_ns + slack_ns
    assert (download(out, np.empty(SIZE, np.float32)) == 7).all()


def test_a_launch_takes_longer_than_none(timeline: QueryTimeline, launch: tuple[Launch, Memory]) -> None:
    pairs = [timeline.around(call) for _ in range(9) for call in (launch[0], lambda: None)]
    times = timeline.times([mark for pair in pairs for mark in pair])
    took = np.diff(np.reshape(times, (-1, 2)), axis=1).reshape(-1, 2)
    work, nothing = np.median(took, axis=0)
    assert work > 4 * nothing


def test_marks_can_be_read_early_late_and_again(
    timeline: QueryTimeline, launch: tuple[Launch, Memory]
) -> None:
    first = timeline.mark()
    (early,) = timeline.times([first])
    launch[0]()
    second = timeline.mark()
    assert timeline.times([second, first])[1] == early
    assert timeline.times([second])[0] > early


def test_more_marks_than_a_query_set_holds(timeline: QueryTimeline, launch: tuple[Launch, Memory]) -> None:
    first = timeline.mark()
    marks = [timeline.mark() for _ in range(SET_SIZE)]
    launch[0]()
    last = timeline.mark()
    times = timeline.times([first, *marks, last])
    assert times == sorted(times)
    assert len({id(m.queries) for m in (first, *marks, last)}) == 2
