"""Kernels and programs inside of functions that are traced: nodes of the graph, whose arrays have new values."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

X = np.arange(5, dtype=np.float32)
MATRIX = np.arange(20, dtype=np.float32).reshape(4, 5)


@hg.kernel
def doubled(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = 2.0 * x[i]


@hg.kernel
def added(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] += x[i]


@hg.kernel
def both_ways(x: hg.Array[hg.f32, 2], sums: hg.Array[hg.f32], most: hg.Array[hg.f32], scale: hg.f32):
    i = hg.index()
    total, largest = 0.0, x[i, 0]
    for k in range(x.shape[1]):
        total += x[i, k]
        largest = max(largest, x[i, k])
    sums[i], most[i] = scale * total, largest


@hg.kernel(workgroup=4)
def counted(x: hg.Array[hg.i32], counts: hg.Array[hg.i32]):
    own = hg.shared(3, hg.i32)
    hg.atomic_add(own, x[hg.index()] % 3, 1)
    hg.barrier()
    if hg.thread_index() < 3:
        hg.atomic_add(counts, hg.thread_index(), own[hg.thread_index()])


def of_zeros(x: Any) -> Any:
    out = hg.zeros_like(x)
    doubled[3](x, out)
    return out + 1, hg.sum(out)


def of_empty(x: Any) -> Any:
    out = hg.empty_like(x)
    doubled[x.shape](x + 1, out)
    return out * x


def in_turn(x: Any) -> Any:
    out = x + 1
    before = out * 1
    added[5](x, out)
    added[5](out, out)
    return out, before


def of_parts(m: Any) -> Any:
    out = hg.ones_like(m)
    doubled[4](m[:, 1], out[:, 2])
    added[5](m[0], out[1])
    doubled[4](m.T[3], out[2, 1:])
    return out


def of_several(m: Any) -> Any:
    sums, most = hg.empty_like(m[:, 0]), hg.empty_like(m[:, 0])
    both_ways[4](m[:, 1:], sums, most, 0.5)
    return sums - 1


def repeated(x: Any) -> Any:
    def turn(carry: Any, row: Any) -> Any:
        out = hg.zeros_like(carry)
        doubled[5](carry, out)
        return out + row, hg.sum(out)

    return hg.scan(turn, x, hg.stack([x, x * 3]))


@pytest.mark.parametrize(
    ("function", "given"),
    [(of_zeros, X), (of_empty, X), (in_turn, X), (of_parts, MATRIX), (of_several, MATRIX), (repeated, X)],
)
def test_results_are_those_of_calls_one_by_one(
    function: Callable[..., Any], given: np.ndarray, executor: hg.Executor
) -> None:
    """A kernel that runs at once is tested elsewhere; traced, the same lines give the same."""
    x = executor.tensor(given)
    plain = function(x)
    jitted = hg.jit(function)
    for _ in range(2):
        found = jitted(x)
        for one, want in zip(_leaves(found), _leaves(plain), strict=True):
            np.testing.assert_array_equal(one.to_numpy(), want.to_numpy())
    assert np.array_equal(x.to_numpy(), given)


def _leaves(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple) else [tree]


def test_workgroups_and_atomics(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(0, 100, 20).astype(np.int32)

    @hg.jit
    def histogram(x: Any) -> Any:
        counts = hg.zeros((3,), dtype="i32", device=x.executor)
        counted[20](x * 2, counts)
        return counts

    for numbers in (x, x + 1):
        want = np.bincount(numbers * 2 % 3, minlength=3)
        assert histogram(executor.tensor(numbers)).to_numpy().tolist() == want.tolist()


def test_what_nobody_has_seen_is_not_copied(executor: hg.Executor) -> None:
    x = executor.tensor(X)

    def made_by(make: Any, points: int) -> Any:
        def function(x: Any) -> Any:
            out = make(x)
            doubled[points](x, out)
            return out

        return hg.jit(function).dispatches(x)

    assert made_by(hg.empty_like, 4) == 1
    assert made_by(hg.zeros_like, 4) == 2  # filled where it lies, for one element is left
    assert made_by(hg.zeros_like, 5) == 1


def test_programs_are_nodes_too(executor: hg.Executor) -> None:
    program = doubled.program()

    @hg.jit
    def function(x: Any) -> Any:
        out = hg.empty_like(x)
        executor.run(program, {"x": x + 1, "out": out}, lanes=5)
        return out - 1

    assert function(executor.tensor(X)).to_numpy().tolist() == [1, 3, 5, 7, 9]


def test_numbers_of_a_call_and_recognised_products(executor: hg.Executor) -> None:
    @hg.kernel
    def product(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32, 2], c: hg.Array[hg.f32, 2], scale: hg.f32):
        i, j = hg.index()
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total

    @hg.jit
    def function(a: Any, scale: float) -> Any:
        c = hg.empty((4, 4), device=a.executor)
        product[4, 4](a, a.T, c, 1.0)
        out = hg.zeros_like(c[0])
        sums = hg.zeros_like(c[0])
        both_ways[4](c, sums, out, scale)
        return c, sums

    a = executor.tensor(MATRIX)
    for scale in (2.0, 3.0):
        c, sums = function(a, scale)
        np.testing.assert_allclose(c.to_numpy(), MATRIX @ MATRIX.T, rtol=1e-6)
        np.testing.assert_allclose(sums.to_numpy(), scale * (MATRIX @ MATRIX.T).sum(1), rtol=1e-6)


def test_numbers_of_a_call_are_data(executor: hg.Executor) -> None:
    traced = []

    @hg.kernel
    def blended(x: hg.Array[hg.f32], out: hg.Array[hg.f32], scale: hg.f32, first: hg.i32, power: hg.f32):
        i = hg.index()
        for k in range(first):
            out[i] += x[i] * scale + k
        if i >= first:
            out[i] = power

    @hg.jit
    def function(x: Any, scale: float, first: int) -> Any:
        traced.append(scale)
        out = hg.ones_like(x)
        blended[5](x, out, scale * 2, first, scale)
        return out

    x = executor.tensor(X)
    for scale, first in ((2.0, 2), (3.0, 0), (0.5, 4)):
        want = X * 0 + 1
        for k in range(first):
            want += X * scale * 2 + k
        want[first:] = scale
        np.testing.assert_allclose(function(x, scale, first).to_numpy(), want)
    assert len(traced) == 1
    with pytest.raises(hg.UnsupportedDType, match="i32 cannot hold"):
        function(x, 1.0, 1 << 40)


def test_derivatives_of_what_a_kernel_made_of_constants(executor: hg.Executor) -> None:
    x, weight = executor.tensor(X), executor.tensor(X + 1)

    def function(x: Any) -> Any:
        out = hg.zeros_like(weight)
        doubled[5](weight, out)
        return hg.sum(out * x)

    for gradient in (hg.grad(function), hg.jit(hg.grad(function))):
        assert gradient(x).to_numpy().tolist() == [2, 4, 6, 8, 10]


def test_what_is_refused(executor: hg.Executor) -> None:
    x = executor.tensor(X)

    def overlapping(x: Any) -> None:
        out = x + 1
        doubled[4](out[:4], out[1:])

    with pytest.raises(hg.TraceError, match="an argument is written to; return the new value"):
        hg.jit(lambda y: doubled[5](y, y))(x)
    with pytest.raises(hg.TraceError, match="that it closes over is written to"):
        hg.jit(lambda y: doubled[5](y, x))(x)
    with pytest.raises(hg.TraceError, match="the Python form of a kernel reads elements"):
        hg.jit(lambda y: doubled.python[5](y, y + 1))(x)
    with pytest.raises(hg.ShapeError, match="may share memory only with the same elements"):
        hg.jit(overlapping)(x)
    with pytest.raises(TypeError, match=r"takes 2 arguments \(x, out\), got 1"):
        hg.jit(lambda y: doubled[5](y))(x)
    with pytest.raises(hg.UnsupportedDType, match="doubled, out: the dtype must be f32, got i32"):
        hg.jit(lambda y: doubled[5](y, (y + 1).astype("i32")))(x)


@hg.kernel
def blended(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], by: hg.f32):
    i, j = hg.index()
    x = hg.vec2(a[i, j], b[i, j])
    if x.x > 0.0:
        x = x * by
    out[i, j] = x.length() if b[i, j] > -1.0 else -x.y


@hg.kernel
def below(a: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    out[i, j] = a[(i + 1) % a.shape[0], j]


@hg.kernel
def counted_on(a: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    out[i, j] = a[i, j] + hg.f32(j)


@hg.kernel
def added_to(a: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    out[i, j] += a[i, j]


def test_a_map_is_fused_with_its_neighbours(executor: hg.Executor) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)

    def chain(a: hg.Tensor, b: hg.Tensor, by: float) -> tuple[hg.Tensor, hg.Tensor]:
        out, again = executor.empty(a.shape), executor.empty(a.shape)
        blended[a.shape](a * 2.0, b.T, out, by)
        blended[a.shape](out, out, again, 0.5)
        return hg.sum(out + again, axis=1), again - 1.0

    given = (executor.tensor(a), executor.tensor(np.ascontiguousarray(b.T)))
    jitted = hg.jit(chain)
    for by in (0.25, 3.0):
        for found, wanted in zip(jitted(*given, by), chain(*given, by), strict=True):
            np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-5, atol=1e-6)
    fused = hg.jit(lambda a: _through(executor, blended, a + 1.0, hg.exp(a), 0.5))
    assert "1 launch" in str(fused.explain(given[0])).splitlines()[0]
    for kernel, more in ((below, ()), (counted_on, ()), (added_to, ())):
        apart = hg.jit(lambda a, kernel=kernel, more=more: _through(executor, kernel, a + 1.0, *more))
        assert "1 launch" not in str(apart.explain(given[0])).splitlines()[0]
        wanted = _through(executor, kernel, given[0] + 1.0, *more)
        np.testing.assert_allclose(apart(given[0]).to_numpy(), wanted.to_numpy(), rtol=1e-5)


def _through(executor: hg.Executor, kernel: Any, *given: Any) -> hg.Tensor:
    out = executor.zeros(given[0].shape)
    arrays = [x for x in given if not isinstance(x, float)]
    kernel[out.shape](*arrays, out, *(x for x in given if isinstance(x, float)))
    return hg.sqrt(hg.abs(out))
