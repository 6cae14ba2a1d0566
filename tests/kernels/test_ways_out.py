"""Loops with conditions and ways out of them, memory of lanes and workgroups: on every backend, and as Python."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg

TILE = 4


def same(
    kernel: Any, executor: hg.Executor, grid: Any, *arguments: Any, atol: float = 0.0
) -> list[np.ndarray]:
    """Runs a kernel on a device and as Python; both must agree. Gives the arrays afterwards."""
    there = [executor.tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]
    here = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    kernel[grid](*there)
    kernel.python[grid](*here)
    found = [x.to_numpy() for x in there if isinstance(x, hg.Tensor)]
    for one, other in zip(found, [x for x in here if isinstance(x, np.ndarray)], strict=True):
        assert np.allclose(one, other, rtol=0, atol=atol, equal_nan=True), kernel
    return found


@hg.kernel
def collatz(x: hg.Array[hg.i32], steps: hg.Array[hg.i32], most: hg.i32):
    i = hg.index()
    n = x[i]
    count = 0
    while n != 1:
        if n <= 0 or count >= most:
            count = -1
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    steps[i] = count


def test_while_and_break(executor: hg.Executor) -> None:
    x = np.arange(-2, 60, dtype=np.int32)
    _, steps = same(collatz, executor, x.size, x, np.zeros_like(x), 50)

    def of(n: int) -> int:
        count = 0
        while n > 1 and count < 51:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count if n == 1 and count <= 50 else -1

    assert steps.tolist() == [of(int(n)) for n in x]


@hg.func
def first_above(x: hg.Array[hg.f32, 2], row, limit):
    """The first column whose element is above a limit, or -1."""
    for k in range(x.shape[1]):
        if x[row, k] > limit:
            return k
    return -1


@hg.func
def kind(n):
    while True:
        if n > 100:
            return 2.0
        if n < -100:
            return -2.0
        if n == 0:
            return 0.0
        n = n * 2


@hg.kernel
def searched(x: hg.Array[hg.f32, 2], out: hg.Array[hg.i32], kinds: hg.Array[hg.f32]):
    i = hg.index()
    if i % 7 == 3:
        return
    out[i] = first_above(x, i, 0.9)
    kinds[i] = kind(i - 5)
    for a in range(5, -1, -1):
        for b in range(a):
            if a * b > i:
                break
            if b == 3:
                continue
            out[i] += a - b
        else_part = a
        if else_part == 2:
            return
    out[i] = 1000


def test_returns_from_loops(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).random((30, 6), np.float32)
    _, out, kinds = same(searched, executor, 30, x, np.full(30, -7, np.int32), np.zeros(30, np.float32))
    above = np.where((x > 0.9).any(1), (x > 0.9).argmax(1), -1)
    extra = [
        sum(a - b for a in range(5, 1, -1) for b in _until(range(a), lambda b, a=a, i=i: a * b > i) if b != 3)
        for i in range(30)
    ]
    want = above + extra
    skipped = np.arange(30) % 7 == 3
    assert np.array_equal(out, np.where(skipped, -7, want))
    assert np.array_equal(kinds, np.where(skipped, 0, 2 * np.sign(np.arange(30) - 5)))


def _until(numbers: Any, ends: Any) -> list[int]:
    found = []
    for n in numbers:
        if ends(n):
            break
        found.append(n)
    return found


@hg.func
def escapes(x, y):
    """What it carries begins as literals, and so does the condition."""
    a, b = 0.0, 0.0
    for k in range(50):
        if a * a + b * b > 4.0:
            return k
        a, b = a * a - b * b + x, 2.0 * a * b + y
    return 50


@hg.kernel
def mandelbrot(out: hg.Array[hg.i32, 2]):
    i, j = hg.index()
    out[i, j] = escapes(j * 0.125 - 2.0, i * 0.125 - 1.0)


def test_a_loop_that_returns_what_it_counts(executor: hg.Executor) -> None:
    (out,) = same(mandelbrot, executor, (16, 24), np.zeros((16, 24), np.int32))
    z, c = np.zeros((16, 24), complex), (np.arange(24) / 8 - 2) + 1j * (np.arange(16)[:, None] / 8 - 1)
    want = np.full(c.shape, 50)
    for k in range(50):
        want[(np.abs(z) > 2) & (want == 50)] = k
        z = np.where(want == 50, z * z + c, z)
    assert (out == want).mean() > 0.99
    assert len(np.unique(out)) > 8


@hg.func
def doubled_past(n, most):
    for _ in range(8):
        if n > most:
            return n
        n = n + n
    return most


@hg.kernel
def unsigned_ways_out(x: hg.Array[hg.u32], out: hg.Array[hg.u32]):
    i = hg.index()
    out[i] = doubled_past(x[i], hg.u32(2_900_000_000))


def test_a_loop_returns_what_is_no_default_dtype(executor: hg.Executor) -> None:
    x = np.array([0, 1, 1_500_000_000, 3_000_000_000], np.uint32)
    _, found = same(unsigned_ways_out, executor, 4, x, np.zeros_like(x))
    assert found.tolist() == [2_900_000_000, 2_900_000_000, 3_000_000_000, 3_000_000_000]


@hg.kernel
def medians(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    """The median of each pixel's surroundings, sorted in the lane's own memory."""
    i, j = hg.index()
    for again in range(2):
        window = hg.local(9, hg.f32)
        count = 0
        for a in range(-1, 2):
            for b in range(-1, 2):
                y, z = i + a, j + b
                if 0 <= y < x.shape[0] and 0 <= z < x.shape[1]:
                    value = x[y, z]
                    k = count
                    while k > 0 and window[k - 1] > value:
                        window[k] = window[k - 1]
                        k -= 1
                    window[k] = value
                    count += 1
        out[i, j] += window[count // 2] + window[8] * again


def test_local_memory(executor: hg.Executor) -> None:
    x = np.random.default_rng(1).random((7, 9), np.float32)
    _, out = same(medians, executor, x.shape, x, np.zeros_like(x))
    windows = [
        [np.sort(x[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2], None) for j in range(9)] for i in range(7)
    ]
    want = [[2 * w[w.size // 2] + (w[8] if w.size == 9 else 0) for w in row] for row in windows]
    assert np.allclose(out, want, rtol=1e-6)


@hg.kernel
def histogram(x: hg.Array[hg.i32], counts: hg.Array[hg.u32], largest: hg.Array[hg.i32]):
    i = hg.index()
    hg.atomic_add(counts, x[i] % counts.shape[0], 1)
    hg.atomic_max(largest, 0, x[i])
    if hg.atomic_compare_exchange(largest, 1, 0, 7) == 0:
        hg.atomic_add(largest, 2, 1)


def test_atomics(executor: hg.Executor) -> None:
    x = np.random.default_rng(2).integers(0, 1000, 777).astype(np.int32)
    _, counts, largest = same(histogram, executor, x.size, x, np.zeros(10, np.uint32), np.zeros(3, np.int32))
    assert np.array_equal(counts, np.bincount(x % 10, minlength=10))
    assert largest.tolist() == [x.max(), 7, 1]


@hg.kernel(workgroup=8)
def shared_histogram(x: hg.Array[hg.i32], counts: hg.Array[hg.i32]):
    own = hg.shared(5, hg.i32)
    t = hg.thread_index()
    hg.atomic_add(own, x[hg.index()] % 5, 1)
    hg.barrier()
    if t < 5:
        hg.atomic_add(counts, t, own[t])


@pytest.mark.parametrize("size", [1, 8, 77])
def test_shared_atomics(executor: hg.Executor, size: int) -> None:
    x = np.random.default_rng(3).integers(0, 1000, size).astype(np.int32)
    _, counts = same(shared_histogram, executor, size, x, np.zeros(5, np.int32))
    whole = size // 8 * 8
    tail = np.bincount(x[whole:] % 5, minlength=5)
    tail[size - whole :] = 0  # the lanes that would add them are missing
    assert np.array_equal(counts, np.bincount(x[:whole] % 5, minlength=5) + tail)


@hg.kernel(workgroup=(TILE, TILE))
def product(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32, 2], c: hg.Array[hg.f32, 2]):
    """A tile of each operand at a time, shared by the workgroup."""
    i, j = hg.index()
    y, x = hg.thread_index()
    left = hg.shared((TILE, TILE), hg.f32)
    right = hg.shared((TILE, TILE), hg.f32)
    total = 0.0
    for k in range(0, a.shape[1], TILE):
        left[y, x] = a[i, k + x] if i < a.shape[0] and k + x < a.shape[1] else 0.0
        right[y, x] = b[k + y, j] if k + y < b.shape[0] and j < b.shape[1] else 0.0
        hg.barrier()
        for m in hg.static(range(TILE)):
            total += left[y, m] * right[m, x]
        hg.barrier()
    c[i, j] = total


@pytest.mark.parametrize("sizes", [(8, 4, 8), (16, 12, 8)])
def test_tiled_product(executor: hg.Executor, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    rng = np.random.default_rng(4)
    a, b = rng.random((rows, inner), np.float32), rng.random((inner, columns), np.float32)
    *_, c = same(product, executor, (rows, columns), a, b, np.zeros((rows, columns), np.float32), atol=1e-5)
    assert np.allclose(c, a @ b, atol=1e-5)


@hg.kernel(workgroup=(2, 3, 2))
def places(out: hg.Array[hg.i32, 3], groups: hg.Array[hg.i32, 3]):
    i, j, k = hg.index()
    a, b, c = hg.workgroup_index()
    x, y, z = hg.thread_index()
    out[i, j, k] = (a * 2 + x) * 10000 + (b * 3 + y) * 100 + c * 2 + z
    groups[i, j, k] = hg.grid_size(0) * 100 + hg.thread_index(1)


def test_workgroups_of_three_axes(executor: hg.Executor) -> None:
    shape = (3, 7, 4)
    out, groups = same(places, executor, shape, np.zeros(shape, np.int32), np.zeros(shape, np.int32))
    i, j, k = np.indices(shape)
    assert np.array_equal(out, i * 10000 + j * 100 + k)
    assert np.array_equal(groups, 300 + j % 3)


@hg.kernel(workgroup=8)
def parted(x: hg.Array[hg.f32]):
    if x[hg.index()] > 0.0:
        hg.barrier()


@hg.kernel(workgroup=8)
def too_much(x: hg.Array[hg.f32]):
    own = hg.shared(1 << 20, hg.f32)
    own[hg.thread_index()] = x[hg.index()]
    x[hg.index()] = own[0]


@hg.kernel
def no_workgroup(x: hg.Array[hg.f32]):
    hg.barrier()
    x[0] = 1.0


@hg.kernel
def atomic_floats(x: hg.Array[hg.f32]):
    hg.atomic_max(x, 0, 1.0)


@pytest.mark.parametrize(
    ("kernel", "line", "words"),
    [
        (parted, 3, "barrier must not stand where lanes of a workgroup part"),
        (too_much, 2, "shares .* bytes, and this makes 4194304"),
        (no_workgroup, 2, "needs a kernel with workgroups"),
        (atomic_floats, 2, "add or exchange f32"),
    ],
)
def test_refused(executor: hg.Executor, kernel: Any, line: int, words: str) -> None:
    first = kernel.function.__code__.co_firstlineno
    with pytest.raises(hg.KernelError, match=words) as caught:
        kernel[8](executor.zeros(8))
    assert caught.value.line == first + line


def test_an_error_in_one_lane_ends_its_workgroup() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(hg.BoundsError, match=r"x\[3\]"):
        far.python[8](x)


@hg.kernel(workgroup=4)
def far(x: hg.Array[hg.f32]):
    hg.barrier()
    x[hg.thread_index()] = 1.0
    hg.barrier()
