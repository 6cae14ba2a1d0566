"""Subgroups: threads hand numbers to one another, by the device's own subgroups or by shared memory, in one way."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.evaluate import evaluate
from hologram.compiler.pipeline import canonical
from tests.kernels.test_ways_out import same


def kernel_of(width: int) -> Any:
    @hg.kernel(workgroup=32)
    def folded(
        x: hg.Array[hg.f32], n: hg.Array[hg.i32], out: hg.Array[hg.f32, 2], whole: hg.Array[hg.i32, 2]
    ):
        i = hg.index()
        out[0, i] = hg.subgroup_sum(x[i], width)
        out[1, i] = hg.subgroup_max(x[i], width=width)
        out[2, i] = hg.subgroup_shuffle(x[i], n[i], width)
        out[3, i] = hg.subgroup_broadcast(hg.vec2(x[i], -x[i]), 1, width).y
        whole[0, i] = hg.subgroup_min(n[i], width)
        whole[1, i] = hg.subgroup_any(n[i] > 40, width)
        whole[2, i] = hg.subgroup_all(n[i] > -40, width)
        whole[3, i] = hg.subgroup_index(width)

    return folded


WIDTHS = {width: kernel_of(width) for width in (4, 8, 32)}


@pytest.mark.parametrize("width", WIDTHS)
def test_subgroups(executor: hg.Executor, width: int) -> None:
    size = 75  # the last workgroup is not whole
    rng = np.random.default_rng(size)
    x, n = rng.normal(size=size).astype(np.float32), rng.integers(-50, 50, size).astype(np.int32)
    given = (x, n, np.zeros((4, size), np.float32), np.zeros((4, size), np.int32))
    _, _, out, whole = same(WIDTHS[width], executor, size, *given)
    for first in range(0, size, width):
        own = slice(first, first + width)
        y, m = x[own], n[own]
        assert np.allclose(out[0, own], y.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)
        assert (out[1, own] == y.max()).all()
        padded = np.pad(y, (0, width - y.size))
        assert np.array_equal(out[2, own], padded[m % width])
        assert (out[3, own] == -padded[1 % width]).all()
        assert (whole[0, own] == m.min()).all()
        assert (whole[1, own] == (m > 40).any()).all()
        assert (whole[2, own] == (m > -40).all()).all()
        assert np.array_equal(whole[3, own], np.arange(y.size))
    program = WIDTHS[width].program()
    for form in (program, canonical(program)):
        buffers = {
            "x": x,
            "n": n,
            "out": np.zeros(4 * size, np.float32),
            "whole": np.zeros(4 * size, np.int32),
        }
        sizes = {s.name: size for s in form.scalars}
        evaluate(form, buffers, sizes, (size,))
        assert np.array_equal(buffers["out"], out.ravel())
        assert np.array_equal(buffers["whole"], whole.ravel())


@hg.kernel(workgroup=(4, 6))
def blocks(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], turns: hg.i32):
    i, j = hg.index()
    total = 0.0
    for k in range(turns):
        if turns > 1:
            total += hg.subgroup_sum(x[i, j], 8)
        total = hg.subgroup_shuffle(total, hg.subgroup_index(8) + k, 8)
    out[i, j] = total + hg.f32(hg.subgroup_any(x[i, j] > 0.9, width=8))


def test_points_outside_of_the_grid_hand_on_nothing(executor: hg.Executor) -> None:
    x = np.random.default_rng(3).random((7, 11), np.float32)
    same(blocks, executor, (7, 11), x, np.zeros_like(x), 3, atol=1e-5)


def kinds_of(dtype: Any) -> Any:
    @hg.kernel(workgroup=8)
    def kinds(x: hg.Array[dtype], out: hg.Array[dtype, 2]):
        i = hg.index()
        out[0, i] = hg.subgroup_sum(x[i], 4)
        out[1, i] = hg.subgroup_min(x[i], 4)
        out[2, i] = hg.subgroup_shuffle(x[i], 3 - i, 4)

    return kinds


def test_every_dtype(executor: hg.Executor) -> None:
    for dtype in (hg.i8, hg.u16, hg.i64, hg.u64, hg.f16, hg.f64):
        if dtype in executor.limits.dtypes:
            x = np.array([3, 250, 7, 1, 0, 9, 100, 100], np.int64).astype(dtype.numpy)
            x = x * 2**33 if dtype in (hg.i64, hg.u64) else x
            _, out = same(kinds_of(dtype), executor, 8, x, np.zeros((3, 8), dtype.numpy))
            assert np.array_equal(out[1], np.repeat(x.reshape(2, 4).min(axis=1), 4)), dtype


@hg.kernel
def alone(x: hg.Array[hg.f32]):
    x[0] = hg.subgroup_sum(x[0])


@hg.kernel(workgroup=24)
def unfit(x: hg.Array[hg.f32]):
    x[0] = hg.subgroup_sum(x[0], 16)


@hg.kernel(workgroup=32)
def parted(x: hg.Array[hg.f32]):
    if hg.index() < 3:
        x[0] = hg.subgroup_max(x[0])


@hg.kernel(workgroup=32)
def by_a_float(x: hg.Array[hg.f32]):
    x[0] = hg.subgroup_shuffle(x[0], 1.0)


@hg.kernel(workgroup=32)
def unknown(x: hg.Array[hg.f32], n: hg.i32):
    x[0] = hg.subgroup_sum(x[0], n)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (alone, "subgroups need a kernel with workgroups"),
        (unfit, "power of two that divides the workgroup of 24 threads, got 16"),
        (parted, "a shuffle must not stand where lanes of a workgroup part"),
        (by_a_float, "a thread is told by an integer, got 1.0"),
        (unknown, "the width must be a power of two .* got i32"),
    ],
)
def test_refused(kernel: Any, words: str) -> None:
    with pytest.raises(hg.KernelError, match=words):
        kernel.program()
