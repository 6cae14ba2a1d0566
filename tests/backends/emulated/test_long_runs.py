"""What only shows after a while: clocks that were set long ago, and copies that nobody waits for."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda.context import MANY_LEAVING
from hologram.backends.metal.queue import BATCH
from tests.backends.emulated import cuda, metal


@pytest.mark.usefixtures("installed")
def test_events_of_many_minutes_are_timed() -> None:
    with hg.Executor(backend=cuda.NAME) as executor:
        timeline: Any = executor.timeline
        timeline.anchor_s = -1.0  # each event stands for a second
        first, *_, last = [_recorded(executor) for _ in range(1_100)]
        assert first.elapsed_ms(last) >= 0


def _recorded(executor: hg.Executor) -> Any:
    event = executor.event()
    event.record()
    return event


@pytest.mark.usefixtures("installed")
def test_events_that_are_waited_for_are_given_back() -> None:
    with hg.Executor(backend=cuda.NAME) as executor:
        context: Any = executor.device.context  # pyright: ignore[reportAttributeAccessIssue]
        x = executor.tensor([1.0, 2.0])
        for wait in (lambda: _recorded(executor).synchronize(), lambda: (_recorded(executor), x.to_numpy())):
            for _ in range(2 * MANY_LEAVING):
                wait()
            events = [what for what, _ in context.owned if what == "cuEventDestroy"]
            assert len(events) < 2 * MANY_LEAVING  # not one for each time


@pytest.mark.usefixtures("installed")
def test_copies_are_handed_over() -> None:
    with hg.Executor(backend=metal.NAME) as executor:
        source, target = executor.allocate(1000).fill(1.0), executor.allocate(1000)
        queue: Any = executor.device.queue  # pyright: ignore[reportAttributeAccessIssue]
        for _ in range(3 * BATCH):
            target.copy_from(source)
            assert queue.batch is None or len(queue.batch.held) <= BATCH
        assert (target.to_numpy() == 1).all()
