"""The memory pool: size classes, recycling, statistics, running out."""

from __future__ import annotations

import gc
import threading

import pytest

from hologram.foundation.errors import OutOfMemory
from hologram.machine.limits import ALIGNMENT
from hologram.runtime.memory.blocks import size_class
from hologram.runtime.memory.memory_pool import Pool
from tests.devices import MemoryDevice, MemoryExecutor


def test_size_classes_are_aligned_and_waste_little():
    for nbytes in [*range(1, 5000, 7), *(2**k + d for k in range(12, 34) for d in (-1, 0, 1, 12345))]:
        size = size_class(nbytes)
        assert size >= nbytes
        assert size % ALIGNMENT == 0
        assert size_class(size) == size
        allowed = max(ALIGNMENT, nbytes / 4 if nbytes < 1 << 18 else nbytes / 16)
        assert size - nbytes <= allowed


def test_a_recycled_block_keeps_its_token_and_its_place():
    pool = Pool(MemoryDevice())
    first = pool.take(1000)
    place = first.place
    assert pool.find(place + 12) == (first.memory, 12)
    pool.recycle(first)
    again = pool.take(900)
    assert again is first
    assert again.place == place
    other = pool.take(900)
    assert other.token != first.token
    assert other.place != place


MIB = 1 << 20


def test_a_large_block_serves_smaller_requests_where_none_of_their_size_waits():
    pool = Pool(MemoryDevice())
    _held = pool.take(100 * MIB)
    blocks = [pool.take(n * MIB) for n in (12, 6, 3)]
    for block in blocks:
        pool.recycle(block)
    assert pool.take(3 * MIB) is blocks[2]
    assert pool.take(3 * MIB) is blocks[1]
    assert pool.take(3 * MIB).nbytes == 3 * MIB  # 12 is too much for it
    assert pool.take(5 * MIB) is blocks[0]
    pool.recycle(blocks[1])
    assert pool.take(6 * MIB) is blocks[1]


def test_what_large_blocks_have_beyond_what_was_asked_for_is_an_eighth_at_most():
    """A buffer may stay for good, and with it all of its block."""
    pool = Pool(MemoryDevice())
    for block in [pool.take(8 * MIB) for _ in range(20)]:
        pool.recycle(block)
    kept = [pool.take(4 * MIB) for _ in range(20)]
    assert pool.stats().allocated <= 80 * MIB * 9 // 8
    for block in kept:
        pool.recycle(block)
    assert pool.spared == 0


def test_what_waits_for_smaller_sizes_goes_before_a_large_block_comes():
    device = MemoryDevice()
    pool = Pool(device)
    small = [pool.take(2 * MIB) for _ in range(8)]
    for block in small:
        pool.recycle(block)
    first = pool.take(10 * MIB)
    assert pool.stats().reserved == 16 * MIB  # 5 of them went
    pool.recycle(first)
    again = [pool.take(2 * MIB) for _ in range(8)]
    assert pool.stats().reserved == 26 * MIB  # what waits for 10 MiB stays
    assert pool.take(10 * MIB) is first
    assert len({block.token for block in again}) == 8


def test_a_program_that_repeats_itself_soon_asks_the_device_for_nothing():
    """Phases of several sizes, each of which takes what it can of what the others left."""
    pool = Pool(MemoryDevice())
    asked, allocate = [], pool.device.allocate
    pool.device.allocate = lambda nbytes: asked.append(nbytes) or allocate(nbytes)  # pyright: ignore[reportAttributeAccessIssue]
    for turn in range(8):
        if turn == 3:
            asked.clear()
        for sizes in ([2] * 9, [20, 20, 7], [90], [4, 31, 2]):
            for block in [pool.take(n * MIB) for n in sizes]:
                pool.recycle(block)
    assert not asked
    assert pool.stats().allocated == 0


def test_statistics_follow_what_is_held():
    pool = Pool(MemoryDevice())
    a, b = pool.take(1000), pool.take(5000)
    held = a.nbytes + b.nbytes
    stats = pool.stats()
    assert (stats.allocated, stats.reserved, stats.peak, stats.count) == (held, held, held, 2)
    pool.recycle(b)
    stats = pool.stats()
    assert (stats.allocated, stats.reserved, stats.peak, stats.count) == (a.nbytes, held, held, 1)
    assert pool.release_cached() == b.nbytes
    assert pool.stats().reserved == a.nbytes


def test_release_tells_who_asked_before_the_memory_goes():
    device = MemoryDevice()
    pool = Pool(device)
    seen = []
    pool.on_release.append(lambda block: seen.append((block.token, len(device.live))))
    block = pool.take(10)
    pool.recycle(block)
    assert not seen
    pool.release_cached()
    assert seen == [(block.token, 1)]
    assert not device.live


def test_out_of_memory_releases_the_cache_and_tries_again():
    pool = Pool(MemoryDevice(room=11_000))
    pool.recycle(pool.take(6_000))
    assert pool.take(9_000).nbytes >= 9_000
    with pytest.raises(OutOfMemory, match="in use by 1 blocks"):
        pool.take(9_000)
    assert pool.take(100).nbytes == 256


def test_out_of_memory_frees_buffers_that_only_a_cycle_holds():
    executor = MemoryExecutor(MemoryDevice(room=100_000))
    cycle: list = [executor.allocate(20_000)]
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        assert executor.allocate(20_000).size == 20_000
    finally:
        gc.enable()


def test_more_than_the_device_has_is_refused_at_once():
    pool = Pool(MemoryDevice())
    with pytest.raises(OutOfMemory, match="at most 4,294,967,296 bytes"):
        pool.take(1 << 33)
    with pytest.raises(MemoryError):
        pool.take(1 << 70)


def test_threads_never_share_a_block():
    pool = Pool(MemoryDevice())
    held: set[int] = set()
    clashes = []

    def work() -> None:
        for i in range(300):
            block = pool.take(256 + i % 3 * 256)
            if block.token in held:
                clashes.append(block)
            held.add(block.token)
            held.discard(block.token)
            pool.recycle(block)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    assert pool.stats().count == 0
    assert pool.stats().allocated == 0


def test_ten_thousand_allocations_leave_memory_where_it_was():
    executor = MemoryExecutor()
    for i in range(10_000):
        executor.allocate(1 + i * 37 % 20_000)
    before = executor.pool.stats().reserved
    for i in range(10_000):
        executor.allocate(1 + i * 37 % 20_000)
    assert executor.pool.stats().reserved == before
    assert executor.pool.stats().count == 0
    assert executor.boundary.count == 0
