"""Replays over the memory of their inputs: handed over by who donates it, or written where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hologram.foundation.errors import BufferFreed
from hologram.frontend.tensor import as_tensor
from hologram.opset import OPERATIONS
from hologram.runtime.launches.replay import Replay
from tests.runtime.test_replay import N, arrays, vector


def in_place(executor: Any, n: int = N) -> Replay:
    """out = x + y, in x's memory."""
    layout = vector(n)
    plan = OPERATIONS["add"].plan([layout, layout], [layout], {}, executor.target)
    return Replay(executor, plan, (layout, layout), (layout,), {0: 0})


def test_a_donated_input_gives_its_memory(executor: Any) -> None:
    replay = in_place(executor)
    x, y = arrays(7)
    a, b = executor.tensor(x), executor.tensor(y)
    block = a.buffer.block
    before = executor.memory_stats()["count"]
    out = a.buffer
    for _ in range(20):
        (out,) = replay([a, b])
        assert out.block is block
        with pytest.raises(BufferFreed):
            a.to_numpy()
        with pytest.raises(BufferFreed):
            replay([a, b])
        a = as_tensor(out)
        x = x + y
        np.testing.assert_array_equal(out.to_numpy(), x)
    assert executor.memory_stats()["count"] == before
    np.testing.assert_array_equal(b.to_numpy(), y)
    del a, out
    assert executor.memory_stats()["count"] == before - 1


def test_a_call_runs_over_donated_inputs_and_leaves_them(executor: Any) -> None:
    replay = in_place(executor)
    x, y = arrays(7)
    a, b = executor.tensor(x), executor.tensor(y)
    assert replay.over([a.buffer, b.buffer])
    np.testing.assert_array_equal(a.to_numpy(), x + y)
    (out,) = replay([a, b])
    assert replay.over([out, b.buffer])
    np.testing.assert_array_equal(out.to_numpy(), x + y + y + y)
    np.testing.assert_array_equal(b.to_numpy(), y)
    out.free()
    assert not replay.over([out, b.buffer])


def test_a_call_over_memory_changes_what_others_see_and_nothing_that_is_read_twice(executor: Any) -> None:
    replay = in_place(executor)
    x, y = arrays(9)
    a, b = executor.tensor(x), executor.tensor(y)
    a[2].item()  # a look at a part is none that lasts
    assert not a.buffer.shared
    if executor.limits.host_resident:
        seen = a.to_numpy(copy=False)
        assert a.buffer.shared
        assert replay.over([a.buffer, b.buffer])
        executor.synchronize()
        np.testing.assert_array_equal(seen, x + y)
    assert not replay.over([b.buffer, b.buffer])
    np.testing.assert_array_equal(b.to_numpy(), y)
    array = x.copy()
    foreign = executor.from_dlpack(array)
    if foreign.buffer.live_block().adopted:
        assert not replay.over([foreign.buffer, b.buffer])
        np.testing.assert_array_equal(array, x)


def test_memory_that_others_use_is_not_donated(executor: Any) -> None:
    replay = in_place(executor)
    x, y = arrays(8)
    a, b = executor.tensor(x), executor.tensor(y)
    twice = executor.tensor(x)
    foreign_array = x.copy()
    foreign = executor.from_dlpack(foreign_array)
    seen = np.from_dlpack(a, device="cpu")
    for given in (a, twice, foreign):
        other = twice if given is twice else b
        addend = x if given is twice else y
        (out,) = replay([given, other])
        np.testing.assert_array_equal(out.to_numpy(), x + addend)
        assert given.buffer.freed
    np.testing.assert_array_equal(seen, x)
    np.testing.assert_array_equal(foreign_array, x)


def test_a_failed_call_donates_nothing(executor: Any) -> None:
    replay = in_place(executor)
    x, y = arrays(9)
    a, b = executor.tensor(x), executor.tensor(y)
    b.buffer.free()
    with pytest.raises(BufferFreed):
        replay([a, b])
    np.testing.assert_array_equal(a.to_numpy(), x)


class Refusing:
    """An observer that lets no launch be bound."""

    def observed(self, subject: Any, launch: Any) -> Any:
        raise RuntimeError("not now")


def test_a_call_that_fails_late_gives_back_what_was_donated(executor: Any) -> None:
    replay = in_place(executor)
    x, y = arrays(9)
    a, b = executor.tensor(x), executor.tensor(y)
    block, refusing = a.buffer.block, Refusing()
    executor.bound.watch(refusing)
    try:
        with pytest.raises(RuntimeError, match="not now"):
            replay([a, b])
    finally:
        executor.bound.unwatch(refusing)
    assert a.buffer.block is block
    np.testing.assert_array_equal(a.to_numpy(), x)
    (out,) = replay([a, b])
    assert out.block is block
    np.testing.assert_array_equal(out.to_numpy(), x + y)
