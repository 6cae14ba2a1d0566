"""Launches found by structure: told their memory at each call, checked at each call, and bounded."""

from __future__ import annotations

import cProfile
import gc
import pstats
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.bounded_caches import FIFOCache

RNG = np.random.default_rng(0)


@pytest.fixture
def prepared(executor: Any) -> Callable[[], int]:
    """How many launches were prepared from here on, when nothing is known."""
    executor.structures.clear()
    before = executor.preparation_stats()["prepared"]
    return lambda: executor.preparation_stats()["prepared"] - before


@pytest.fixture
def own(executor: Any) -> Iterator[Any]:
    """An executor of the test's alone."""
    with hg.Executor(executor.backend, executor.device.info.index) as opened:
        yield opened


def vector(executor: Any, n: int = 100) -> tuple[hg.Tensor, np.ndarray]:
    array = RNG.standard_normal(n).astype(np.float32)
    return executor.tensor(array), array


def test_other_memory_prepares_nothing(executor: Any, prepared: Callable[[], int]) -> None:
    kept, first = [], 0
    for k in range(100):
        (x, a), (y, b) = vector(executor), vector(executor)
        kept += [x, y, x + y, x * 1.5]
        np.testing.assert_array_equal(kept[-2].to_numpy(), a + b)
        np.testing.assert_array_equal(kept[-1].to_numpy(), a * np.float32(1.5))
        if k == 0:
            first = prepared()
    assert prepared() == first


def test_other_offsets_prepare_nothing(executor: Any, prepared: Callable[[], int]) -> None:
    """But where a device binds at multiples of some bytes, once for each place between two of them."""
    x, a = vector(executor, 4000)
    places = executor.limits.binding_alignment // 4 or 1
    for k in range(3 * places):
        np.testing.assert_array_equal((x[k : k + 50] + 1.0).to_numpy(), a[k : k + 50] + 1)
    assert prepared() <= places


def test_other_floats_prepare_nothing_where_launches_are_told_them(
    executor: Any, prepared: Callable[[], int]
) -> None:
    x, a = vector(executor)
    for _ in range(50):
        number = float(RNG.standard_normal())
        np.testing.assert_allclose((x * number).to_numpy(), a * np.float32(number), rtol=1e-6)
    # None where a test before this one had prepared the product.
    assert prepared() <= 1 if executor.device.told else prepared() == 50


def test_other_floats_that_are_written_prepare_nothing(executor: Any, prepared: Callable[[], int]) -> None:
    x, a = vector(executor)
    for _ in range(20):
        a[5:50] = x[5:50] = float(RNG.standard_normal())
        np.testing.assert_array_equal(x.to_numpy(), a)
    assert prepared() <= 1  # none where they are copied


def test_other_shapes_of_what_has_an_integer_beside_it(executor: Any) -> None:
    """The integer is part of their class."""
    for n in range(2, 12):
        for k in (1, 2):
            x, a = vector(executor, n)
            np.testing.assert_array_equal((x + k).to_numpy(), a + k)


def test_overlapping_memory_of_others_is_seen_by_where_it_lies() -> None:
    with hg.Executor("cpu") as executor:
        base = RNG.standard_normal(101).astype(np.float32)
        wanted = base.copy()
        x, y = executor.from_dlpack(base[:-1]), executor.from_dlpack(base[1:])
        for _ in range(3):
            x += y
            wanted[:-1] += wanted[1:].copy()
            y += x
            wanted[1:] += wanted[:-1].copy()
            x[:] = y
            wanted[:-1] = wanted[1:].copy()
        np.testing.assert_array_equal(x.to_numpy(), wanted[:-1])
        np.testing.assert_array_equal(y.to_numpy(), wanted[1:])


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -0.0, 1e-45, 3.4e38, 7.0])
def test_any_float_is_told(executor: Any, number: float) -> None:
    x, a = vector(executor)
    for value in (0.5, number, 2.0):
        with np.errstate(all="ignore"):
            wanted = a * np.float32(value)
        got = (x * value).to_numpy()
        if executor.backend == "cpu":  # other devices may flush denormals, and say nothing of them
            np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-37)


