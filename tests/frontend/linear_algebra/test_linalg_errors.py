"""What hg.linalg refuses: NumPy's LinAlgError with the matrix, and devices that lack a kernel, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset.linear_algebra import spectral
from tests.frontend.linear_algebra.cases import definite, general

linalg = hg.linalg
SQUARE = ("cholesky", "inv", "det", "slogdet", "eigh", "eigvalsh", "eig", "expm")
MATRICES = (*SQUARE, "qr", "svd", "svdvals", "pinv", "lu_factor")


@pytest.fixture
def by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")


@pytest.mark.parametrize("name", SQUARE)
def test_not_square(executor: hg.Executor, name: str) -> None:
    with pytest.raises(np.linalg.LinAlgError, match=rf"linalg.{name}: square .* got shape \(2, 3\)"):
        getattr(linalg, name)(executor.zeros((2, 3)))


@pytest.mark.parametrize("name", MATRICES)
def test_no_matrices(executor: hg.Executor, name: str) -> None:
    with pytest.raises(hg.LinAlgError, match=rf"linalg.{name}: matrices are needed, got shape \(3,\)"):
        getattr(linalg, name)(executor.zeros(3))
    with pytest.raises(
        hg.UnsupportedDType, match=rf"linalg.{name}: f32, f64, c64 or c128 is needed, got f16"
    ):
        getattr(linalg, name)(executor.zeros((3, 3), hg.f16))


@pytest.mark.usefixtures("by_the_host")
def test_singular_names_the_matrix(executor: hg.Executor) -> None:
    x = general((2, 3, 3, 3)).astype(np.float32)
    x[1, 2, :, 1] = 0
    tensor = executor.tensor(x)
    for call in (linalg.inv, lambda t: linalg.solve(t, t), linalg.lu_factor):
        with pytest.raises(hg.LinAlgError, match=r"matrix \(1, 2\) of the batch is singular: pivot 2 is 0"):
            call(tensor)
    with pytest.raises(np.linalg.LinAlgError, match="the matrix is singular: pivot 1 is 0"):
        linalg.inv(executor.zeros((3, 3)))
    sign, logarithm = linalg.slogdet(tensor)
    assert float(sign[1, 2]) == 0
    assert float(logarithm[1, 2]) == -np.inf
    assert float(linalg.det(tensor)[1, 2]) == 0


@pytest.mark.usefixtures("by_the_host")
def test_not_positive_definite_names_the_matrix(executor: hg.Executor) -> None:
    x = definite((3, 4, 4)).astype(np.float32)
    x[1, 2, 2] = -1
    with pytest.raises(
        hg.LinAlgError, match="matrix 1 of the batch is not positive definite: its leading matrix of order 3"
    ):
        linalg.cholesky(executor.tensor(x))
    x[2] = 0
    with pytest.raises(hg.LinAlgError, match=r"order 3 is not \(1 more of 3 likewise\)"):
        linalg.cholesky(executor.tensor(x))


@pytest.mark.parametrize("name", ["svd", "svdvals", "pinv", "matrix_rank"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 140, 3)], ids=str)  # code of our own on the CPU, and LAPACK
def test_nan_inside(executor: hg.Executor, name: str, bad: float, shape: tuple[int, ...]) -> None:
    """LAPACK does not return from some."""
    x = general(shape).astype(np.float32)
    x[1, 0, 0] = bad
    with pytest.raises(hg.LinAlgError, match="matrix 1 of the batch has NaN or infinite elements"):
        getattr(linalg, name)(executor.tensor(x))


@pytest.mark.parametrize(("batch", "n"), [(2, 1), (2, 2), (40, 3), (2, 4), (2, 33)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_eigenvalues_of_what_is_not_finite(executor: hg.Executor, batch: int, n: int, bad: float) -> None:
    """LAPACK has an error for some sizes, and numbers for others."""
    x = definite((batch, n, n)).astype(np.float32)
    want = np.linalg.eigvalsh(x)
    x[1, 0, 0] = bad
    x[0, 0, 1:] = bad  # which nobody reads
    tensor = executor.tensor(x)
    for call in (linalg.eigh, linalg.eigvalsh):
        with pytest.raises(hg.LinAlgError, match="matrix 1 of the batch has NaN or infinite elements"):
            call(tensor)
    if executor.backend == "cpu" or n < 33:  # a program of many sweeps takes drivers some time
        values = hg.jit(linalg.eigvalsh)(tensor).to_numpy()
        assert np.all(np.isnan(values[1]))
        np.testing.assert_allclose(values[0], want[0], rtol=1e-4)


@pytest.mark.parametrize(("batch", "n"), [(2, 3), (40, 3), (2, 40)])
def test_cholesky_of_nan_is_nan(executor: hg.Executor, batch: int, n: int) -> None:
    """As in NumPy: it is not known whether such a matrix is positive definite."""
    x = definite((batch, n, n)).astype(np.float32)
    x[1, n - 1, n - 1] = np.nan
    factor = linalg.cholesky(executor.tensor(x)).to_numpy()
    np.testing.assert_array_equal(np.isnan(factor), np.isnan(np.linalg.cholesky(x)))


def test_nan_stays_in_its_matrix(executor: hg.Executor) -> None:
    x = (general((2, 3, 3)) + 3 * np.eye(3)).astype(np.float32)
    x[1, 0, 0] = np.nan
    for call in (linalg.inv, lambda t: linalg.solve(t, t), linalg.det, lambda t: linalg.qr(t).Q):
        got = call(executor.tensor(x)).to_numpy()
        assert np.all(np.isfinite(got[0]))
        assert np.any(np.isnan(got[1]))


def test_failures_are_nan_in_traced_functions() -> None:
    with hg.Executor("cpu") as cpu:
        x = cpu.tensor(np.stack([np.eye(3), -np.eye(3)]))
        got = hg.jit(lambda x: linalg.cholesky(x))(x).to_numpy()
        np.testing.assert_array_equal(got[0], np.eye(3))
        assert np.all(np.isnan(got[1]))
        with pytest.raises(hg.LinAlgError):
            linalg.cholesky(x)


def test_sizes_must_agree(executor: hg.Executor) -> None:
    x = executor.tensor(np.eye(3, dtype=np.float32))
    for call in (linalg.solve, linalg.solve_triangular, linalg.lstsq, linalg.cholesky_solve):
        with pytest.raises(ValueError, match=r"rows .* are needed, got shapes \(3, 3\) and \(4, 2\)"):
            call(x, executor.zeros((4, 2)))
    with pytest.raises(ValueError, match="mode must be"):
        linalg.qr(x, mode="full")
    with pytest.raises(ValueError, match="UPLO must be"):
        linalg.eigh(x, UPLO="X")


def test_what_a_device_lacks_it_says(executor: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    x = executor.tensor(np.diag([1.0, 2.0, 3.0]).astype(np.float32))
    monkeypatch.delenv("HOLOGRAM_HOST_LINALG", raising=False)
    if executor.limits.factors:
        assert linalg.eig(x) is not None
        return
    with pytest.raises(
        hg.UnsupportedOperation, match=rf"linalg.eig: {executor.backend} .*HOLOGRAM_HOST_LINALG=1"
    ):
        linalg.eig(x)
    traced: Any = hg.jit(lambda x: spectral.eig(x)[0])
    with pytest.raises(hg.UnsupportedOperation, match=r"linalg\.eig"):
        traced(x)
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")
    assert linalg.eig(x)[0].executor is executor


def test_complex_eigenvalues_are_given(executor: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quarter turn i and -i, with their vectors."""
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32)
    values, vectors = linalg.eig(executor.tensor(turn))
    assert values.dtype is hg.c64
    np.testing.assert_allclose(sorted(np.imag(values.to_numpy())), [-1, 1], rtol=1e-6)
    v = vectors.to_numpy()
    np.testing.assert_allclose(turn @ v, v * values.to_numpy(), atol=1e-6)
