"""What LAPACK does on the CPU, by programs, block by block: what GPUs run, in a jitted function too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.linear_algebra.cases import DTYPES, EMPTY, definite, general, near, strided

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
    if kind not in alone.limits.dtypes:
        return
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
