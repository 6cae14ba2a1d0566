"""Linear algebra of complex matrices: on the CPU by LAPACK, elsewhere by programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.frontend import linalg

SHAPES = ((3, 3), (1, 1), (30, 30), (7, 2, 2), (2, 0, 3, 3), (0, 0))


@pytest.fixture
def eig_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")  # the only one that GPUs have no programs for


def given(shape: tuple[int, ...], kind: str = "any", dtype: Any = np.complex64) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    if kind == "hermitian":
        x = x + np.conj(x.swapaxes(-1, -2))
    if kind == "definite":
        x = x @ np.conj(x.swapaxes(-1, -2)) + 2 * np.eye(shape[-1])
    return x.astype(dtype)


def near(found: Any, wanted: Any, size: int = 1) -> None:
    found = found.to_numpy() if isinstance(found, hg.Tensor) else found
    assert found.shape == np.shape(wanted)
    tolerance = 2e-5 * max(size, 1) * max(1.0, float(np.max(np.abs(wanted), initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=tolerance)


def refused(executor: hg.Executor) -> bool:
    """Whether the device has no c128, and says so."""
    if hg.c128 in executor.limits.dtypes:
        return False
    with pytest.raises(hg.UnsupportedDType, match="c128"):
        executor.tensor(np.zeros(2, np.complex128))
    return True


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(x.swapaxes(-1, -2))


@pytest.mark.usefixtures("eig_on_the_host")
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_multiply_to_the_matrix(executor: hg.Executor, shape: tuple[int, ...]) -> None:
    n = shape[-1]
    x = given(shape)
    t = executor.tensor(x)
    one = np.broadcast_to(np.eye(n), shape)
    for upper in (False, True):
        definite = given(shape, "definite")
        c = linalg.cholesky(executor.tensor(definite), upper=upper).to_numpy()
        near(adjoint(c) @ c if upper else c @ adjoint(c), definite, n)
    q, r = (f.to_numpy() for f in linalg.qr(t))
    near(q @ r, x, n)
    near(adjoint(q) @ q, one, n)
    u, s, vh = (f.to_numpy() for f in linalg.svd(t))
    assert s.dtype == np.float32
    near((u * s[..., None, :]) @ vh, x, n)
    near(adjoint(u) @ u, one, n)
    hermitian = given(shape, "hermitian")
    for triangle in ("L", "U"):
        values, vectors = (f.to_numpy() for f in linalg.eigh(executor.tensor(hermitian), UPLO=triangle))
        assert values.dtype == np.float32
        near((vectors * values[..., None, :]) @ adjoint(vectors), hermitian, n)
    near(linalg.eigvalsh(executor.tensor(hermitian)), np.linalg.eigvalsh(hermitian), n)
    near(linalg.svdvals(t), np.linalg.svd(x, compute_uv=False), n)
    values, vectors = (f.to_numpy() for f in linalg.eig(t))
    near(x @ vectors, vectors * values[..., None, :], n)


@pytest.mark.parametrize("shape", [*SHAPES, (2, 35, 35)])
def test_what_is_solved(executor: hg.Executor, shape: tuple[int, ...]) -> None:
    n = shape[-1]
    x = given(shape) + np.complex64(3 * np.eye(n))
    b = given((*shape[:-1], 2))
    t, right = executor.tensor(x), executor.tensor(b)
    wide = x.astype(np.complex128)
    near(linalg.solve(t, right), np.linalg.solve(wide, b), n)
    near(linalg.inv(t), np.linalg.inv(wide), n)
    near(linalg.det(t), np.linalg.det(wide), n * n)
    sign, logarithm = linalg.slogdet(t)
    assert (sign.dtype, logarithm.dtype) == (hg.c64, hg.f32)
    near(sign, np.linalg.slogdet(wide)[0], n)
    near(logarithm, np.linalg.slogdet(wide)[1], n)
    low = np.tril(x)
    near(linalg.solve_triangular(executor.tensor(low), right), np.linalg.solve(np.tril(wide), b), n)
    up = linalg.solve_triangular(executor.tensor(np.triu(x)), right, upper=True, unitriangular=True)
    near(up, np.linalg.solve(np.triu(wide, 1) + np.eye(n), b), 100 * n * n)
    definite = given(shape, "definite")
    for upper in (False, True):
        factor = linalg.cholesky(executor.tensor(definite), upper=upper)
        near(linalg.cholesky_solve(factor, right, upper=upper), np.linalg.solve(definite, b), n)
    if n:
        near(linalg.pinv(t), np.linalg.pinv(wide), n)
        near(linalg.cond(t), np.linalg.cond(wide), 10 * n)
        assert np.array_equal(linalg.matrix_rank(t).to_numpy(), np.linalg.matrix_rank(x))
    near(linalg.matrix_power(t, -2), np.linalg.matrix_power(wide, -2), n)


def test_rectangles(executor: hg.Executor) -> None:
    for shape in ((5, 3), (3, 5), (2, 4, 2)):
        x = given(shape)
        q, r = (f.to_numpy() for f in linalg.qr(executor.tensor(x), mode="complete"))
        near(q @ r, x, 5)
        u, s, vh = (f.to_numpy() for f in linalg.svd(executor.tensor(x), full_matrices=False))
        near((u * s[..., None, :]) @ vh, x, 5)
        near(linalg.pinv(executor.tensor(x)), np.linalg.pinv(x), 5)
    a, b = given((6, 3)), given((6, 2))
    found, residuals, rank, _ = linalg.lstsq(executor.tensor(a), executor.tensor(b))
    wanted = np.linalg.lstsq(a, b, rcond=None)
    near(found, wanted[0], 6)
    near(residuals.real, wanted[1], 6)
    assert int(rank) == wanted[2]


def test_the_exponential(executor: hg.Executor) -> None:
    """Of a Hermitian matrix, by its eigenvalues."""
    x = given((4, 4), "hermitian")
    values, vectors = np.linalg.eigh(x.astype(np.complex128))
    wanted = (vectors * np.exp(1j * values)) @ adjoint(vectors)
    near(linalg.expm(executor.tensor((1j * x).astype(np.complex64))), wanted, 10)


@pytest.mark.parametrize("shape", [(2, 3, 3), (35, 35)])
def test_pivots_are_those_of_lapack(executor: hg.Executor, shape: tuple[int, ...]) -> None:
    scipy_linalg = pytest.importorskip("scipy.linalg")
    x = given(shape)
    factors, pivots = linalg.lu_factor(executor.tensor(x))
    for k in np.ndindex(shape[:-2]):
        wanted, places = scipy_linalg.lu_factor(x[k].astype(np.complex128))
        assert np.array_equal(pivots.to_numpy()[k], places)
        near(factors.to_numpy()[k], wanted, shape[-1])


def test_failures_name_the_matrix(executor: hg.Executor) -> None:
    x = given((3, 2, 2), "definite")
    x[1] = -x[1]
    with pytest.raises(hg.LinAlgError, match="matrix 1 of the batch is not positive definite"):
        linalg.cholesky(executor.tensor(x))
    x[2] = 1j
    with pytest.raises(hg.LinAlgError, match="matrix 2 of the batch is singular"):
        linalg.inv(executor.tensor(x))


def hermitian(x: Any) -> Any:
    return (x + hg.conj(x).mT) * 0.5


def square_sum(*results: Any) -> Any:
    """A real number that does not change with the phases of vectors."""
    return sum(hg.sum(hg.abs(r) ** 2 * weight) for weight, r in zip((1.0, 0.5, 2.0), results, strict=False))


def phased(u: Any, s: Any, vh: Any) -> Any:
    """Of singular vectors, what does not change with their phases."""
    weights = hg.arange(u.shape[-1], dtype="f64", device=u.executor) + 1.0
    return square_sum(hg.matmul(u * weights, vh)) + hg.sum(s**3)


FUNCTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "cholesky": ("definite", lambda x: square_sum(linalg.cholesky(hermitian(x))[..., :2])),
    "inv": ("any", lambda x: square_sum(linalg.inv(x)[..., :1])),
    "det": ("any", lambda x: hg.sum(hg.real(linalg.det(x) * (2.0 + 1j)))),
    "slogdet": ("any", lambda x: hg.sum(hg.real(linalg.slogdet(x)[0] * (1.0 + 2j)) + linalg.slogdet(x)[1])),
    "solve": ("any", lambda x: square_sum(linalg.solve(x, x[..., :1] * x[..., :1]))),
    "triangular": ("any", lambda x: square_sum(linalg.solve_triangular(x, x[..., :1] * x[..., :1]))),
    "qr": ("any", lambda x: square_sum(linalg.qr(x)[0][..., :1] + 2.0, linalg.qr(x)[1][..., :2] + 1j)),
    "eigh": (
        "hermitian",
        lambda x: square_sum(
            *[hg.abs(v) ** 2 if v.dtype.is_complex else v for v in linalg.eigh(hermitian(x))]
        ),
    ),
    "eigvalsh": ("hermitian", lambda x: hg.sum(linalg.eigvalsh(hermitian(x)) ** 3)),
    "svd": ("any", lambda x: phased(*linalg.svd(x, full_matrices=False))),
    "svdvals": ("any", lambda x: hg.sum(linalg.svdvals(x) ** 3)),
    "pinv": ("any", lambda x: square_sum(linalg.pinv(x)[..., :1])),
}


CASES = [
    (name, shape)
    for name in FUNCTIONS
    for shape in [(3, 3), (2, 3, 3), (4, 3), (3, 4)]
    if shape[-1] == shape[-2] or name in ("qr", "svd", "svdvals", "pinv")
] + [("det", (2, 4, 4))]  # larger ones have another derivative


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_gradients_are_those_of_differences(name: str, shape: tuple[int, ...], executor: hg.Executor) -> None:
    """A step along the gradient's own direction, and along others: f(x + h d) - f(x - h d) over 2 h."""
    kind, function = FUNCTIONS[name]
    if refused(executor):
        return
    x = given(shape, kind, np.complex128)
    slope = hg.grad(function)(executor.tensor(x)).to_numpy()
    assert slope.dtype == np.complex128
    rng = np.random.default_rng(1)
    for _ in range(4):
        d = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        h = 1e-5
        high, low = (float(function(executor.tensor(x + sign * h * d))) for sign in (1, -1))
        wanted = (high - low) / (2 * h)
        assert np.sum(np.real(np.conj(slope) * d)) == pytest.approx(wanted, rel=2e-6, abs=1e-6), name


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "svdvals", "pinv", "qr"])
def test_forward_derivatives_are_those_of_differences(name: str, executor: hg.Executor) -> None:
    if refused(executor):
        return

    def function(x: Any) -> Any:
        made = getattr(linalg, name)(x)
        return made[-1] if isinstance(made, tuple) else made

    x, d = given((2, 3, 3), dtype=np.complex128), given((3, 2, 3, 3), dtype=np.complex128)[1]
    _, slope = hg.jvp(function, (executor.tensor(x),), (executor.tensor(d),))
    high, low = (function(executor.tensor(x + h * d)).to_numpy() for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slope.to_numpy(), (high - low) / 2e-6, rtol=1e-6, atol=1e-7)
