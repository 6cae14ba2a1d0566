"""HOLOGRAM_BOUNDS=1: indices are checked on the device, and the error names the array, the index and the line."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_BOUNDS", "1")
    for kernel in (blurred, scattered, tiles):
        kernel._launchers.clear()


@hg.kernel
def blurred(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], reach: hg.i32):
    i, j = hg.index()
    left = x[i, j - reach] if j >= reach else 0.0
    if j > 0 and x[i, j - 1] >= 0.0:
        left += 1.0
    out[i, j] = left + x[i, j + reach - 1]


@hg.kernel
def scattered(at: hg.Array[hg.i32], out: hg.Array[hg.f32]):
    own = hg.local(2, hg.f32)
    own[1] = 3.0
    out[at[hg.index()]] = own[1]


@hg.kernel(workgroup=(2, 2))
def tiles(x: hg.Array[hg.f32, 2], shift: hg.i32):
    i, j = hg.index()
    own = hg.shared((2, 2), hg.f32)
    own[hg.thread_index(0), hg.thread_index(1) + shift] = x[i, j]
    x[i, j] = own[hg.thread_index(0), hg.thread_index(1)] * 2.0


def test_what_is_inside_runs(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).random((3, 5), np.float32)
    out = executor.zeros(x.shape)
    blurred[x.shape](executor.tensor(x), out, 1)
    want = x + np.pad(x, ((0, 0), (1, 0)))[:, :-1] + (np.arange(5) > 0)
    assert np.allclose(out.to_numpy(), want)
    there = executor.tensor(x)
    tiles[x.shape](there, 0)
    assert np.array_equal(there.to_numpy(), 2 * x)


def test_the_first_index_outside_is_told(executor: hg.Executor) -> None:
    x = executor.zeros((1, 5))
    line = blurred.function.__code__.co_firstlineno + 6
    with pytest.raises(hg.BoundsError, match=rf":{line}:\d+: blurred: x\[0, 5\] .* at index \(0, 4\)"):
        blurred[1, 5](x, executor.zeros((1, 5)), 2)
    with pytest.raises(hg.BoundsError, match=r"out\[-3\] is outside of the array, at index \(2,\)"):
        scattered[4](executor.tensor(np.array([0, 1, -3, 2], np.int32)), executor.zeros(3))
    with pytest.raises(hg.BoundsError, match=r"hg.shared\(...\)\[\d, 2\] is outside"):
        tiles[3, 3](executor.zeros((3, 3)), 1)
