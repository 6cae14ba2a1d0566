"""Replays: plans run again and again, on any buffers, from any thread."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import f32, i32
from hologram.foundation.errors import BufferFreed
from hologram.frontend.tensor import as_tensor
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan
from hologram.opset import OPERATIONS
from hologram.opset.forms.steps import Steps
from hologram.runtime.launches.replay import Replay

N = 1000


def vector(n: int = N, dtype: Any = f32) -> Layout:
    return Layout.contiguous(dtype, (n,))


def chain(executor: Any, length: int, n: int = N) -> Replay:
    """out = ((x + y) * y) + y ..., `length` kernels, each a step through scratch memory."""
    steps = Steps(3)
    layout = vector(n)
    source = 0
    for k in range(length):
        operation = OPERATIONS["add" if k % 2 == 0 else "multiply"]
        target = 2 if k == length - 1 else steps.place(f32, (n,)).position
        steps.extend(operation.plan([layout, layout], [layout], {}, executor.target), (source, 1, target))
        source = target
    return Replay(executor, steps.plan(), (layout, layout), (layout,))


def chained(x: np.ndarray, y: np.ndarray, length: int) -> np.ndarray:
    for k in range(length):
        x = x + y if k % 2 == 0 else x * y
    return x


def arrays(seed: int, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.standard_normal(n).astype(np.float32), random.standard_normal(n).astype(np.float32)


def poison(executor: Any, n: int = N) -> None:
    """Fills the blocks that the next outputs and arenas will get."""
    held = [executor.full((n,), 7e7) for _ in range(4)]
    held += [executor.full((k * n,), 7e7) for k in (2, 4, 8)]
    del held


@pytest.mark.parametrize("n", [1, N, 5000])
@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_a_chain_computes_what_its_steps_do(executor: Any, length: int, n: int) -> None:
    replay = chain(executor, length, n)
    for seed in range(4):
        x, y = arrays(seed, n)
        poison(executor, n)
        (out,) = replay([executor.tensor(x), executor.tensor(y)])
        assert out.shape == (n,)
        np.testing.assert_array_equal(out.to_numpy(), chained(x, y, length))


def test_kernels_and_tiles_in_turn(executor: Any) -> None:
    """Neighbours become one call, but not across a launch of another sort; long kernels use all threads in between."""
    n = 200
    square = Layout.contiguous(f32, (n, n))
    steps = Steps(3)
    source = 0
    for name in ("add", "matmul", "add", "add", "matmul", "multiply"):
        target = steps.place(f32, (n, n)).position
        plan = OPERATIONS[name].plan([square, square], [square], _defaults(name), executor.target)
        steps.extend(plan, (source, 1, target))
        source = target
    plan = OPERATIONS["add"].plan([square, square], [square], {}, executor.target)
    steps.extend(plan, (source, 1, 2))
    random = np.random.default_rng(3)
    x, y = (random.integers(-2, 3, (n, n)).astype(np.float32) for _ in range(2))
    y *= random.random((n, n)) < 0.02  # so that sums of integers stay exact
    wanted = ((((x + y) @ y + y + y) @ y) * y) + y
    replay = Replay(executor, steps.plan(), (square, square), (square,))
    for _ in range(3):
        (out,) = replay([executor.tensor(x), executor.tensor(y)])
        np.testing.assert_array_equal(out.to_numpy(), wanted)


def _defaults(name: str) -> dict[str, Any]:
    return dict(OPERATIONS[name].attributes)


def test_more_kernels_than_a_batch_holds(executor: Any) -> None:
    replay = chain(executor, 300, 100)
    x, y = arrays(14, 100)
    y = np.where(y > 0, np.float32(1), np.float32(-1))
    (out,) = replay([executor.tensor(x), executor.tensor(y)])
    np.testing.assert_array_equal(out.to_numpy(), chained(x, y, 300))


def test_scratch_of_a_chain_is_two_areas(executor: Any) -> None:
    assert chain(executor, 50, 5000).scratch_bytes == 2 * 20_224


def test_outputs_are_new_memory_and_stay_as_they_are(executor: Any) -> None:
    replay = chain(executor, 3)
    x, y = arrays(1)
    a, b = executor.tensor(x), executor.tensor(y)
    results = [replay([a, b])[0] for _ in range(5)]
    assert len({id(r.block) for r in results}) == 5
    for result in results:
        np.testing.assert_array_equal(result.to_numpy(), chained(x, y, 3))
    np.testing.assert_array_equal(a.to_numpy(), x)


def test_results_feed_the_next_call(executor: Any) -> None:
    replay = chain(executor, 2)
    x, y = arrays(2)
    state, b = executor.tensor(x), executor.tensor(0.5 * y)
    for _ in range(100):
        state = as_tensor(*replay([state, b]))
        x = chained(x, np.float32(0.5) * y, 2)
    np.testing.assert_array_equal(state.to_numpy(), x)


def test_views_of_one_buffer_and_one_tensor_twice(executor: Any) -> None:
    layout = vector(100)
    offset = Layout(f32, (100,), (1,), 64)
    plan = OPERATIONS["add"].plan([layout, offset], [layout], {}, executor.target)
    replay = Replay(executor, plan, (layout, offset), (layout,))
    whole = executor.tensor(np.arange(200, dtype=np.float32))
    (out,) = replay([whole[:100], whole[64:164]])
    np.testing.assert_array_equal(out.to_numpy(), np.arange(100) * 2 + 64)


def test_a_reduction_spread_over_the_device(executor: Any) -> None:
    """Rows that the device splits into steps of their own, between others."""
    n = 300_000
    steps = Steps(2)
    big, one = vector(n), Layout.contiguous(f32, ())
    doubled, total = steps.place(f32, (n,)), steps.place(f32, ())
    add, fold = OPERATIONS["add"], OPERATIONS["sum"]
    steps.extend(add.plan([big, big], [big], {}, executor.target), (0, 0, doubled.position))
    attributes = {"axis": None, "keepdims": False}
    steps.extend(fold.plan([big], [one], attributes, executor.target), (doubled.position, total.position))
    steps.extend(add.plan([one, one], [one], {}, executor.target), (total.position, total.position, 1))
    replay = Replay(executor, steps.plan(), (big,), (one,))
    for k in (1, 2):
        (out,) = replay([executor.full((n,), k)])
        assert out.to_numpy() == 4 * n * k


def test_several_outputs_of_several_dtypes_and_an_empty_one(executor: Any) -> None:
    steps = Steps(4)
    for operation, position in (("add", 1), ("multiply", 2)):
        plan = OPERATIONS[operation].plan([vector(), vector()], [vector()], {}, executor.target)
        steps.extend(plan, (0, 0, position))
    replay = Replay(executor, steps.plan(), (vector(),), (vector(), vector(), Layout.contiguous(i32, (0, 3))))
    x, _ = arrays(3)
    double, square, empty = replay([executor.tensor(x)])
    np.testing.assert_array_equal(double.to_numpy(), x + x)
    np.testing.assert_array_equal(square.to_numpy(), x * x)
    assert empty.shape == (0, 3)
    assert empty.dtype is i32


def test_an_empty_plan_only_makes_outputs(executor: Any) -> None:
    (out,) = Replay(executor, Plan(()), (), (vector(5),))([])
    assert out.shape == (5,)


def test_a_freed_input_is_refused_and_the_replay_works_on(executor: Any) -> None:
    replay = chain(executor, 3)
    x, y = arrays(4)
    a, b = executor.tensor(x), executor.tensor(y)
    replay([a, b])
    b.buffer.free()
    for _ in range(2):
        with pytest.raises(BufferFreed):
            replay([a, b])
    (out,) = replay([a, executor.tensor(y)])
    np.testing.assert_array_equal(out.to_numpy(), chained(x, y, 3))


def test_memory_that_went_back_to_the_device_is_not_written_to(executor: Any) -> None:
    replay = chain(executor, 3, 5000)
    x, y = arrays(5, 5000)
    for _ in range(3):
        (out,) = replay([executor.tensor(x), executor.tensor(y)])
        np.testing.assert_array_equal(out.to_numpy(), chained(x, y, 3))
        del out
        executor.empty_cache()


def test_nothing_is_prepared_twice_for_other_memory(executor: Any) -> None:
    """Nor kept for each set of buffers that was met."""
    replay = chain(executor, 2)
    x, y = arrays(6)
    many = [executor.tensor(x + k) for k in range(200)]
    b = executor.tensor(y)
    replay([many[0], b])
    before = executor.preparation_stats()
    for k, a in enumerate(many):
        np.testing.assert_array_equal(replay([a, b])[0].to_numpy(), chained(x + np.float32(k), y, 2))
    assert executor.preparation_stats() == before


def test_threads_share_a_replay(executor: Any) -> None:
    """Each with its own data, all through the same scratch plan, while memory comes and goes."""
    replay = chain(executor, 9, 3000)
    start = threading.Barrier(6)

    def work(number: int) -> None:
        x, y = arrays(100 + number, 3000)
        a, b = executor.tensor(x), executor.tensor(y)
        wanted = chained(x, y, 9)
        start.wait()
        for k in range(60):
            (out,) = replay([a, b])
            np.testing.assert_array_equal(out.to_numpy(), wanted)
            if k % 20 == number:
                del out
                executor.empty_cache()

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(work, number) for number in range(6)]:
            done.result(timeout=120)


def test_a_profile_names_and_counts_the_kernels(executor: Any) -> None:
    replay = chain(executor, 5)
    x, y = arrays(10)
    a, b = executor.tensor(x), executor.tensor(y)
    replay([a, b])
    with executor.profile() as profile:
        for _ in range(3):
            replay([a, b])
        (out,) = replay([a, b])
    np.testing.assert_array_equal(out.to_numpy(), chained(x, y, 5))
    replay([a, b])
    counts = {kernel.name: kernel.count for kernel in profile.kernels}
    assert counts == {"atlas_add_f32": 12, "atlas_multiply_f32": 8}


def test_a_closed_executor_is_refused(executor: Any) -> None:
    own = hg.Executor(executor.backend)
    replay = chain(own, 3)
    x, y = arrays(11)
    a, b = own.tensor(x), own.tensor(y)
    (out,) = replay([a, b])
    own.close()
    with pytest.raises(BufferFreed, match="closed"):
        replay([a, b])
    assert out.freed
    assert own.memory_stats()["allocated"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused(executor: Any) -> None:
    replay = chain(executor, 3)
    x, y = arrays(12)
    a, b = executor.tensor(x), executor.tensor(y)
    replay([a, b])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            replay([a, b])
        except hg.HologramError as error:
            said = type(error).__name__
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"BackendUnavailable"
    os.waitpid(child, 0)


def test_nothing_is_left_of_a_replay(executor: Any) -> None:
    x, y = arrays(13)
    a, b = executor.tensor(x), executor.tensor(y)
    gc.collect()
    before = executor.memory_stats()["count"], len(executor.bound.structures)
    replay = chain(executor, 3)
    replay([a, b])
    del replay
    gc.collect()
    assert (executor.memory_stats()["count"], len(executor.bound.structures)) == before
