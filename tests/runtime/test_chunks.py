"""Small blocks that share memory: cut from chunks, found by place, and handed back when all of a chunk are cached."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.runtime.memory.memory_pool import PARTS


@pytest.fixture
def executor():
    with hg.Executor(backend="webgpu") as found:
        yield found


def test_small_blocks_share_memory_and_large_ones_do_not(executor):
    shared = executor.device.shared_bytes
    small = [executor.empty((20_000,)).buffer.live_block() for _ in range(3)]
    large = executor.empty((shared // PARTS // 4 + 1,)).buffer.live_block()
    assert len({id(block.memory) for block in small}) == 1
    assert large.memory is not small[0].memory
    for block in (*small, large):
        assert executor.pool.find(block.place) == (block.memory, block.offset)


def test_neighbours_are_left_alone(executor):
    """Results of odd sizes, copies and fills end where their blocks end."""
    tensors = [executor.tensor(np.full((n,), n % 256, np.uint8)) for n in (13_001, 13_003, 15_000, 13_001)]
    tensors[1].buffer.fill(7)
    executor.copy(tensors[0], tensors[3])
    total = tensors[2] + np.uint8(1)
    found = [x.to_numpy() for x in (*tensors, total)]
    expected = [13_001 % 256, 7, 15_000 % 256, 13_001 % 256, (15_000 + 1) % 256]
    for x, value in zip(found, expected, strict=True):
        assert (x == value).all()


def test_what_was_written_where_nobody_wrote_before_stays(executor):
    """WebGPU clears memory that was never written when it is bound first, and does not see where offsets lead."""
    base = executor.empty((1_000_000,))
    base[900_000:] = 3.0
    hg.sum(base[:10]).item()  # binds the beginning
    assert (base[900_000:].to_numpy() == 3).all()
    assert hg.sum(base[900_000:]).item() == 300_000


def test_a_chunk_goes_when_all_of_its_blocks_are_cached(executor):
    kept, *others = [executor.ones((20_000,)) for _ in range(8)]
    before = executor.memory_stats()
    del others
    executor.empty_cache()
    assert executor.memory_stats()["reserved"] == before["reserved"]  # one block of it is in use
    assert (kept.to_numpy() == 1).all()
    again = [executor.empty((20_000,)) for _ in range(7)]
    assert executor.memory_stats()["reserved"] == before["reserved"]
    assert executor.memory_stats()["allocated"] == before["allocated"]
    del again, kept
    executor.empty_cache()
    assert executor.memory_stats()["reserved"] <= before["reserved"] - executor.device.shared_bytes
    assert hg.sum(executor.ones((20_000,))).item() == 20_000


def test_bind_groups_are_few(executor):
    """Activations that lie elsewhere at each call need no more bind groups."""
    x = executor.ones((40_000,))
    held = []

    def step():
        held.append(hg.exp(x) + 1.0)
        return held[-1]

    step()
    before = len(executor.device.pipelines.groups)
    for _ in range(50):
        step()
    executor.synchronize()
    assert len(executor.device.pipelines.groups) <= before + 2
