"""The host's memory is not filled until the system ends the process: there is no room before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.cpu import memory


@pytest.fixture
def leave(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int | None]], None]:
    """Has the host say that it has so many bytes left."""
    return lambda room: monkeypatch.setattr(memory, "room", room)


def test_what_the_host_has_not_is_refused(leave: Any) -> None:
    free = memory.room()
    assert free is None or 0 < free < 1 << 50
    with hg.Executor("cpu") as executor:
        leave(lambda: 200 << 20)
        kept = executor.zeros((16 << 20,))  # 64 MiB, beside what is spared
        with pytest.raises(
            hg.OutOfMemory, match=r"cpu: no room for [\d,]+ bytes: the host has 209,715,200 left"
        ):
            executor.allocate(200 << 20, np.uint8)
        leave(lambda: None)
        assert executor.allocate(200 << 20, np.uint8).nbytes == 200 << 20
        assert kept.shape == (16 << 20,)


def test_an_allocation_loop_ends_in_an_error(leave: Any) -> None:
    """Each block that is held leaves less; released caches are tried before."""
    held: list[hg.Tensor] = []
    with hg.Executor("cpu") as executor:
        leave(lambda: (1 << 30) - sum(t.nbytes for t in held))

        def fill() -> None:
            while len(held) < 100:
                held.append(executor.zeros((32 << 20,)))

        with pytest.raises(hg.OutOfMemory):
            fill()
        assert 3 < len(held) < 9
