"""Derivatives of hg.linalg in f64 against central differences, of the first and second order, and under hg.jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.linear_algebra.cases import definite, general, regular
from tests.needs import needs

linalg = hg.linalg
STEP = 1e-4
B = general((3, 2), 9)
CASES: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "cholesky": (linalg.cholesky, definite((3, 3))),
    "cholesky_upper": (lambda x: linalg.cholesky(x, upper=True), definite((2, 3, 3))),
    "inv": (linalg.inv, regular((2, 3, 3))),
    "det": (linalg.det, regular((2, 4, 4))),
    "det_of_one": (linalg.det, np.zeros((2, 1, 1))),
    "det_of_two": (linalg.det, np.array([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]])),
    "det_of_three": (linalg.det, np.stack([np.diag([1.0, 2.0, 0.0]), regular((3, 3))])),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, regular((3, 3))),
    "solve": (lambda x: linalg.solve(x, x[..., :2] + x.executor.tensor(B)), regular((2, 3, 3))),
    "solve_vector": (lambda x: linalg.solve(x, x[0]), regular((3, 3))),
    "solve_broadcast": (lambda x: linalg.solve(x[:1] + 0.0, x), regular((3, 3, 3)) + 3 * np.eye(3)),
    "solve_triangular": (lambda x: linalg.solve_triangular(x, x[..., :2]), regular((2, 3, 3)) + 2 * np.eye(3)),
    "solve_triangular_upper": (
        lambda x: linalg.solve_triangular(x, x, upper=True, left=False), regular((3, 3)) + 2 * np.eye(3)),
    "solve_triangular_unit": (
        lambda x: linalg.solve_triangular(x, x[..., :1], unitriangular=True), regular((3, 3))),
    "cholesky_solve": (lambda x: linalg.cholesky_solve(x, x), regular((3, 3)) + 2 * np.eye(3)),
    "qr_square": (linalg.qr, regular((2, 3, 3))),
    "qr_tall": (linalg.qr, general((4, 2))),
    "qr_wide": (linalg.qr, general((2, 4))),
    "qr_complete": (lambda x: linalg.qr(x, mode="complete"), general((2, 3))),
    "eigvalsh": (linalg.eigvalsh, definite((2, 3, 3))),
    "eigh_values": (lambda x: linalg.eigh(x).eigenvalues, definite((3, 3))),
    "eigh_projector": (
        lambda x: linalg.eigh(x).eigenvectors[..., :1] @ linalg.eigh(x).eigenvectors[..., :1].mT, definite((3, 3))),
    "svdvals": (linalg.svdvals, general((2, 4, 3))),
    "svd_tall": (lambda x: _vectors(linalg.svd(x, full_matrices=False)), general((4, 3))),
    "svd_wide": (lambda x: _vectors(linalg.svd(x, full_matrices=False)), general((2, 4))),
    "svd_square": (lambda x: _vectors(linalg.svd(x)), general((3, 3))),
    "pinv_tall": (linalg.pinv, general((2, 4, 3))),
    "pinv_wide": (linalg.pinv, general((2, 4))),
    "lstsq": (lambda x: linalg.lstsq(x, x[:, 0] * x[:, 1] + 1.0).x, general((5, 3))),
    "expm": (linalg.expm, general((2, 3, 3))),
    "expm_large": (linalg.expm, 4 * general((2, 2))),
    "matrix_power": (lambda x: linalg.matrix_power(x, 5), general((3, 3))),
    "matrix_power_negative": (lambda x: linalg.matrix_power(x, -2), regular((3, 3))),
    "norm_fro": (linalg.matrix_norm, general((2, 3, 4))),
    "norm_nuc": (lambda x: linalg.matrix_norm(x, ord="nuc"), general((3, 4))),
    "norm_2": (lambda x: linalg.matrix_norm(x, ord=2), general((3, 4))),
    "norm_1": (lambda x: linalg.matrix_norm(x, ord=1), general((3, 4))),
    "vector_norm_3": (lambda x: linalg.vector_norm(x, ord=3, axis=-1), general((3, 4))),
    "cross": (lambda x: linalg.cross(x, x * x + 1.0), general((2, 3))),
    "trace": (lambda x: linalg.trace(x @ x, offset=1), general((2, 3, 3))),
    "outer": (lambda x: linalg.outer(x[0], x[1]), general((2, 3))),
    "diagonal": (lambda x: linalg.diagonal(x, offset=-1) ** 2, general((3, 4))),
    "multi_dot": (lambda x: linalg.multi_dot([x, x.mT, x[:, 0]]), general((3, 4))),
}  # fmt: skip
SYMMETRIC = ("cholesky", "cholesky_upper", "eigvalsh", "eigh_values", "eigh_projector")


def _vectors(factors: Any) -> Any:
    """What of the vectors does not depend on their signs."""
    u, s, vh = factors
    return [
        (u[..., :1] * s[..., None, :1]) @ vh[..., :1, :],
        s,
        u[..., 1:2] @ u[..., 1:2].mT,
        vh[..., :1, :].mT @ vh[..., :1, :],
    ]


@pytest.fixture(scope="module")
def cpu() -> Any:
    with hg.Executor("cpu") as executor:
        yield executor


def weighed(function: Callable[..., Any]) -> Callable[..., hg.Tensor]:
    def total(x: hg.Tensor) -> hg.Tensor:
        results = function(x)
        results = results if isinstance(results, (tuple, list)) else [results]
        rng = np.random.default_rng(7)
        terms = [hg.sum(r * x.executor.tensor(rng.uniform(0.5, 1.5, r.shape))) for r in results]
        return sum(terms[1:], terms[0])

    return total


def slope(f: Callable[[float], float]) -> float:
    return (8 * (f(STEP) - f(-STEP)) - (f(2 * STEP) - f(-2 * STEP))) / (12 * STEP)


@pytest.mark.parametrize("name", CASES)
def test_first_and_second(name: str, cpu: hg.Executor) -> None:
    function, start = CASES[name]
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal(start.shape), rng.standard_normal(start.shape)
    if name in SYMMETRIC:
        one, other = one + one.swapaxes(-1, -2), other + other.swapaxes(-1, -2)
    f = weighed(function)
    gradient = hg.grad(f)
    x = cpu.tensor(start)
    got = float(np.sum(gradient(x).to_numpy() * one))
    want = slope(lambda t: f(cpu.tensor(start + t * one)).item())
    assert abs(got - want) <= 1e-6 * max(abs(want), 1), (got, want)

    def pulled(x: hg.Tensor) -> hg.Tensor:
        return hg.sum(gradient(x) * cpu.tensor(one))

    second = float(np.sum(hg.grad(pulled)(x).to_numpy() * other))
    want = slope(lambda t: pulled(cpu.tensor(start + t * other)).item())
    assert abs(second - want) <= 1e-4 * max(abs(want), 1), (second, want)


@pytest.mark.parametrize("name", CASES)
def test_under_jit(name: str, cpu: hg.Executor) -> None:
    function, start = CASES[name]
    f, x = weighed(function), cpu.tensor(start)
    value, gradient = hg.value_and_grad(f)(x)
    compiled, traced = hg.jit(hg.value_and_grad(f))(x)
    np.testing.assert_allclose(compiled.item(), value.item(), rtol=1e-10)
    np.testing.assert_allclose(traced.to_numpy(), gradient.to_numpy(), rtol=1e-7, atol=1e-9)


def test_norms_of_zeros_have_a_derivative_of_zero(executor: hg.Executor) -> None:
    x = executor.tensor(np.zeros((3, 4), np.float32))
    for order in (1, 2, 3):
        gradient = hg.grad(lambda x, order=order: hg.sum(linalg.vector_norm(x, ord=order, axis=-1)))(x)
        np.testing.assert_array_equal(gradient.to_numpy(), 0)


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64"])
def test_determinants_of_zero_have_a_derivative(executor: hg.Executor, dtype: str) -> None:
    needs(executor, dtype)
    for given, want in (
        ([[0.0]], [[1]]),
        ([[1.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 1]]),
        ([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 0.0]], [[-6, 6, -2], [3, -3, 1], [0, 0, 0]]),
        (np.diag([5.0, 0.0, 0.0]), np.zeros((3, 3))),
    ):
        x = executor.tensor(np.array(given)).astype(dtype)
        gradient = hg.grad(lambda x: hg.real(linalg.det(x)))(x)
        np.testing.assert_array_equal(gradient.to_numpy(), want)
        tangent = hg.jvp(linalg.det, (x,), (x + 1.0,))[1]
        np.testing.assert_allclose(
            tangent.to_numpy(), np.sum(np.array(want) * (np.array(given) + 1)), atol=1e-4
        )


def test_equal_values_have_no_vectors(cpu: hg.Executor) -> None:
    """The values have a derivative, the vectors none: no number is made up."""
    x = cpu.tensor(np.eye(3))
    for values in (lambda x: linalg.eigh(x).eigenvalues, lambda x: linalg.svd(x).S):
        np.testing.assert_allclose(
            hg.grad(lambda x, values=values: hg.sum(values(x) ** 2))(x).to_numpy(), 2 * np.eye(3), atol=1e-12
        )

    def square(x: hg.Tensor) -> hg.Tensor:
        values, vectors = linalg.eigh(x)
        return hg.sum((vectors * values[None, :] ** 2) @ vectors.mT)

    assert np.any(np.isnan(hg.grad(square)(x).to_numpy()))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: linalg.qr(x, mode="complete").Q, (3, 2)),
        (lambda x: linalg.svd(x).U, (3, 2)),
        (lambda x: linalg.lu_factor(x).LU, (3, 3)),
        (lambda x: linalg.eig(x).eigenvalues, (3, 3)),
    ],
    ids=["qr", "svd", "lu", "eig"],
)
def test_what_has_no_derivative(
    function: Callable[..., Any], shape: tuple[int, ...], cpu: hg.Executor
) -> None:
    with pytest.raises(hg.GradientError, match="linalg"):
        hg.grad(lambda x: hg.sum(function(x)))(cpu.tensor(definite((3, 3))[: shape[0], : shape[1]]))
