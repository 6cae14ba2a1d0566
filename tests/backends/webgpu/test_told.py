"""Launches that are told where their operands lie: as compiled code, and in Python."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hologram as hg
from hologram.backends.webgpu import told

rng = np.random.default_rng(7)


@pytest.fixture(params=["compiled", "python"])
def executor(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(told, "builtin", lambda encoder: None)
    else:
        pytest.importorskip("llvmlite")
    with hg.Executor(backend="webgpu") as found:
        yield found


def test_operands_lie_elsewhere_at_each_call(executor):
    arrays = [rng.standard_normal((3, n)).astype(np.float32) for n in (5, 5, 40_001, 5, 40_001)]
    for a in arrays * 3:
        x = executor.tensor(a)
        np.testing.assert_allclose((x * 2.0 + x).to_numpy(), a * 2 + a, rtol=1e-6)
        np.testing.assert_allclose(hg.sum(x, axis=1).to_numpy(), a.sum(1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("number", [1.5, -1.0, 0.1, float("inf"), 1e300, float("nan"), -0.0, 2**-149])
def test_numbers_are_told_as_f32(executor, number):
    x = executor.tensor(np.array([1.0, -0.0], np.float32))
    for value in (number, 7.25, number):
        with np.errstate(over="ignore", invalid="ignore"):
            expected = np.array([1.0, -0.0], np.float32) * np.float32(value)
        np.testing.assert_array_equal((x * value).to_numpy(), expected)


def test_an_integer_that_is_too_large_for_a_double_is_refused_and_nothing_stays_locked(executor):
    x = executor.ones((4,))
    (x * 2.0).to_numpy()
    with pytest.raises((OverflowError, hg.HologramError)):
        x * 10**400
    done = threading.Event()
    threading.Thread(target=lambda: ((x * 3.0).to_numpy(), done.set())).start()
    assert done.wait(30)


def test_a_batch_ends_in_the_middle_of_a_launch(executor):
    executor.device.encoder.batch = 3
    a = rng.standard_normal((64, 64)).astype(np.float32)
    x = executor.tensor(a)
    y = x
    for _ in range(4):
        y = hg.softmax(hg.matmul(x, x) + 1.0, dim=-1)
    z = a @ a + 1
    z = np.exp(z - z.max(-1, keepdims=True))
    np.testing.assert_allclose(y.to_numpy(), z / z.sum(-1, keepdims=True), rtol=2e-3, atol=1e-6)


def test_threads_launch_at_once(executor):
    arrays = [rng.standard_normal((n,)).astype(np.float32) for n in (1000, 30_000, 1000, 30_000)]
    wrong: list[str] = []

    def work(a):
        x = executor.tensor(a)
        for k in range(60):
            if not np.allclose((hg.exp(x * 0.5) + float(k)).to_numpy(), np.exp(a * 0.5) + k, rtol=1e-5):
                wrong.append(f"{a.size} at {k}")

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_groups_that_were_dropped_are_made_again(executor):
    executor.device.pipelines.groups_kept = 4
    x = executor.ones((50_000,))
    for k in range(12):
        assert (hg.exp(x) * float(k) + x[:1]).to_numpy()[0] == pytest.approx(np.e * k + 1, rel=1e-5)
        assert hg.sum(x).item() == 50_000
        assert len(executor.device.pipelines.groups) <= 4
        if k % 4 == 3:
            executor.empty_cache()


def test_the_device_is_lost_between_two_calls(executor):
    x = executor.ones((10,))
    (x * 2.0).to_numpy()
    encoder = executor.device.encoder
    encoder.lib.wgpuDeviceDestroy(encoder.device.handle)
    for _ in range(3):
        with pytest.raises(hg.HologramError, match="lost"):
            (x * 2.0).to_numpy()
    with pytest.raises(hg.HologramError, match="lost"):  # told once
        executor.close()


@pytest.mark.parametrize("offsets", [0, 2])
def test_adapters_may_take_few_offsets(executor, monkeypatch, offsets):
    """Beyond as many, bind groups see the places themselves."""
    limits = executor.device.encoder.device.adapter.limits
    monkeypatch.setitem(limits, "maxDynamicStorageBuffersPerPipelineLayout", offsets)
    layouts = executor.device.pipelines.layouts
    before = set(layouts)  # what an open device asked of it may lie by offsets
    for n in (9, 40_003, 9):
        a, b = rng.standard_normal((2, n)).astype(np.float32)
        for _ in range(3):
            x, y = executor.tensor(a), executor.tensor(b)
            np.testing.assert_allclose((x + y).to_numpy(), a + b, rtol=1e-6)
            np.testing.assert_allclose(hg.where(x > 0, x, y * 2.0).to_numpy(), np.where(a > 0, a, b * 2))
            x += y
            np.testing.assert_allclose(x[1::2].to_numpy(), (a + b)[1::2], rtol=1e-6)
    told = {layout.told != 0 for key, layout in layouts.items() if key not in before}
    assert told == ({True, False} if offsets else {False})
