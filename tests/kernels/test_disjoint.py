"""A gradient needs to know that no two points store into one element: what is seen, what is told, what is refused."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.atlas.text import parse_program

N = 12


@hg.kernel
def shifted(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    i = hg.index()
    out[i + by] = 2.0 * x[i]


@hg.kernel
def pairs(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    i = hg.index()
    if i < x.shape[0] // 2:
        out[2 * i] = x[i]
        out[2 * i + 1] = x[i] * x[i]


@hg.kernel
def rows(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    i = hg.index()
    if i < 3:
        for k in range(4):
            out[4 * i + 3 - k] = x[i] * hg.f32(k)


@hg.kernel
def turned(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    i = hg.index()
    out[i % 3 * 4 + i // 3] = x[i]


@hg.kernel
def borders(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    i = hg.index()
    if i == 0:
        out[0] = 3.0 * x[i]
    else:
        out[i] = x[i] - x[i - 1]


@hg.kernel(workgroup=4)
def by_workgroups(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    out[hg.workgroup_index() + 3 * hg.thread_index()] = x[hg.index()]


@hg.kernel(disjoint=True)
def scattered(x: hg.Array[hg.f32], out: hg.Array[hg.f32], by: hg.i32):
    i = hg.index()
    out[(i * 5 + by) % x.shape[0]] = x[i] * x[i]


SEEN = [shifted, pairs, rows, turned, borders, by_workgroups, scattered]


@pytest.mark.parametrize("kernel", SEEN, ids=lambda k: k.name)
def test_seen(executor: hg.Executor, kernel: Any) -> None:
    x = np.random.default_rng(0).normal(size=N).astype(np.float32)
    weights = np.arange(1.0, N + 3, dtype=np.float32)

    def loss(x: hg.Tensor) -> hg.Tensor:
        out = hg.zeros_like(executor.tensor(weights))
        kernel[N](x, out, 1)
        return hg.sum(out * executor.tensor(weights))

    def by_python(x: np.ndarray) -> float:
        out = np.zeros_like(weights)
        kernel.python[N](x, out, 1)
        return float((out.astype(np.float64) * weights).sum())

    steps = np.eye(N, dtype=np.float32) / 8
    differences = [4 * (by_python(x + s) - by_python(x - s)) for s in steps]
    found = hg.grad(loss)(executor.tensor(x)).to_numpy()
    assert np.allclose(found, differences, rtol=1e-3, atol=1e-2)
    assert np.allclose(hg.grad(hg.jit(loss))(executor.tensor(x)).to_numpy(), found, rtol=1e-5, atol=1e-5)


@hg.kernel(workgroup=(2, 4))
def blocks(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    out[i, j] = x[i, j] * x[i, j]


def test_blocks_of_a_grid(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)

    def loss(x: hg.Tensor) -> hg.Tensor:
        out = hg.zeros_like(x)
        blocks[x.shape](x, out)
        return hg.sum(out)

    assert np.allclose(hg.grad(loss)(executor.tensor(x)).to_numpy(), 2 * x, atol=1e-5)


@hg.kernel
def halves(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i // 2] = x[i]


@hg.kernel
def sums(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = x[i]
    out[i + 1] = 2.0 * x[i]


@hg.kernel
def some(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    if x[i] > 0.0:
        out[0] = x[i]


@hg.kernel
def clamped(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[min(i, 3)] = x[i]


@hg.kernel
def mirrored(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    if x[i] > 0.0:
        out[i] = x[i]
    else:
        out[x.shape[0] - 1 - i] = x[i]


@hg.kernel
def by_own_memory(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    kept = hg.local(1, hg.i32)
    kept[0] = N - i
    out[i + kept[0]] = x[i]


@hg.kernel
def overlapping(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    for k in range(3):
        out[2 * i + k] = x[i]


@pytest.mark.parametrize("kernel", [halves, sums, some, clamped, mirrored, overlapping], ids=lambda k: k.name)
def test_refused(executor: hg.Executor, kernel: Any) -> None:
    def loss(x: hg.Tensor) -> hg.Tensor:
        out = hg.zeros(2 * N, dtype=hg.f32, device=x.device)
        kernel[N](x, out)
        return hg.sum(out)

    x = executor.tensor(np.ones(N, np.float32))
    lines, first = kernel.function.__code__.co_firstlineno, 12
    with pytest.raises(hg.GradientError, match=r"two points may store into one element of out") as error:
        hg.grad(loss)(x)
    line = int(str(error.value).split(":")[1])
    assert lines < line < lines + first
    assert "disjoint=True" in str(error.value)


def test_a_program_of_ones_own(executor: hg.Executor) -> None:
    def program(disjoint: bool) -> Program:
        b = Builder("strided", disjoint=disjoint)
        x, out = b.buffer("x", hg.f32, Access.READ), b.buffer("out", hg.f32, Access.WRITE)
        i = b.coordinate(0)
        b.store(out, i * 3 % 4, b.load(x, i))
        return b.build()

    def loss(x: hg.Tensor, disjoint: bool) -> hg.Tensor:
        out = hg.zeros_like(x)
        executor.run(program(disjoint), {"x": x, "out": out}, lanes=4)
        return hg.sum(out * out)

    x = executor.tensor(np.arange(4, dtype=np.float32))
    with pytest.raises(hg.GradientError, match="strided: two points may store into one element of out"):
        hg.grad(lambda x: loss(x, False))(x)
    assert hg.grad(lambda x: loss(x, True))(x).to_numpy().tolist() == [0, 2, 4, 6]
    told = program(True)
    assert "disjoint" in str(told).splitlines()[0]
    assert parse_program(str(told)) == told


def test_memory_of_a_lane_is_not_alike_for_all(executor: hg.Executor) -> None:
    def run(x: hg.Tensor) -> hg.Tensor:
        out = hg.concat([x, x])
        by_own_memory[N](x, out)
        return out

    x = executor.tensor(np.ones(N, np.float32))
    with pytest.raises(hg.GradientError, match="two points may store into one element of out"):
        hg.jvp(run, (x,), (x,))
