"""Matrices that the CPU takes apart by code of its own: values of all sizes and kinds, and who takes which matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.cpu.linear_algebra import compiled

KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64, np.complex128])
EPSILONS = 32.0  # that results may be off by, of the largest value


@pytest.fixture(scope="module")
def cpu() -> Iterator[hg.Executor]:
    """The CPU, its own code for the smallest matrices as well."""
    with pytest.MonkeyPatch.context() as patch, hg.Executor("cpu") as executor:
        patch.setattr(compiled, "LEAST", 0)
        yield executor


def random(kind: Any, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if issubclass(kind, np.complexfloating) else x + 0.0


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(x.swapaxes(-1, -2))


def hermitian(kind: Any, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Matrices that want care, each about 1 in size, and a power of 2 that it is multiplied by."""
    x = random(kind, n, n)
    x = (x + adjoint(x)) / 2
    q, _ = np.linalg.qr(x)
    falling = 10.0 ** -np.linspace(0, 12, n)
    yield "random", x
    yield "zero", 0 * x
    yield "diagonal", np.diag(np.diag(x))
    yield "graded", x * np.outer(falling, falling)
    yield "graded upwards", x[::-1, ::-1] * np.outer(falling, falling)[::-1, ::-1]
    yield "two values", q * np.where(np.arange(n) % 2, 1.0, -1.0) @ adjoint(q)
    yield "clustered", q * (1 + 1e-6 * np.arange(n)) @ adjoint(q)
    yield "rank one", np.outer(x[:, 0], np.conj(x[:, 0])) / n
    yield "second difference", np.diag(np.full(n, 2.0)) - np.eye(n, k=1) - np.eye(n, k=-1) + 0 * x


def off(found: np.ndarray, wanted: np.ndarray, kind: Any) -> float:
    """How far apart they are, in epsilons of the wanted's largest value, or of 1 where that is 0."""
    size = float(np.abs(wanted).max()) or 1.0
    return float(np.abs(found - wanted).max()) / size / np.finfo(kind).eps


@KINDS
@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("exponent", [0, -1, 1])
def test_spectra_and_reflections(cpu: hg.Executor, kind: Any, n: int, exponent: int) -> None:
    """Also of matrices near the largest and the smallest numbers."""
    power = exponent * (np.finfo(kind).maxexp - 10)
    factor = np.finfo(kind).dtype.type(2.0) ** power
    for name, x in hermitian(kind, n):
        given = (x.astype(kind) * factor).astype(kind)
        given = np.tril(given) + adjoint(np.tril(given, -1))
        wide = given.astype(np.complex128) * 2.0**-power
        values, vectors = (r.to_numpy() for r in hg.linalg.eigh(cpu.tensor(given)))
        scaled, v = values.astype(np.float64) * 2.0**-power, vectors.astype(np.complex128)
        assert off((v * scaled) @ adjoint(v), wide, kind) < EPSILONS, name
        assert off(adjoint(v) @ v, np.eye(n), kind) < EPSILONS, name
        assert off(scaled, np.linalg.eigvalsh(wide), kind) < EPSILONS, name
        assert np.all(np.diff(values) >= 0), name
        q, r = (z.to_numpy().astype(np.complex128) for z in hg.linalg.qr(cpu.tensor(given)))
        assert off(q @ (r * 2.0**-power), wide, kind) < EPSILONS, name
        assert off(adjoint(q) @ q, np.eye(n), kind) < EPSILONS, name
        u, s, vh = (z.to_numpy().astype(np.complex128) for z in hg.linalg.svd(cpu.tensor(given)))
        assert off((u * (s * 2.0**-power)) @ vh, wide, kind) < EPSILONS, name
        assert off(s * 2.0**-power, np.linalg.svd(wide).S, kind) < EPSILONS, name
        for z in (u, adjoint(vh)):
            assert off(adjoint(z) @ z, np.eye(n), kind) < EPSILONS, name


