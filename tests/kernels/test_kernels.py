"""What kernels say: each runs on every backend, and as the Python function that it is."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import hologram as hg

HALF = 0.5
SIZES = (3, 5)


@hg.kernel
def heat(u: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], dt: hg.f32):
    """A step of the heat equation; the border stays."""
    i, j = hg.index()
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
        out[i, j] = u[i, j] + dt * around
    else:
        out[i, j] = u[i, j]


def heat_reference(u: np.ndarray, dt: float) -> np.ndarray:
    out = u.copy()
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    out[1:-1, 1:-1] += dt * around
    return out


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (7, 5), (33, 65)])
def test_heat(executor: hg.Executor, shape: tuple[int, int]) -> None:
    u = np.random.default_rng(0).random(shape, np.float32)
    want = heat_reference(u.astype(np.float64), 0.1)
    here, out = executor.tensor(u), executor.zeros(shape)
    heat[shape](here, out, 0.1)
    assert np.allclose(out.to_numpy(), want, rtol=1e-6, atol=1e-6)
    beside = np.zeros(shape, np.float32)
    heat.python[shape](u, beside, 0.1)
    assert np.allclose(beside, want, rtol=1e-6, atol=1e-6)


def test_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(heat)) is heat
    assert copy.deepcopy({"step": heat})["step"] is heat


def test_numbers_change_without_a_new_launch(executor: hg.Executor) -> None:
    u = np.random.default_rng(1).random((9, 9), np.float32)
    here, out = executor.tensor(u), executor.zeros(u.shape)
    for dt in (0.0, 0.1, 0.25, 1):
        heat[u.shape](here, out, dt)
        assert np.allclose(out.to_numpy(), heat_reference(u.astype(np.float64), dt), atol=1e-6), dt


@hg.func
def collatz_step(n):
    if n % 2 == 0:
        return n // 2
    return 3 * n + 1


@hg.func
def sign_of(x, epsilon=0.0):
    if x > epsilon:
        return 1
    elif x < -epsilon:
        return -1
    return 0


@hg.kernel
def ways(x: hg.Array[hg.f32], n: hg.Array[hg.i32], out: hg.Array[hg.f32], whole: hg.Array[hg.i32]):
    i = hg.index()
    if i >= x.shape[0]:
        return
    total = 0.0
    count = 0
    for k in range(n[i]):
        if k % 3 == 1:
            continue
        total += x[i] * (k + 1)
        count += 1
    low, high = (total, x[i]) if total < x[i] else (x[i], total)
    for k in hg.static(range(2)):
        high = high * HALF + k
    for size in SIZES:
        count += size
    y = min(low, high, 2.0) if not (count > 9 or total == 0) else max(low, -1)
    out[i] = abs(y) + math.sqrt(abs(x[i])) + hg.f32(sign_of(x[i], 0.25))
    whole[i] = collatz_step(count) + (count << 1) - (n[i] // 3) + (n[i] % -3)


def ways_reference(x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    out, whole = np.zeros(len(x)), np.zeros(len(x), np.int32)
    for i, (xi, ni) in enumerate(zip(x.astype(np.float64), n.tolist(), strict=True)):
        rounds = [k for k in range(ni) if k % 3 != 1]
        total, count = xi * sum(k + 1 for k in rounds), len(rounds)
        low, high = (total, xi) if total < xi else (xi, total)
        high = high * 0.5 * 0.5 + 1
        count += 8
        y = max(low, -1) if count > 9 or total == 0 else min(low, high, 2.0)
        out[i] = abs(y) + abs(xi) ** 0.5 + (xi > 0.25) - (xi < -0.25)
        whole[i] = (count // 2 if count % 2 == 0 else 3 * count + 1) + 2 * count - ni // 3 + ni % -3
    return out, whole


def test_ways_through_a_kernel(executor: hg.Executor) -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(size=97), [0.0, 0.25, -0.25]]).astype(np.float32)
    n = rng.integers(-4, 12, x.size).astype(np.int32)
    out, whole = executor.zeros(x.size), executor.zeros(x.size, hg.i32)
    ways[x.size + 28](executor.tensor(x), executor.tensor(n), out, whole)
    want, want_whole = ways_reference(x, n)
    assert np.allclose(out.to_numpy(), want, rtol=1e-5, atol=1e-6)
    assert np.array_equal(whole.to_numpy(), want_whole)
    beside, beside_whole = np.zeros(x.size, np.float32), np.zeros(x.size, np.int32)
    ways.python[x.size + 28](x, n, beside, beside_whole)
    assert np.allclose(beside, want, rtol=1e-5, atol=1e-6)
    assert np.array_equal(beside_whole, want_whole)


@hg.kernel
def downwards(a: hg.Array[hg.i32, 3], out: hg.Array[hg.i64, 1]):
    """Sums of a against the order of its axes, with steps."""
    i = hg.index(0)
    total: hg.i64 = 0
    for j in range(a.shape[1] - 1, -1, -2):
        for k in range(-1, a.shape[2], 2):
            if k >= 0:
                total += a[i, j, k] * (j + 1)
    out[i] = total


def test_downwards(executor: hg.Executor) -> None:
    a = np.random.default_rng(3).integers(-100, 100, (4, 7, 6)).astype(np.int32)
    want = (a[:, ::-1][:, ::2, 1::2] * np.arange(7, 0, -2)[:, None]).sum((1, 2))
    out = executor.zeros(4, hg.i64)
    downwards[4](executor.tensor(a), out)
    assert np.array_equal(out.to_numpy(), want)
    beside = np.zeros(4, np.int64)
    downwards.python[4](a, beside)
    assert np.array_equal(beside, want)


def test_views_and_one_array_twice(executor: hg.Executor) -> None:
    u = np.random.default_rng(4).random((12, 10), np.float32)
    here, out = executor.tensor(u), executor.zeros((10, 12))
    heat[10, 12](here.T, out.T.T, 0.1)
    assert np.allclose(out.to_numpy(), heat_reference(u.T.astype(np.float64), 0.1), atol=1e-6)
    scale[u.shape](here, here)
    scale[u.shape](here[:, ::2].T.T[:, :5], here[:, ::2])
    want = 2 * u
    want[:, ::2] *= 2
    assert np.array_equal(here.to_numpy(), want)
    with pytest.raises(hg.ShapeError, match="share memory"):
        scale[11, 10](here[:-1], here[1:])


@hg.kernel
def scale(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    if j < b.shape[1]:
        b[i, j] = 2 * a[i, j]


@pytest.mark.parametrize(
    "dtype", ["f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
)
def test_dtypes(executor: hg.Executor, dtype: str) -> None:
    d = hg.dtypes.dtype(dtype)
    if d not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType):
            executor.zeros(3, d)
        return
    x = np.arange(50, dtype=np.int64).astype(d.numpy)
    out = executor.zeros(50, d)
    doubled_of(d)[50](executor.tensor(x), out)
    with np.errstate(over="ignore"):
        want = (x + x + d.numpy.type(1)).astype(d.numpy)
    assert np.array_equal(out.to_numpy(), want)


def doubled_of(d: Any) -> Any:
    """A kernel that refers to what its maker knows."""

    @hg.kernel
    def doubled(x: hg.Array[d], out: hg.Array[d]):
        i = hg.index()
        out[i] = x[i] + x[i] + 1

    return doubled


def test_out_of_bounds_in_the_python_form() -> None:
    u = np.zeros((3, 4), np.float32)
    with pytest.raises(
        hg.BoundsError, match=r"b\[0, 4\] writes outside of shape \(3, 4\), at index \(0, 4\)"
    ):
        reach.python[3, 5](u, u)
    with pytest.raises(IndexError, match=r"a\[-1\] reads"):
        before.python[3](np.zeros(3, np.float32))


@hg.kernel
def reach(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    b[i, j] = 1.0


@hg.kernel
def before(a: hg.Array[hg.f32]):
    i = hg.index()
    a[i] = a[i - 1]


def test_the_knob_runs_python(monkeypatch: pytest.MonkeyPatch, executor: hg.Executor) -> None:
    monkeypatch.setenv("HOLOGRAM_KERNELS", "python")
    a = executor.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    with pytest.raises(hg.BoundsError):
        reach[2, 4](a, a)
    reach[2, 3](a, a)
    assert np.array_equal(a.to_numpy(), np.ones((2, 3)))
