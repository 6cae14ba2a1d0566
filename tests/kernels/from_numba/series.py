"""Sums, orders, means and edits of lists, in the manner of Numba."""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import numpy as np

import hologram as hg
from tests.kernels.examples import Cases, Pair

RNG = np.random.default_rng(2)
CASES = Cases()
case = CASES.case


@hg.kernel
def add_scaled(a: hg.f32, x: hg.Array[hg.f32], y: hg.Array[hg.f32]):
    i = hg.index()
    y[i] = a * x[i] + y[i]


@case
def saxpy(ex: hg.Executor) -> Pair:
    x, y = (RNG.random(100, np.float32) for _ in range(2))
    there = ex.tensor(y)
    add_scaled[100](2.5, ex.tensor(x), there)
    return there.to_numpy(), 2.5 * x + y


@hg.kernel
def neighbours_mean(x: hg.Array[hg.f32], width: hg.i32, out: hg.Array[hg.f32]):
    i = hg.index()
    total, count = 0.0, 0
    for k in range(i, max(i - width, -1), -1):
        total += x[k]
        count += 1
    out[i] = total / count


@case
def moving_mean(ex: hg.Executor) -> Pair:
    x = RNG.random(40, np.float32)
    out = ex.empty(40)
    neighbours_mean[40](ex.tensor(x), 5, out)
    return out.to_numpy(), [x[max(k - 4, 0) : k + 1].mean() for k in range(40)]


@hg.kernel
def sorted_rows(x: hg.Array[hg.f32, 2]):
    i = hg.index()
    n = x.shape[1]
    for last in range(n - 1, 0, -1):
        for k in range(last):
            if x[i, k] > x[i, k + 1]:
                x[i, k], x[i, k + 1] = x[i, k + 1], x[i, k]


@case
def bubble_sort(ex: hg.Executor) -> Pair:
    x = RNG.random((6, 15), np.float32)
    there = ex.tensor(x)
    sorted_rows[6](there)
    return there.to_numpy(), np.sort(x)


@hg.kernel(workgroup=32)
def partial_sums(x: hg.Array[hg.i32], out: hg.Array[hg.i32]):
    t, i = hg.thread_index(), hg.index()
    own = hg.shared(32, hg.i32)
    own[t] = x[i] if i < x.size else 0
    hg.barrier()
    for half in hg.static((16, 8, 4, 2, 1)):
        if t < half:
            own[t] += own[t + half]
        hg.barrier()
    if t == 0:
        out[hg.workgroup_index()] = own[0]


@case
def block_sums(ex: hg.Executor) -> Pair:
    x = RNG.integers(1000, size=150).astype(np.int32)
    out = ex.empty(5, hg.i32)
    partial_sums[160](ex.tensor(x), out)
    return out.to_numpy(), np.add.reduceat(x, range(0, 150, 32))


@hg.kernel
def along(x: hg.Array[hg.f32], weights: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    total = 0.0
    for k in range(weights.size):
        at = i - k
        if 0 <= at < x.size:
            total += weights[k] * x[at]
    out[i] = total


@case
def convolution(ex: hg.Executor) -> Pair:
    x, weights = RNG.random(50, np.float32), RNG.random(7, np.float32)
    out = ex.empty(56)
    along[56](ex.tensor(x), ex.tensor(weights), out)
    return out.to_numpy(), np.convolve(x, weights)


@hg.kernel
def counted(x: hg.Array[hg.f32], edges_: hg.Array[hg.f32], counts: hg.Array[hg.i32]):
    i = hg.index()
    low, high = 0, edges_.size
    while low < high:
        middle = (low + high) // 2
        if edges_[middle] <= x[i]:
            low = middle + 1
        else:
            high = middle
    if 0 < low < edges_.size:
        hg.atomic_add(counts, low - 1, 1)


@case
def uneven_histogram(ex: hg.Executor) -> Pair:
    x, places = RNG.random(300, np.float32), np.array([0.1, 0.15, 0.4, 0.41, 0.9], np.float32)
    counts = ex.zeros(4, hg.i32)
    counted[300](ex.tensor(x), ex.tensor(places), counts)
    return counts.to_numpy(), np.histogram(x, places)[0]


@hg.kernel
def nearest(
    points: hg.Array[hg.f32, 2], centres: hg.Array[hg.f32, 2], owner: hg.Array[hg.i32],
    sums: hg.Array[hg.f32, 2],
):  # fmt: skip
    i = hg.index()
    best, least = 0, 1e30
    for k in range(centres.shape[0]):
        apart = (points[i, 0] - centres[k, 0]) ** 2 + (points[i, 1] - centres[k, 1]) ** 2
        if apart < least:
            best, least = k, apart
    owner[i] = best
    hg.atomic_add(sums, (best, 0), points[i, 0])
    hg.atomic_add(sums, (best, 1), points[i, 1])
    hg.atomic_add(sums, (best, 2), 1.0)


@case
def k_means(ex: hg.Executor) -> Pair:
    points, centres = RNG.normal(size=(80, 2)).astype(np.float32), RNG.normal(size=(4, 2)).astype(np.float32)
    owner, sums = ex.empty(80, hg.i32), ex.zeros((4, 3))
    nearest[80](ex.tensor(points), ex.tensor(centres), owner, sums)
    whose = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    want = [[*points[whose == k].sum(0), (whose == k).sum()] for k in range(4)]
    return np.append(owner.to_numpy(), sums.to_numpy()), np.append(whose, np.ravel(want))


@hg.kernel
def edited(words: hg.Array[hg.u8, 2], other: hg.Array[hg.u8], out: hg.Array[hg.i32]):
    i = hg.index()
    row = hg.local(13, hg.i32)
    for k in range(13):
        row[k] = k
    for a in range(words.shape[1]):
        corner, row[0] = row[0], a + 1
        for b in range(other.size):
            changed = corner + (0 if words[i, a] == other[b] else 1)
            corner = row[b + 1]
            row[b + 1] = min(changed, row[b] + 1, corner + 1)
    out[i] = row[other.size]


@case
def edit_distance(ex: hg.Executor) -> Pair:
    words, other = RNG.integers(3, size=(6, 10), dtype=np.uint8), RNG.integers(3, size=12, dtype=np.uint8)
    out, want = ex.empty(6, hg.i32), []
    edited[6](ex.tensor(words), ex.tensor(other), out)
    for word in words:
        table = np.add.outer(np.arange(11), np.arange(13))
        for a, b in np.ndindex(10, 12):
            changed = table[a, b] + (word[a] != other[b])
            table[a + 1, b + 1] = min(changed, table[a, b + 1] + 1, table[a + 1, b] + 1)
        want.append(table[10, 12])
    return out.to_numpy(), want


@hg.kernel
def sessions(user: hg.Array[hg.i32], time: hg.Array[hg.i32], gap: hg.i32, out: hg.Array[hg.i32]):
    """Which session each event is in: how many have begun up to it. Events are in order."""
    i = hg.index()
    number = 0
    for k in range(1, i + 1):
        if user[k] != user[k - 1] or time[k] - time[k - 1] > gap:
            number += 1
    out[i] = number


@case
def sessionize(ex: hg.Executor) -> Pair:
    user = np.sort(RNG.integers(4, size=50)).astype(np.int32)
    time = RNG.integers(20, size=50).cumsum().astype(np.int32)
    out = ex.empty(50, hg.i32)
    sessions[50](ex.tensor(user), ex.tensor(time), 12, out)
    begun = (np.diff(user) != 0) | (np.diff(time) > 12)
    return out.to_numpy(), np.append(0, begun.cumsum())