def of_low_rank(kind: Any, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Matrices of which little but roundings is left beside a few large eigenvalues, as statistics has them."""
    x = random(kind, n, 10)
    points = np.sort(random(np.float64, n))
    yield "ones", np.ones((n, n))
    yield "integers", np.outer(np.arange(n) % 5 - 2.0, np.arange(n) % 5 - 2.0)
    yield "covariance", x @ adjoint(x) / 10
    yield "projector", (lambda q: q @ adjoint(q))(np.linalg.qr(x)[0])
    yield "Gaussian kernel", np.exp(-(np.subtract.outer(points, points) ** 2))
    yield "squared distances", np.subtract.outer(points, points) ** 2


@KINDS
@pytest.mark.parametrize("n", [88, 150])
def test_matrices_of_low_rank(cpu: hg.Executor, kind: Any, n: int) -> None:
    for name, x in of_low_rank(kind, n):
        given = x.astype(kind)
        given = np.tril(given) + adjoint(np.tril(given, -1))
        wanted = np.linalg.eigvalsh(given.astype(np.complex128))
        values, vectors = (r.to_numpy() for r in hg.linalg.eigh(cpu.tensor(given)))
        assert off(values, wanted, kind) < EPSILONS, name
        assert off((vectors * values) @ adjoint(vectors), given, kind) < n, name
        assert off(hg.linalg.eigvalsh(cpu.tensor(given)).to_numpy(), wanted, kind) < EPSILONS, name
        assert off(hg.linalg.svd(cpu.tensor(given)).S.to_numpy(), np.sort(abs(wanted))[::-1], kind) < EPSILONS


@KINDS
def test_stacks_are_their_matrices(cpu: hg.Executor, kind: Any) -> None:
    """By several threads to the bit, with a matrix among them that fails."""
    x = random(kind, 40, 33, 33)
    square = (x @ adjoint(x) + 33 * np.eye(33)).astype(kind)
    calls = (hg.linalg.cholesky, hg.linalg.qr, hg.linalg.eigh, hg.linalg.svd)
    for call in (*calls, lambda t: hg.linalg.solve(t, t[..., :3])):
        whole, alone = call(cpu.tensor(square)), call(cpu.tensor(square[7]))
        pairs = zip(*((r,) if isinstance(r, hg.Tensor) else r for r in (whole, alone)), strict=True)
        for many, one in pairs:
            np.testing.assert_array_equal(many.to_numpy()[7], one.to_numpy())
    square[8] = 1
    with pytest.raises(hg.LinAlgError, match="matrix 8 of the batch is singular: pivot 2 is 0"):
        hg.linalg.solve(cpu.tensor(square), cpu.tensor(square))
    square[9] = -square[9]
    with pytest.raises(
        hg.LinAlgError, match=r"matrix 8 .*: its leading matrix of order 2 is not \(1 more of 40"
    ):
        hg.linalg.cholesky(cpu.tensor(square))


@KINDS
def test_tall_wide_and_complete(cpu: hg.Executor, kind: Any) -> None:
    for m, n in ((40, 7), (7, 40), (33, 16), (1, 9)):
        x = random(kind, 3, m, n).astype(kind)
        for mode in ("reduced", "complete"):
            q, r = (z.to_numpy() for z in hg.linalg.qr(cpu.tensor(x), mode=mode))
            assert off(q @ r, x, kind) < EPSILONS
            assert (
                off(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (3, *q.shape[-1:] * 2)), kind)
                < EPSILONS
            )
            assert not np.tril(r, -1).any()
            u, s, vh = (z.to_numpy() for z in hg.linalg.svd(cpu.tensor(x), full_matrices=mode == "complete"))
            k = s.shape[-1]
            assert off((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, kind) < EPSILONS
            for z in (u, adjoint(vh)):
                one = np.broadcast_to(np.eye(z.shape[-1]), (3, *z.shape[-1:] * 2))
                assert off(adjoint(z) @ z, one, kind) < EPSILONS


@KINDS
def test_diagonals_of_zeros(cpu: hg.Executor, kind: Any) -> None:
    """What is above a 0 of the bidiagonal form is turned away, wherever it is."""
    n = 12
    band = np.eye(n) + np.eye(n, k=1)
    for zeros in ([0], [n - 1], [5], [0, 4, n - 1], [3, 4], range(n)):
        x = band.copy()
        x[zeros, zeros] = 0
        given = x.astype(kind)
        u, s, vh = (z.to_numpy() for z in hg.linalg.svd(cpu.tensor(given)))
        assert off((u * s) @ vh, given, kind) < EPSILONS
        assert off(s, np.linalg.svd(x).S, kind) < EPSILONS
        for z in (u, adjoint(vh)):
            assert off(adjoint(z) @ z, np.eye(n), kind) < EPSILONS
    x = np.stack([np.eye(n), np.eye(n)])
    x[1, 3, 2] = np.inf
    with pytest.raises(hg.LinAlgError, match="matrix 1 of the batch has NaN or infinite elements"):
        hg.linalg.svd(cpu.tensor(x.astype(kind)))


@KINDS
def test_pivots_of_all_sizes(cpu: hg.Executor, kind: Any) -> None:
    """Whose reciprocals, or squares, are no numbers."""
    x = random(kind, 20, 20)
    for size in (np.finfo(kind).smallest_normal, np.finfo(kind).smallest_normal / 8, np.finfo(kind).max / 64):
        a = (x * np.finfo(kind).dtype.type(size / 8)).astype(kind)
        b = a[:, :3].copy()
        found = hg.linalg.solve(cpu.tensor(a), cpu.tensor(b)).to_numpy()
        # Of numbers below the smallest normal one few bits are left.
        bound = 1e-2 if size < np.finfo(kind).smallest_normal * 8 else 1e3 * np.finfo(kind).eps
        np.testing.assert_allclose(found, np.eye(20, 3), atol=bound)


def test_who_takes_what(cpu: hg.Executor) -> None:
    sizes = {"m": 64, "n": 64, "width": 64, "right": 0}
    assert all(compiled.taken(stem, 1, sizes) for stem in compiled.WAYS)
    for stem, way in compiled.WAYS.items():
        for name in ("m", "n", "right"):
            assert not compiled.taken(stem, 1, sizes | {name: way.most + 1})
        assert not compiled.taken(stem, 1, sizes | {"n": 0})
    assert not compiled.taken("inverse", 1, sizes)
    x = random(np.float64, 300, 300)
    q, r = hg.linalg.qr(cpu.tensor(x))  # by LAPACK
    assert off((q @ r).to_numpy(), x, np.float64) < EPSILONS
