"""hg.linalg's factors and solutions on every backend, against NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.linear_algebra.cases import (
    DTYPES,
    EMPTY,
    SQUARE,
    TALL,
    definite,
    eps,
    general,
    near,
    regular,
    strided,
)
from tests.needs import needs

pytestmark = pytest.mark.sampled(5)

linalg = hg.linalg
MAKES = pytest.mark.parametrize("make", [hg.Executor.tensor, strided], ids=["contiguous", "strided"])
KINDS = pytest.mark.parametrize("dtype", DTYPES)


def given(
    executor: hg.Executor, make: Any, x: np.ndarray, dtype: str, whole: bool = True
) -> tuple[hg.Tensor, np.ndarray]:
    """A tensor, and what it holds in double precision."""
    needs(executor, dtype)
    kept = x.astype(hg.dtypes.dtype(dtype).numpy)
    return make(executor, kept), kept.astype(np.float64)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*SQUARE, *EMPTY], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, upper: bool) -> None:
    x, held = given(executor, make, definite(shape), dtype)
    near(linalg.cholesky(x, upper=upper), np.linalg.cholesky(held, upper=upper), dtype)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*SQUARE, *EMPTY], ids=str)
def test_solve_and_inverse(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str) -> None:
    x, held = given(executor, make, regular(shape), dtype)
    near(linalg.inv(x), np.linalg.inv(held), dtype, condition=8)
    for columns in (1, 3, 40):
        b, right = given(executor, make, general((*shape[:-1], columns), 1), dtype)
        near(linalg.solve(x, b), np.linalg.solve(held, right), dtype, condition=8)
    one, vector = given(executor, hg.Executor.tensor, general(shape[-1:], 2), dtype)
    near(linalg.solve(x, one)[..., None], np.linalg.solve(held, vector)[..., None], dtype, condition=8)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*SQUARE, *EMPTY], ids=str)
def test_determinants(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str) -> None:
    x, held = given(executor, make, regular(shape), dtype)
    sign, logarithm = linalg.slogdet(x)
    wanted = np.linalg.slogdet(held)
    np.testing.assert_array_equal(sign.to_numpy(), wanted.sign)
    np.testing.assert_allclose(
        logarithm.to_numpy(), wanted.logabsdet, rtol=0, atol=64 * eps(dtype) * max(shape[-1], 1)
    )
    wide = np.abs(wanted.logabsdet) < 80
    got, want = linalg.det(x).to_numpy(), np.linalg.det(held)
    np.testing.assert_allclose(got[wide], want[wide], rtol=64 * eps(dtype) * max(shape[-1], 1))


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*SQUARE, *EMPTY], ids=str)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular(
    executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, upper: bool, unit: bool
) -> None:
    n = shape[-1]
    full = general(shape) / max(n, 1) + 2 * np.eye(n)
    x, held = given(executor, make, full, dtype)
    triangle = np.triu(held) if upper else np.tril(held)
    if unit:
        triangle = triangle - triangle * np.eye(n) + np.eye(n)
    for columns in (1, 5, 33):
        b, right = given(executor, make, general((*shape[:-1], columns), 1), dtype)
        got = linalg.solve_triangular(x, b, upper=upper, unitriangular=unit)
        near(got, np.linalg.solve(triangle, right), dtype, condition=4)
        c, left = given(executor, make, general((*shape[:-2], columns, n), 1), dtype)
        got = linalg.solve_triangular(x, c, upper=upper, unitriangular=unit, left=False)
        wanted = np.linalg.solve(triangle.swapaxes(-1, -2), left.swapaxes(-1, -2)).swapaxes(-1, -2)
        near(got, wanted, dtype, condition=4)


@KINDS
def test_triangular_reads_one_triangle(executor: hg.Executor, dtype: str) -> None:
    full = general((6, 6)) + 3 * np.eye(6)
    spoilt = np.where(np.tri(6, k=0) > 0, full, np.nan)
    x, _ = given(executor, hg.Executor.tensor, spoilt, dtype)
    near(
        linalg.solve_triangular(x, x.executor.tensor(np.eye(6), x.dtype)), np.linalg.inv(np.tril(full)), dtype
    )
    definite_one = definite((6, 6))
    spoilt = np.where(np.tri(6, k=0) > 0, definite_one, np.nan)
    x, _ = given(executor, hg.Executor.tensor, spoilt, dtype)
    near(linalg.cholesky(x), np.linalg.cholesky(definite_one), dtype)
    vector = x.executor.tensor(np.ones(6), x.dtype)
    near(linalg.cholesky_solve(linalg.cholesky(x), vector[:, None]), np.linalg.solve(definite_one, np.ones((6, 1))),
         dtype)  # fmt: skip


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*TALL, *SQUARE, *EMPTY], ids=str)
def test_lu(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str) -> None:
    x, held = given(executor, make, general(shape, 3), dtype)
    factors, pivots = linalg.lu_factor(x)
    m, n = shape[-2:]
    width = min(m, n)
    assert pivots.shape == (*shape[:-2], width)
    assert pivots.dtype == hg.i32
    packed, exchanged = factors.to_numpy().astype(np.float64), pivots.to_numpy()
    for place in np.ndindex(*shape[:-2]):
        rows = held[place].copy()
        for k, p in enumerate(exchanged[place]):
            rows[[k, p]] = rows[[p, k]]
        lower = np.tril(packed[place][:, :width], -1) + np.eye(m, width)
        assert np.all(np.abs(lower) <= 1 + eps(dtype))
        product = lower @ np.triu(packed[place][:width])
        np.testing.assert_allclose(
            product, rows, atol=16 * eps(dtype) * max(m, n) * np.max(np.abs(held), initial=1)
        )


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*TALL, *SQUARE, *EMPTY, (0, 3), (3, 0), (2, 3, 0)], ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, mode: Any) -> None:
    x, held = given(executor, make, general(shape), dtype)
    q, r = linalg.qr(x, mode=mode)
    want = np.linalg.qr(held, mode=mode)
    assert (q.shape, r.shape) == (want.Q.shape, want.R.shape)
    near(hg.matmul(q, r), held, dtype)
    near(hg.matmul(q.mT, q), np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)), dtype)
    np.testing.assert_array_equal(np.tril(r.to_numpy(), -1), 0)
    if mode == "reduced":  # which is unique but for signs
        near(hg.abs(r), np.abs(want.R), dtype, condition=64)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*SQUARE, *EMPTY], ids=str)
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigh(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, triangle: Any) -> None:
    symmetric = general(shape)
    symmetric = symmetric + symmetric.swapaxes(-1, -2)
    x, held = given(executor, make, symmetric, dtype)
    values, vectors = linalg.eigh(x, UPLO=triangle)
    near(values[..., None], np.linalg.eigvalsh(held)[..., None], dtype)
    near(linalg.eigvalsh(x, UPLO=triangle)[..., None], np.linalg.eigvalsh(held)[..., None], dtype)
    near(hg.matmul(vectors * values[..., None, :], vectors.mT), held, dtype)
    near(hg.matmul(vectors.mT, vectors), np.broadcast_to(np.eye(shape[-1]), shape), dtype)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", [*TALL, *SQUARE, *EMPTY, (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_svd(executor: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, full: bool) -> None:
    x, held = given(executor, make, general(shape), dtype)
    u, s, vh = linalg.svd(x, full_matrices=full)
    want = np.linalg.svd(held, full_matrices=full)
    assert (u.shape, s.shape, vh.shape) == tuple(w.shape for w in want)
    near(s[..., None], want.S[..., None], dtype)
    near(linalg.svdvals(x)[..., None], want.S[..., None], dtype)
    width = s.shape[-1]
    near(hg.matmul(u[..., :width] * s[..., None, :], vh[..., :width, :]), held, dtype)
    for square in (hg.matmul(u.mT, u), hg.matmul(vh, vh.mT)):
        near(square, np.broadcast_to(np.eye(square.shape[-1]), square.shape), dtype)


@KINDS
@pytest.mark.parametrize("shape", [*TALL, (3, 4, 4), (0, 3), (2, 3, 0)], ids=str)
def test_pinv_rank_and_least_squares(executor: hg.Executor, shape: tuple[int, ...], dtype: str) -> None:
    x, held = given(executor, hg.Executor.tensor, general(shape, 5), dtype)
    rtol = max(shape[-2:]) * eps(dtype)
    near(linalg.pinv(x), np.linalg.pinv(held, rcond=rtol), dtype, condition=64)
    if min(shape):
        assert np.all(linalg.matrix_rank(x).to_numpy() == np.linalg.matrix_rank(held))
    b, right = given(executor, hg.Executor.tensor, general((*shape[:-1], 2), 6), dtype)
    found = linalg.lstsq(x, b)
    near(found.x, np.linalg.pinv(held) @ right, dtype, condition=256)
    if len(shape) == 2:
        _, residuals, rank, s = np.linalg.lstsq(held, right)
        near(found.residuals[..., None], residuals[..., None], dtype, condition=64)
        assert int(found.rank) == rank
        near(found.s[..., None], s[..., None], dtype)


@KINDS
def test_rank_deficient(executor: hg.Executor, dtype: str) -> None:
    low = general((6, 2)) @ general((2, 5), 1)
    x, held = given(executor, hg.Executor.tensor, low, dtype)
    assert int(linalg.matrix_rank(x)) == 2
    assert int(linalg.matrix_rank(x, rtol=0.99)) == 1
    near(linalg.pinv(x), np.linalg.pinv(held, rcond=6 * eps(dtype)), dtype, condition=64)
    near(
        linalg.pinv(x, rtol=x.executor.tensor(np.float32(1e-3))),
        np.linalg.pinv(held, rcond=1e-3),
        dtype,
        condition=64,
    )
    found = linalg.lstsq(x, x.executor.tensor(np.ones(6), x.dtype))
    assert int(found.rank) == 2
    assert found.residuals.shape == (0,)
    near(found.x, np.linalg.lstsq(held, np.ones(6), rcond=6 * eps(dtype))[0], dtype, condition=64)


@KINDS
@pytest.mark.parametrize("scale", [1e-3, 0.5, 4.0, 30.0])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5, 5), (0, 2, 2)], ids=str)
def test_expm(executor: hg.Executor, shape: tuple[int, ...], dtype: str, scale: float) -> None:
    symmetric = general(shape)
    symmetric = (symmetric + symmetric.swapaxes(-1, -2)) * scale / shape[-1]
    x, held = given(executor, hg.Executor.tensor, symmetric, dtype)
    values, vectors = np.linalg.eigh(held)
    want = (vectors * np.exp(values)[..., None, :]) @ vectors.swapaxes(-1, -2)
    largest = np.max(np.abs(want), initial=1.0)
    np.testing.assert_allclose(
        linalg.expm(x).to_numpy() / largest, want / largest, atol=64 * eps(dtype) * max(scale, 1) * shape[-1]
    )


@KINDS
def test_eig(executor: hg.Executor, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")  # the only one that GPUs have no programs for
    similar = regular((2, 4, 4))
    made = similar @ (np.diag([3.0, -1.0, 0.5, 2.0]) @ np.linalg.inv(similar))
    x, _ = given(executor, hg.Executor.tensor, made, dtype)
    values, vectors = linalg.eig(x)
    near(
        hg.matmul(x, vectors),
        (vectors * values[..., None, :]).to_numpy().astype(np.float64),
        dtype,
        condition=64,
    )
    np.testing.assert_allclose(
        np.sort(linalg.eigvals(x).to_numpy()), [[-1, 0.5, 2, 3]] * 2, atol=256 * eps(dtype)
    )


@KINDS
@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 5, 12])
def test_matrix_power(executor: hg.Executor, dtype: str, n: int) -> None:
    x, held = given(executor, hg.Executor.tensor, regular((2, 3, 3)) / 2, dtype)
    near(linalg.matrix_power(x, n), np.linalg.matrix_power(held, n), dtype, condition=32)


def test_matrix_power_of_integers(executor: hg.Executor) -> None:
    x = np.array([[1, 1], [1, 0]], np.int64)
    np.testing.assert_array_equal(
        linalg.matrix_power(executor.tensor(x), 10).to_numpy(), np.linalg.matrix_power(x, 10)
    )


@KINDS
def test_ill_conditioned(executor: hg.Executor, dtype: str) -> None:
    """Hilbert's matrix: what is left of the equations is small, whatever the solution."""
    n = 8
    hilbert = 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1.0)
    x, held = given(executor, hg.Executor.tensor, hilbert, dtype)
    b = x.executor.tensor(np.ones(n), x.dtype)
    solved = linalg.solve(x, b).to_numpy().astype(np.float64)
    scale = np.abs(held).sum(axis=1).max() * np.abs(solved).max()
    assert np.max(np.abs(held @ solved - 1.0)) <= 8 * n * eps(dtype) * scale
    assert int(linalg.matrix_rank(x)) == np.linalg.matrix_rank(held, rtol=n * eps(dtype))


def test_integers_become_f32(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([[2, 1], [1, 3]], np.int32))
    assert linalg.inv(x).dtype == hg.f32
    near(linalg.inv(x), np.linalg.inv(np.array([[2.0, 1.0], [1.0, 3.0]])), "f32")
    near(linalg.solve([[2.0, 0.0], [0.0, 4.0]], executor.tensor(np.ones(2, np.float32)))[:, None],
         np.array([[0.5], [0.25]]), "f32")  # fmt: skip


def test_broadcast_stacks(executor: hg.Executor) -> None:
    a, b = regular((3, 1, 4, 4)).astype(np.float32), general((2, 4, 5), 1).astype(np.float32)
    got = linalg.solve(executor.tensor(a), executor.tensor(b))
    near(got, np.linalg.solve(a.astype(np.float64), b.astype(np.float64)), "f32", condition=8)
    got = linalg.solve_triangular(executor.tensor(b[0, :, :4]), executor.tensor(a))
    want = np.linalg.solve(np.tril(b[0, :, :4]).astype(np.float64), a.astype(np.float64))
    near(got, want, "f32", condition=64)
