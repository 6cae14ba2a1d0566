"""What small graphs are made of shares kernels: coordinates, joined pieces, products of one row, updates in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg


def given(executor: hg.Executor, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [executor.tensor(rng.normal(size=s).astype(np.float32)) for s in shapes]


def check(executor: hg.Executor, function: Callable[..., Any], tensors: list[Any], kernels: int) -> None:
    """A function gives what it gives eagerly, in so many launches."""
    jitted = hg.jit(function)
    found = jitted.compiled(*tensors)
    assert found.dispatches == kernels, [group.reasons for group in found.assembly.groups]
    ours, eager = jitted(*tensors), function(*tensors)
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours, eager)), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-5, atol=1e-5)


def halves_turned(x):
    """Rotary embedding's turn: the second half, negated, before the first."""
    n = x.shape[-1] // 2
    return hg.concat([-x[..., n:], x[..., :n]], axis=-1)


@pytest.mark.parametrize("shape", [(16,), (1, 16), (7, 1, 16), (2, 3, 5, 6), (1, 1, 1, 2)])
def test_pieces_of_one_size_join_where_they_are_needed(executor: hg.Executor, shape: tuple[int, ...]) -> None:
    check(executor, lambda x, y: x * y + halves_turned(x) * (y + 1), given(executor, shape, shape[-1:]), 1)
    check(
        executor,
        lambda x: halves_turned(x.permute(*reversed(range(x.ndim)))),
        given(executor, (4, *shape)),
        1,
    )


def test_pieces_keep_special_values_and_dtypes(executor: hg.Executor) -> None:
    """What another piece holds at the same place shows nowhere."""
    x = executor.tensor(np.array([np.nan, -np.inf, -0.0], np.float32))
    y = executor.tensor(np.array([1.0, np.inf, 0.0], np.float32))
    found = hg.jit(lambda x, y: hg.concat([x, y, x]))(x, y).to_numpy()
    wanted = np.concatenate([x.to_numpy(), y.to_numpy(), x.to_numpy()])
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    for dtype in (np.bool_, np.int8, np.uint16, np.int64):
        a, b = (executor.tensor(np.array(v).astype(dtype)) for v in ([1, 0, 1], [0, 1, 1]))
        found = hg.jit(lambda x, y: hg.concat([x, y]))(a, b)
        np.testing.assert_array_equal(found.to_numpy(), np.concatenate([a.to_numpy(), b.to_numpy()]))


def test_pieces_of_several_sizes_and_empty_ones_are_copied(executor: hg.Executor) -> None:
    for shapes in (((3, 2), (3, 5)), ((3, 0), (3, 0)), ((2, 1), (2, 3), (2, 1))):
        tensors = given(executor, *shapes)
        found = hg.jit(lambda *t: hg.concat(list(t), axis=1))(*tensors)
        np.testing.assert_array_equal(
            found.to_numpy(), np.concatenate([t.to_numpy() for t in tensors], axis=1)
        )


def test_ranges_and_tables_move_into_the_kernel_that_needs_them(executor: hg.Executor) -> None:
    (table,) = given(executor, (11, 6))
    index = executor.tensor(
        np.array([[3, 10, 0], [3, -1, 99]], np.int32)
    )  # from the end; out of range: zeros

    def looked_up(index, table):
        return hg.embedding(index, table * 2) * hg.arange(6, dtype="f32", device=executor) + 1

    def plain(index, table):
        return hg.embedding(index, table) * hg.arange(6, dtype="f32", device=executor) + 1

    check(executor, plain, [index, table], 1)
    check(executor, looked_up, [index, table], 2)  # what is computed has to lie in memory to be looked up
    check(executor, lambda i, t: hg.sum(hg.embedding(i, t), axis=-1), [index, table], 1)


@pytest.mark.parametrize("batch", [(), (6,), (16,), (2, 3)])
@pytest.mark.parametrize("k", [2, 16, 33])
def test_products_of_one_row_are_reductions_that_fuse(
    executor: hg.Executor, batch: tuple[int, ...], k: int
) -> None:
    """Also where batch, rows, columns and k are the same number."""
    for n in (1, 16):
        tensors = given(executor, (*batch, 1, k), (*batch, n, k), (n,))
        check(executor, lambda a, b, c: hg.tanh(a @ b.mT / 5) * c, tensors, 1)
        tensors = given(executor, (*batch, n, k), (*batch, 1, k))
        check(executor, lambda a, b: hg.relu(a @ b.mT), tensors, 1)


def test_products_of_one_row_round_once(executor: hg.Executor) -> None:
    """16-bit operands are multiplied and summed in f32."""
    a, b = (x.astype(hg.f16) for x in given(executor, (1, 300), (7, 300)))
    wanted = a.to_numpy().astype(np.float64) @ b.to_numpy().astype(np.float64).T
    np.testing.assert_allclose(hg.jit(lambda a, b: a @ b.mT)(a, b).to_numpy(), wanted, rtol=2e-3, atol=1e-3)


def norm(x, w):
    return x / hg.sqrt(hg.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


def test_a_norm_and_the_products_after_it_are_one_kernel(executor: hg.Executor) -> None:
    """Matrices of several sizes are read as one; of gate and up, which are alike, one kernel has two sums a row."""
    x, w, *three = given(executor, (1, 24), (24,), (24, 24), (8, 24), (8, 24))
    check(executor, lambda x, w, *m: tuple((norm(x, w) @ a.mT).reshape(-1) * 2 for a in m), [x, w, *three], 2)
    x, w, gate, up = given(executor, (1, 24), (24,), (40, 24), (40, 24))
    check(executor, lambda x, w, g, u: hg.silu(norm(x, w) @ g.mT) * (norm(x, w) @ u.mT), [x, w, gate, up], 1)


def test_equal_numbers_of_two_kinds_are_two_constants(executor: hg.Executor) -> None:
    """What is computed twice is computed once, but 0.0 and -0.0 are two."""
    (x,) = given(executor, (5,))

    def both(x):
        whole = hg.where(x == x, 0.0, x), hg.where(x == x, -0.0, x)
        return *(1 / w for w in whole), hg.exp(x) * 2, hg.exp(x) * 3

    first, second, third, fourth = (t.to_numpy() for t in hg.jit(both)(x))
    np.testing.assert_array_equal(first, np.full(5, np.inf))
    np.testing.assert_array_equal(second, np.full(5, -np.inf))
    np.testing.assert_allclose(third * 1.5, fourth, rtol=1e-6)


def test_a_donated_table_is_written_to_where_it_lies(executor: hg.Executor) -> None:
    """By the kernel that computes what is written, and without a copy of the rest; out of range nothing is."""
    x, y = given(executor, (9, 4), (3, 4))
    index = executor.tensor(np.array([[7], [0], [40]], np.int64))

    def update(x, index, y):
        return hg.scatter(x, index.expand(3, 4), hg.exp(y) * 2, dim=0)

    wanted = update(x, index, y).to_numpy()
    jitted = hg.jit(update, donate=0)
    found = jitted.compiled(x, index, y)
    assert found.dispatches == 1, [group.reasons for group in found.assembly.groups]
    np.testing.assert_allclose(jitted(x, index, y).to_numpy(), wanted, rtol=1e-6)
    (x,) = given(executor, (9, 4))
    kept = hg.jit(lambda x, index, y: (update(x, index, y), x * 2), donate=0)  # x is needed as it was, too
    new, old = kept(x, index, y)
    np.testing.assert_allclose(new.to_numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(old.to_numpy(), given(executor, (9, 4))[0].to_numpy() * 2)