def test_numbers_of_each_kind_are_told_apart(executor: Any) -> None:
    x = executor.tensor(np.arange(5, dtype=np.int32))
    for _ in range(2):
        assert (x + 1).dtype == hg.int32
        assert (x + 1.0).dtype == hg.float32
        assert (x + True).tolist() == [1, 2, 3, 4, 5]
        assert (x + 2).tolist() == [2, 3, 4, 5, 6]


def test_operands_that_are_one_memory_and_operands_that_are_not(executor: Any) -> None:
    """In either order: what is known of one says nothing wrong of the other."""
    for first in (True, False):
        executor.structures.clear()
        (x, a), (y, b) = vector(executor), vector(executor)
        for same in (first, not first, first):
            other, wanted = (x, a) if same else (y, b)
            np.testing.assert_array_equal((x - other).to_numpy(), a - wanted)
            out = executor.allocate(100)
            hg.ops.vector_mul(executor, x, other, out)
            np.testing.assert_array_equal(out.to_numpy(), a * wanted)
            hg.ops.vector_add(executor, x, other, x)
            a = a + wanted
            np.testing.assert_array_equal(x.to_numpy(), a)


def test_outputs_over_operands_shifted(executor: Any) -> None:
    """Known for one distance, then asked for another."""
    for shift in (0, 1, 64, 0, 100, 1):
        x, a = vector(executor, 300)
        source, target = x[shift : shift + 100], x[:100]
        hg.ops.scalar_add(executor, source, 1.0, target)
        np.testing.assert_array_equal(x.to_numpy()[:100], a[shift : shift + 100] + 1)
        np.testing.assert_array_equal(x.to_numpy()[100:], a[100:])


@pytest.mark.parametrize("offset", [0, 1, 3, 7, 16])
def test_large_results_at_any_alignment(executor: Any, offset: int) -> None:
    n = 1 << 19
    x, a = vector(executor, n)
    out = executor.full((n + 32,), 7.0)
    target = out[offset : offset + n]
    for _ in range(2):
        hg.ops.vector_add(executor, x, x, target)
    got = out.to_numpy()
    np.testing.assert_array_equal(got[offset : offset + n], a + a)
    assert (got[:offset] == 7).all()
    assert (got[offset + n :] == 7).all()


def test_what_is_wrong_is_said_at_each_call(executor: Any) -> None:
    other = hg.Executor("cpu")
    (x, _), (y, _), out = vector(executor), vector(executor), executor.allocate(100)
    for _ in range(3):
        hg.ops.vector_add(executor, x.buffer, y.buffer, out)
        _ = x + y
    stranger = other.ones((100,))
    for _ in range(2):
        with pytest.raises(hg.ShapeError):
            _ = x + stranger
        with pytest.raises(hg.ShapeError):
            hg.ops.vector_add(executor, x.buffer, stranger.buffer, out)
        with pytest.raises(hg.UnsupportedDType):
            hg.ops.vector_add(executor, x.buffer, y.buffer, executor.allocate(100, dtype="i32"))
        with pytest.raises(hg.ShapeError):
            hg.ops.vector_add(executor, x.buffer, y.buffer, executor.allocate(99))
    y.buffer.free()
    for _ in range(2):
        with pytest.raises(hg.BufferFreed):
            hg.ops.vector_add(executor, x.buffer, y.buffer, out)
        with pytest.raises(hg.BufferFreed):
            _ = x + y
    other.close()


def test_what_is_known_is_bounded_and_loses_its_oldest(own: Any) -> None:
    own.structures.most = 20
    for n in range(1, 60):
        x, a = vector(own, n)
        np.testing.assert_array_equal((x + x).to_numpy(), a + a)
        assert len(own.structures) <= 20
    x, _ = vector(own, 59)
    known = dict(own.structures)
    _ = x + x
    assert dict(own.structures) == known  # the last is still there


def test_nothing_grows_with_the_shapes_that_were_met(own: Any) -> None:
    own.structures.most = own.kinds.most = 50

    def meet(shapes: range) -> int:
        for n in shapes:
            hg.softmax(own.zeros((2, n)) + 1.0, dim=1)
        gc.collect()
        return len(own.bound.structures)

    first = meet(range(1, 150))
    assert meet(range(150, 500)) <= first + 5


