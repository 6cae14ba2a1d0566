"""The boundary pool: its address space, first fit, and room for small buffers."""

from __future__ import annotations

import itertools
import random

import pytest

from hologram.foundation.errors import OutOfMemory, ShapeError
from hologram.runtime.memory.boundary_pool import BoundaryPool, coordinates, linear_offset
from hologram.runtime.memory.memory_pool import Pool
from tests.devices import MemoryDevice


def test_addresses_are_linear_and_come_back():
    assert linear_offset(0, 0, 0) == 0
    assert linear_offset(1, 0) == 12_288
    assert linear_offset(95, 47, 255) == 1_179_647
    for offset in range(0, 1_179_648, 997):
        assert linear_offset(*coordinates(offset)) == offset


@pytest.mark.parametrize("address", [(-1, 0, 0), (96, 0, 0), (0, 48, 0), (0, -1, 0), (0, 0, 256), (0, 0, -1)])
def test_addresses_outside_are_refused(address):
    with pytest.raises(ShapeError, match="must be in"):
        linear_offset(*address)


@pytest.mark.parametrize("offset", [-1, 1_179_648])
def test_offsets_outside_are_refused(offset):
    with pytest.raises(ShapeError):
        coordinates(offset)


def test_memory_is_allocated_once_and_on_first_use():
    device = MemoryDevice()
    pool = BoundaryPool(Pool(device))
    assert not device.live
    regions = [pool.allocate(class_, 48) for class_ in range(96)]
    assert list(device.live.values()) == [1_179_648]
    assert [r.offset for r in regions] == [class_ * 12_288 for class_ in range(96)]
    assert pool.allocated == 1_179_648


def test_regions_are_first_fit_within_their_class():
    pool = BoundaryPool(Pool(MemoryDevice()))
    a, b, c = pool.allocate(7, 10), pool.allocate(7, 5), pool.allocate(7, 33)
    assert [(r.class_, r.page, r.pages) for r in (a, b, c)] == [(7, 0, 10), (7, 10, 5), (7, 15, 33)]
    with pytest.raises(OutOfMemory, match="class 7 has no 1 free pages"):
        pool.allocate(7, 1)
    pool.recycle(a)
    pool.recycle(c)
    with pytest.raises(OutOfMemory, match="43 of 48 are free"):
        pool.allocate(7, 34)
    assert pool.allocate(7, 11).page == 15
    assert pool.allocate(7, 10) is a  # the same place is the same region: its token stays


@pytest.mark.parametrize(("class_", "pages"), [(-1, 1), (96, 1), (0, 0), (0, 49), (0, -3)])
def test_classes_and_pages_that_do_not_exist_are_refused(class_, pages):
    with pytest.raises(ShapeError, match="allocate_boundary"):
        BoundaryPool(Pool(MemoryDevice())).allocate(class_, pages)


def test_small_buffers_fill_from_the_highest_class_until_it_is_full():
    pool = BoundaryPool(Pool(MemoryDevice()))
    regions = [pool.take_any(12_288) for _ in range(95)]
    assert [r.class_ for r in regions if r] == list(range(95, 0, -1))
    assert pool.take_any(12_289) is None
    assert pool.allocate(0, 40).page == 0
    assert pool.take_any(2_049) is None
    last = pool.take_any(2_048)
    assert last
    assert (last.class_, last.page) == (0, 40)
    assert pool.take_any(0) is None
    pool.recycle(last)
    small = [pool.take_any(n) for n in (0, 1, 256, 257)]
    assert [r.pages for r in small if r] == [1, 1, 1, 2]


def test_named_regions_reclaim_what_small_buffers_left():
    pool = BoundaryPool(Pool(MemoryDevice()))
    for region in [pool.take_any(256) for _ in range(48)]:
        assert region
        assert region.class_ == 95
        pool.recycle(region)
    assert pool.allocate(95, 48).page == 0


def test_random_traffic_never_overlaps():
    rng = random.Random(5)
    pool = BoundaryPool(Pool(MemoryDevice()))
    live: list = []
    for _ in range(4_000):
        if live and rng.random() < 0.5:
            pool.recycle(live.pop(rng.randrange(len(live))))
        elif rng.random() < 0.3:
            try:
                live.append(pool.allocate(rng.randrange(96), rng.randint(1, 48)))
            except OutOfMemory:
                pass
        else:
            region = pool.take_any(rng.randint(0, 12_288))
            if region is not None:
                live.append(region)
        if _ % 50 == 0:
            ranges = sorted((r.offset, r.offset + r.nbytes) for r in live)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))
            assert pool.count == len(live)
    for region in live:
        pool.recycle(region)
    for class_ in range(96):
        assert pool.allocate(class_, 48).page == 0
