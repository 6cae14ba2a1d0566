"""Matrices that the tests of hg.linalg take apart, and how far results may be from NumPy's in double precision."""

from __future__ import annotations

import numpy as np

import hologram as hg

DTYPES = ("f32", "f64")
SQUARE = ((1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 1, 3, 3), (33, 33), (70, 70), (1, 150, 150), (40, 8, 8))
EMPTY = ((0, 0), (0, 3, 3), (3, 0, 0), (2, 0, 4, 4))
TALL = ((5, 3), (3, 5), (2, 7, 4), (2, 4, 7), (40, 40), (65, 20), (1, 6), (6, 1))


def general(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def regular(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Well conditioned, with pivots off the diagonal."""
    n = shape[-1]
    x = general(shape, seed) / max(n, 1) ** 0.5
    return x + 2.0 * np.roll(np.eye(n), 1, axis=0) if n else x


def definite(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    x = general(shape, seed)
    return x @ x.swapaxes(-1, -2) + max(shape[-1], 1) * np.eye(shape[-1])


def strided(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """As a view: every second of the columns of something wider, read from the right."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 2 * x.shape[-1] : 0 : -2] = x
    view = executor.tensor(wide)[..., 2 * x.shape[-1] : 0 : -2]
    assert view.shape == x.shape
    return view


def eps(dtype: str) -> float:
    return {"f32": 2.0**-23, "f64": 2.0**-52}[dtype]


def near(got: hg.Tensor, want: np.ndarray, dtype: str, factor: float = 16.0, condition: float = 1.0) -> None:
    """Within `factor` epsilons times the size of the matrices and the condition, of the largest element."""
    found = got.to_numpy()
    assert found.dtype == {"f32": np.float32, "f64": np.float64}[dtype]
    assert found.shape == want.shape
    n = max(want.shape[-2:], default=1)
    bound = factor * eps(dtype) * max(n, 1) * condition * max(float(np.max(np.abs(want), initial=0.0)), 1.0)
    np.testing.assert_allclose(found, want, rtol=0, atol=bound)
