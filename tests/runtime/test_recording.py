"""What is launched while a recording is open, and the memory it is given; see runtime/launches/recording.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import hologram as hg
from hologram.runtime.launches.recording import Recording


@contextmanager
def recorded(dry: bool) -> Iterator[Recording]:
    recording = Recording(dry)
    recording.begin()
    try:
        yield recording
    finally:
        recording.end()


def places(executor: hg.Executor, count: int = 3) -> list[int]:
    """Of buffers, each of which is freed before the next is made."""
    return [executor.empty(100).buffer.live_block().place for _ in range(count)]


def test_a_dry_recording_is_given_no_memory_twice(executor: hg.Executor) -> None:
    places(executor)
    before = executor.pool.issued_bytes
    with recorded(dry=True), recorded(dry=False):  # within a dry one
        assert len(set(places(executor))) == 3
        places(executor)
    assert executor.pool.issued_bytes == before
    assert len(set(places(executor))) == 1


def test_memory_that_is_used_twice_is_noted_by_its_larger_use(executor: hg.Executor) -> None:
    places(executor)
    with recorded(dry=False) as recording:
        for size in (90, 100, 80):
            executor.empty(size)
    assert list(recording.blocks.values()) == [400]
