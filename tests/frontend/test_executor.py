"""Executors: opened and closed, shared by threads, forked, timed, counted; their memory and what programs address."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.errors import BackendUnavailable, BufferFreed, HologramError, ShapeError
from hologram.runtime.memory.boundary_pool import linear_offset
from tests.bad_calls import ADD


def test_a_context_manager_closes_and_frees(executor: Any) -> None:
    with hg.Executor(executor.backend) as own:
        x: Any = own.tensor(np.arange(5000, dtype=np.float32))
        small = own.allocate(3)
        out = own.allocate(5000)
        hg.ops.vector_add(own, x, x, out)
        assert out.to_numpy()[-1] == 9998
        assert "closed" not in repr(own)
    assert own.closed
    assert "closed" in repr(own)
    assert x.buffer.freed
    assert small.freed
    own.close()  # once more does nothing
    calls = [
        lambda: hg.ops.vector_add(own, x, x, out),
        lambda: own.allocate(4),
        lambda: own.tensor([1.0]),
        lambda: own.run(ADD, {"x": x, "out": out}, lanes=4, s=1.0),
        lambda: x + 1,
        lambda: hg.sum(x),
        lambda: x.to_numpy(),
        lambda: own.synchronize(),
        lambda: own.empty_cache(),
        lambda: own.allocate_boundary(1),
        lambda: own.from_dlpack(np.zeros(4, np.float32)),
        lambda: own.event().record(),
        lambda: own.profile().__enter__(),
    ]
    for call in calls:
        with pytest.raises(BufferFreed, match=r"closed|freed"):
            call()
    assert own.memory_stats()["allocated"] == 0
    assert executor.tensor([1.0]).tolist() == [1.0]  # another executor is not touched


def test_an_executor_that_nobody_closes_goes_quietly(executor: Any) -> None:
    own = hg.Executor(executor.backend)
    x: Any = own.tensor([1.0, 2.0])
    del own
    assert (x + 1).tolist() == [2.0, 3.0]


def test_eight_threads_share_an_executor(executor: Any) -> None:
    """Each on its own tensors, all on one input, while kernels are compiled and memory comes and goes."""
    shared = executor.tensor(np.arange(3000, dtype=np.float32))
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        own = executor.tensor(np.full(3000, number, np.float32))
        out = executor.allocate(3000)
        for k in range(40):
            hg.ops.vector_add(executor, shared, own, out)
            np.testing.assert_array_equal(out.to_numpy(), np.arange(3000, dtype=np.float32) + number)
            y = hg.sum((shared[: 100 + k] * 2.0 + own[: 100 + k]) * float(number))
            n = 100 + k
            assert y.item() == (n * (n - 1) + n * number) * number
            executor.run(ADD, {"x": own, "out": out}, lanes=3000, s=float(k))
            assert out.to_numpy()[[0, -1]].tolist() == [number + k] * 2
            if k % 16 == number:
                executor.empty_cache()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, number) for number in range(8)]:
            done.result(timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_not_hang(executor: Any) -> None:
    x = executor.tensor(np.arange(5000, dtype=np.float32))
    out = executor.allocate(5000)
    hg.ops.vector_add(executor, x, x, out)
    out.to_numpy()  # copies take a short way from now on, where there is one
    small, named = executor.allocate(3).fill(1.0), executor.allocate_boundary(7).fill(0)
    small.to_numpy(), named.to_numpy()
    calls = {
        "cached": lambda: (hg.ops.vector_add(executor, x, x, out), executor.synchronize()),
        "new": lambda: hg.ops.vector_mul(executor, x, x, out),
        "allocate": lambda: executor.allocate(10),
        "read": lambda: (x + 1).to_numpy(),
        "synchronize": lambda: executor.synchronize(),
        "copy out": lambda: out.to_numpy(),
        "copy in": lambda: out.from_numpy(np.ones(5000, np.float32)),
        "view": lambda: out.to_numpy(copy=None),
        "fill": lambda: out.fill(1.0),
        "small": lambda: small.to_numpy(),
        "boundary": lambda: named.to_numpy(),
        "program": lambda: executor.run(ADD, {"x": x, "out": out}, lanes=4, s=1.0),
    }
    for name, call in calls.items():
        assert in_child(call).startswith(("BackendUnavailable", "DeviceLost")), name
    assert hg.sum(x).item() == 12497500
    assert out.to_numpy()[1] == 2


def in_child(call: Any) -> str:
    """What a call raises in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            call()
        except HologramError as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def test_streams_and_events(executor: Any) -> None:
    stream = executor.stream()
    first, last = executor.event(), executor.event()
    with pytest.raises(HologramError, match="not recorded"):
        first.synchronize()
    with pytest.raises(HologramError, match="not recorded"):
        first.elapsed_ms(last)
    first.record()
    out = executor.tensor(np.ones(100_000, np.float32)) * 3.0
    last.record()
    last.synchronize()
    stream.synchronize()
    assert 0 < first.elapsed_ms(last) < 60_000
    assert stream.record().elapsed_ms(first) < 0
    assert out[-1].item() == 3