def test_threads_share_a_structure(executor: Any) -> None:
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(50):
            a, number = rng.standard_normal(100).astype(np.float32), float(rng.standard_normal())
            got = (executor.tensor(a) * number).to_numpy()
            np.testing.assert_allclose(got, a * np.float32(number), rtol=1e-6)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, seed) for seed in range(4)]:
            done.result(timeout=60)


@pytest.mark.parametrize("n", [1000, 1 << 18, 1 << 20])
def test_a_known_launch_into_a_buffer_takes_few_calls_whatever_its_size(executor: Any, n: int) -> None:
    a, b = RNG.standard_normal((2, n)).astype(np.float32)
    x, y = (executor.allocate((n,), "f32").from_numpy(z) for z in (a, b))
    outs = [executor.allocate((n,), "f32") for _ in range(3)]
    for out in outs[:2]:
        hg.ops.vector_add(executor, x, y, out)
    with cProfile.Profile() as profile:
        hg.ops.vector_add(executor, x, y, outs[2])
    called = pstats.Stats(profile).get_stats_profile().func_profiles
    ours = [name for name, one in called.items() if "frontend" in one.file_name]
    assert ours == ["call"]
    for out in outs:
        np.testing.assert_array_equal(out.to_numpy(), a + b)


def test_an_observer_sees_launches_that_are_known_already(executor: Any) -> None:
    x, _ = vector(executor)
    for _ in range(3):
        _ = x + x
    with executor.profile() as profile:
        _ = x + x
        y = executor.ones((100,)) * 2.0
        _ = x + y
    assert [t.subject.kernel for t in profile.launches if "add" in t.subject.kernel] == ["atlas_add_f32"] * 2


def test_a_jitted_function_of_one_tensor_twice_and_of_two(executor: Any) -> None:
    f = hg.jit(lambda x, y: (x - y, x * y + 1.0))
    (x, a), (y, b) = vector(executor), vector(executor)
    for other, wanted in ((x, a), (y, b), (x, a), (y, b)):
        difference, product = f(x, other)
        np.testing.assert_array_equal(difference.to_numpy(), a - wanted)
        np.testing.assert_allclose(product.to_numpy(), a * wanted + 1, rtol=1e-6)


@pytest.mark.parametrize("together_first", [True, False])
def test_operands_that_begin_at_one_place_and_others_that_lie_alike(
    executor: Any, together_first: bool
) -> None:
    """A device may bind what begins at one place as one, and must not then write the one into the other's memory."""
    a = RNG.standard_normal(110).astype(np.float32)

    def together() -> None:
        x, wanted = executor.tensor(a), a.copy()
        other, b = vector(executor, 19)
        hg.ops.vector_add(executor, other, x[:19], x[24:43])
        wanted[24:43] = b + a[:19]
        np.testing.assert_array_equal(x.to_numpy(), wanted)

    def apart() -> None:
        x, wanted = executor.tensor(a), a.copy()
        (other, b), (another, c) = vector(executor, 19), vector(executor, 19)
        hg.ops.vector_add(executor, other, another, x[24:43])
        wanted[24:43] = b + c
        np.testing.assert_array_equal(x.to_numpy(), wanted)
        np.testing.assert_array_equal(another.to_numpy(), c)

    executor.structures.clear()
    for calls in (together, apart) if together_first else (apart, together):
        for _ in range(3):
            calls()


def test_memory_of_an_executor_that_comes_back_as_foreign() -> None:
    executor: Any = hg.Executor("cpu")
    x, a = vector(executor, 20)
    y = executor.from_dlpack(x.to_numpy(copy=False)[1:11], copy=False)
    for _ in range(3):
        wanted = a.copy()
        wanted[:10] = a[1:11][::-1] + a[:10]
        hg.ops.vector_add(executor, y[::-1], x[:10], x[:10])
        np.testing.assert_array_equal(x.to_numpy(), wanted)
        a = wanted
    executor.close()


def test_the_oldest_goes_first() -> None:
    kept: FIFOCache[int, str] = FIFOCache(3)
    for k in range(5):
        assert kept.keep(k, str(k)) == str(k)
    assert list(kept) == [2, 3, 4]
    kept.keep(2, "again")
    assert list(kept.items()) == [(2, "again"), (3, "3"), (4, "4")]
