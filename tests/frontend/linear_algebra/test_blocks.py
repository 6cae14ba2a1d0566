"""What LAPACK does on the CPU, by programs, block by block: what GPUs run, in a jitted function too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset.linear_algebra import solving
from tests.frontend.linear_algebra.cases import DTYPES, EMPTY, definite, eps, general, near, regular, strided
from tests.needs import needs

pytestmark = pytest.mark.sampled(3)

linalg = hg.linalg
SHAPES = [(1, 1), (5, 5), (2, 31, 31), (32, 32), (33, 33), (2, 3, 65, 65), (1, 130, 130), (70, 4, 4), *EMPTY]


@pytest.fixture
def alone(executor: hg.Executor) -> Iterator[hg.Executor]:
    """The executor, taken for one whose device has no library."""
    target = executor.target
    executor.target = replace(target, limits=replace(target.limits, factors=()))
    executor.structures.clear()
    yield executor
    executor.target = target
    executor.structures.clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", [hg.Executor.tensor, strided], ids=["contiguous", "strided"])
def test_cholesky_and_substitution(alone: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str) -> None:
    kind = hg.dtypes.dtype(dtype)
    needs(alone, kind)
    held = definite(shape).astype(kind.numpy)
    x, wide = make(alone, held), held.astype(np.float64)
    for upper in (False, True):
        near(linalg.cholesky(x, upper=upper), np.linalg.cholesky(wide, upper=upper), dtype)
        triangle = np.triu(wide) if upper else np.tril(wide)
        for columns in (1, 40):
            b = general((*shape[:-1], columns), 1).astype(kind.numpy)
            got = linalg.solve_triangular(x, make(alone, b), upper=upper)
            near(got, np.linalg.solve(triangle, b.astype(np.float64)), dtype, condition=4)


def test_the_first_pivot_that_fails_is_told(alone: hg.Executor) -> None:
    for place in (0, 31, 32, 40, 69):
        x = np.stack([definite((70, 70)), definite((70, 70), 1)]).astype(np.float32)
        x[1, place, place] = -1
        x[1, 69, 69] = -1
        with pytest.raises(hg.LinAlgError, match=f"matrix 1 of the batch .* of order {place + 1} is not"):
            linalg.cholesky(alone.tensor(x))


def test_jitted(alone: hg.Executor) -> None:
    x, b = definite((2, 40, 40)).astype(np.float32), general((2, 40, 3), 1).astype(np.float32)

    @hg.jit
    def solved(x: hg.Tensor, b: hg.Tensor) -> hg.Tensor:
        return linalg.cholesky_solve(linalg.cholesky(x), b) + 1.0

    got = solved(alone.tensor(x), alone.tensor(b))
    near(got, np.linalg.solve(x.astype(np.float64), b.astype(np.float64)) + 1, "f32")
    gradient = hg.grad(lambda x: hg.sum(hg.log(linalg.diagonal(linalg.cholesky(x)))))(alone.tensor(x))
    near(gradient, np.linalg.inv(x.astype(np.float64)) / 2, "f32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s != (70, 4, 4)], ids=str)
@pytest.mark.parametrize("make", [hg.Executor.tensor, strided], ids=["contiguous", "strided"])
def test_lu_and_what_is_solved_by_it(
    alone: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str
) -> None:
    kind = hg.dtypes.dtype(dtype)
    needs(alone, kind)
    held = regular(shape).astype(kind.numpy)
    x, wide = make(alone, held), held.astype(np.float64)
    b = general((*shape[:-1], 3), 1).astype(kind.numpy)
    near(linalg.solve(x, make(alone, b)), np.linalg.solve(wide, b.astype(np.float64)), dtype, condition=8)
    near(linalg.inv(x), np.linalg.inv(wide), dtype, condition=8)
    sign, logarithm = linalg.slogdet(x)
    wanted = np.linalg.slogdet(wide)
    np.testing.assert_array_equal(sign.to_numpy(), wanted.sign)
    tolerance = 64 * eps(dtype) * max(shape[-1], 1)
    np.testing.assert_allclose(logarithm.to_numpy(), wanted.logabsdet, rtol=0, atol=tolerance)
    held_by_dtype = np.abs(wanted.logabsdet) < 80
    got, want = linalg.det(x).to_numpy(), np.linalg.det(wide)
    np.testing.assert_allclose(got[held_by_dtype], want[held_by_dtype], rtol=tolerance)


@pytest.mark.parametrize(
    "shape", [(20, 33), (2, 40, 17), (1, 5), (5, 1), (100, 16), (9, 6, 4), (9, 4, 6)], ids=str
)
@pytest.mark.parametrize("blocks", [True, False], ids=["by blocks", "by the device"])
def test_lu_of_any_matrices(
    request: pytest.FixtureRequest, executor: hg.Executor, shape: tuple[int, ...], blocks: bool
) -> None:
    if blocks:
        request.getfixturevalue("alone")
    x = general(shape, 4).astype(np.float32)
    factors, pivots = linalg.lu_factor(executor.tensor(x))
    m, n = shape[-2:]
    width = min(m, n)
    for place in np.ndindex(*shape[:-2]):
        rows = x[place].astype(np.float64)
        for k, p in enumerate(pivots.to_numpy()[place]):
            rows[[k, p]] = rows[[p, k]]
        packed = factors.to_numpy()[place].astype(np.float64)
        lower = np.tril(packed[:, :width], -1) + np.eye(m, width)
        assert np.all(np.abs(lower) <= 1 + 1e-6)
        np.testing.assert_allclose(lower @ np.triu(packed[:width]), rows, atol=1e-5)


@pytest.mark.parametrize("blocks", [True, False], ids=["by blocks", "by the device"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 5, 5), (33, 33), (40, 6, 6), *EMPTY], ids=str)
def test_what_known_factors_solve(
    request: pytest.FixtureRequest, executor: hg.Executor, shape: tuple[int, ...], blocks: bool
) -> None:
    """x, its transpose, and the rows that its factors are of, in each of three ways of the CPU backend."""
    if blocks:
        request.getfixturevalue("alone")
    held = regular(shape).astype(np.float32)
    wide = held.astype(np.float64)
    b = general((*shape[:-1], 3), 1).astype(np.float32)
    factors, pivots, _ = solving.lu(executor.tensor(held))
    for adjoint in (False, True):
        got = solving.lu_solve(factors, pivots, executor.tensor(b), adjoint=adjoint)
        a = wide.swapaxes(-1, -2) if adjoint else wide
        near(got, np.linalg.solve(a, b.astype(np.float64)), "f32", condition=8)
    order = solving.row_order(pivots, rows=shape[-1]).to_numpy()
    assert order.shape == shape[:-1]
    lower = np.tril(factors.to_numpy(), -1) + np.eye(shape[-1])
    rows = np.take_along_axis(held, order[..., None].astype(np.int64), axis=-2)
    np.testing.assert_allclose(lower @ np.triu(factors.to_numpy()), rows, atol=1e-5)


def test_positions_are_i32(executor: hg.Executor) -> None:
    x = executor.tensor(np.eye(3, dtype=np.float32))
    with pytest.raises(hg.UnsupportedDType, match=r"linalg\.lu_solve: pivots must be i32, got f32"):
        solving.lu_solve(x, x[0], x)


def test_the_first_pivot_that_is_zero_is_told(alone: hg.Executor) -> None:
    for place in (0, 3, 16, 39):
        x = np.stack([regular((40, 40)), regular((40, 40), 1)]).astype(np.float32)
        x[1, :, place] = 0
        tensor = alone.tensor(x)
        for call in (linalg.inv, linalg.lu_factor, lambda t: linalg.solve(t, t)):
            with pytest.raises(
                hg.LinAlgError, match=f"matrix 1 of the batch is singular: pivot {place + 1} is 0"
            ):
                call(tensor)
        sign, logarithm = linalg.slogdet(tensor)
        assert (sign[1].item(), logarithm[1].item()) == (0.0, -np.inf)


def test_nan_stays_in_its_matrix(alone: hg.Executor) -> None:
    x = np.stack([regular((20, 20)), regular((20, 20), 1)]).astype(np.float32)
    x[1, 7, 3] = np.nan
    for call in (linalg.inv, linalg.det, lambda t: linalg.solve(t, t)):
        got = call(alone.tensor(x)).to_numpy()
        assert np.all(np.isfinite(got[0]))
        assert np.any(np.isnan(got[1]))