def test_memory_statistics_follow_buffers(executor: Any) -> None:
    before = executor.memory_stats()
    buffer = executor.allocate(1 << 20)
    during = executor.memory_stats()
    assert during["count"] == before["count"] + 1
    assert during["allocated"] - before["allocated"] >= 4 << 20
    assert during["peak"] >= during["allocated"]
    assert during["reserved"] >= during["allocated"]
    buffer.free()
    assert executor.memory_stats()["allocated"] == before["allocated"]
    executor.empty_cache()
    after = executor.memory_stats()
    assert after["reserved"] <= during["reserved"] - (4 << 20)
    assert hg.sum(executor.ones((10,))).item() == 10


def test_what_is_prepared_is_counted(executor: Any) -> None:
    with hg.Executor(executor.backend, executor.device.info.index) as own:
        assert set(own.preparation_stats().values()) == {0}
        double = hg.jit(lambda x: hg.exp(x) * 2.0 + 1.0)
        counts = []
        for n in (5, 5, 7):
            x = own.tensor(np.zeros(n, np.float32))
            assert (x + x).to_numpy().tolist() == [0.0] * n
            assert double(x).to_numpy().tolist() == [3.0] * n
            counts.append(own.preparation_stats())
    first, again, other = counts
    assert first == again
    assert (first["traced"], other["traced"]) == (1, 2)
    assert first["planned"] >= 1
    assert first["prepared"] >= 2
    assert first["compiled"] >= 2
    assert other["planned"] > first["planned"]


def test_kernels_that_are_forgotten_are_compiled_again(executor: Any) -> None:
    with hg.Executor(executor.backend, executor.device.info.index) as own:
        x = own.tensor(np.ones(5, np.float32))
        assert (x + x).tolist() == [2.0] * 5
        before = own.preparation_stats()["compiled"]
        own.device.forget_kernels()
        assert (x + x).tolist() == [2.0] * 5  # its launch has what it runs
        assert own.preparation_stats()["compiled"] == before
        y = own.tensor(np.ones((5, 2), np.float32))[:, 1]
        assert (y + y).tolist() == [2.0] * 5
        assert own.preparation_stats()["compiled"] > before


def test_launches_are_known_by_structure_and_not_by_memory(executor: Any) -> None:
    out = executor.allocate(1 << 18)
    x = executor.allocate(1 << 18).fill(2)
    hg.ops.vector_abs(executor, x, out)
    held = executor.memory_stats()["cached_launches"]
    x.free()
    executor.empty_cache()
    y = executor.allocate(1 << 18).fill(-5)
    hg.ops.vector_abs(executor, y, out)
    assert executor.memory_stats()["cached_launches"] == held
    assert out.to_numpy()[[0, -1]].tolist() == [5, 5]


def test_programs_address_the_boundary_pool(executor: Any) -> None:
    """A region is named by class and page; the program counts from the region's first byte."""
    region = executor.allocate_boundary(7, 2, dtype=dtypes.u32)
    other = executor.allocate_boundary(7, 1)
    assert region.size == 2 * 256 // 4
    assert other.block.offset - region.block.offset == linear_offset(7, 2) - linear_offset(7, 0)
    text = """program atlas_number rank 2 reduced 0
buffer out : u32 write
%0 = coordinate 0 : index
%1 = coordinate 1 : index
%2 = constant 64 : index
%3 = mul %0, %2 : index
%4 = add %3, %1 : index
%5 = convert %4 : u32
store out %4, %5
"""
    other.fill(9)
    executor.run(text, {"out": region}, lanes=(2, 64))  # pages, words of a page
    np.testing.assert_array_equal(region.to_numpy(), np.arange(128))
    assert (other.to_numpy() == 9).all()
    region.free()
    again = executor.allocate_boundary(7, 2)
    assert again.block.offset == other.block.offset - 512
    with pytest.raises(ShapeError, match="class"):
        executor.allocate_boundary(-1)


def test_an_unknown_backend_or_device_says_what_there_is() -> None:
    with pytest.raises(HologramError, match="cpu"):
        hg.Executor("vulkan")
    with pytest.raises(BackendUnavailable, match="99"):
        hg.Executor("cpu", device=99)


def test_executors_are_named(executor: Any) -> None:
    named = f"Executor({executor.backend!r}, {executor.device.info.name!r}, number "
    assert repr(executor).startswith(named)
    with hg.Executor(executor.backend) as other:  # messages tell executors of one device apart
        assert repr(other).startswith(named)
        assert repr(other) != repr(executor)
    assert executor.device.info.backend == executor.backend
    assert executor.limits.dtypes <= set(dtypes.ALL)


@pytest.mark.parametrize("dtype", [*dtypes.ALL, dtypes.index], ids=repr)
def test_dtypes_stay_themselves_through_a_pickle(dtype: dtypes.DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert eval(repr(dtype), {d.name: d for d in (*dtypes.ALL, dtypes.index)}) is dtype
