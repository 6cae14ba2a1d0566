"""QR, eigenvalues and singular values by programs: what GPUs run where the CPU backend calls LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset.linear_algebra.jacobi import MOST, blocks_of
from tests.frontend.linear_algebra.cases import general, strided
from tests.frontend.linear_algebra.test_blocks import alone

pytestmark = pytest.mark.sampled(16)

__all__ = ["alone"]
linalg = hg.linalg
DTYPES = ("f32", "f64", "c64", "c128")
SQUARE = [
    (1, 1),
    (2, 2),
    (5, 5),
    (2, 3, 4, 4),
    (64, 64),
    (65, 65),
    (2, 66, 66),
    (97, 97),
    (0, 3, 3),
    (0, 0),
]
SHAPES = [*SQUARE, (5, 3), (3, 5), (2, 7, 4), (70, 17), (17, 70), (1, 6), (6, 1), (90, 70), (0, 3), (2, 3, 0)]
MAKES = pytest.mark.parametrize("make", [hg.Executor.tensor, strided], ids=["contiguous", "strided"])
KINDS = pytest.mark.parametrize("dtype", DTYPES)
ULPS = 24  # of the largest value: the worst seen is 10


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def lacks(executor: hg.Executor, dtype: str) -> bool:
    """Whether the device has no such numbers, and says so."""
    kind = hg.dtypes.dtype(dtype)
    if kind in executor.limits.dtypes:
        return False
    with pytest.raises(hg.UnsupportedDType, match=dtype):
        executor.tensor(np.zeros(2, kind.numpy))
    return True


def given(executor: hg.Executor, make: Any, x: np.ndarray, dtype: str) -> tuple[hg.Tensor, np.ndarray]:
    """A tensor, with an imaginary part where the dtype has one, and what it holds in double precision."""
    kind = hg.dtypes.dtype(dtype)
    if kind.is_complex:
        x = x + 1j * general(x.shape, 7)
    kept = x.astype(kind.numpy)
    return make(executor, kept), kept.astype(np.complex128 if kind.is_complex else np.float64)


def ulps(found: np.ndarray, wanted: np.ndarray, dtype: str, largest: float = 0.0) -> float:
    """The largest error, over an epsilon of the largest value."""
    assert found.shape == wanted.shape
    scale = max(largest, float(np.max(np.abs(wanted), initial=0.0))) or 1.0
    return float(np.max(np.abs(found - wanted), initial=0.0)) / scale / np.finfo(found.dtype).eps


def unitary(x: np.ndarray) -> float:
    square = adjoint(x) @ x
    return ulps(square, np.broadcast_to(np.eye(x.shape[-1]), square.shape), "f32")


def checked_eigh(x: hg.Tensor, held: np.ndarray, upper: bool = False) -> None:
    values, vectors = (f.to_numpy() for f in linalg.eigh(x, UPLO="U" if upper else "L"))
    wanted = np.linalg.eigvalsh(held, UPLO="U" if upper else "L")
    largest = float(np.max(np.abs(wanted), initial=0.0))
    assert ulps(values, wanted, x.dtype.name) <= ULPS
    assert ulps(linalg.eigvalsh(x, UPLO="U" if upper else "L").to_numpy(), wanted, x.dtype.name) <= ULPS
    assert np.all(np.diff(values) >= 0)
    assert unitary(vectors) <= ULPS
    one = np.triu(held, 1) if upper else np.tril(held, -1)
    images = (one + adjoint(one) + np.real(held * np.eye(held.shape[-1]))) @ vectors
    left = np.max(np.abs(images - vectors * values[..., None, :].astype(held.dtype)), initial=0.0)
    assert left <= ULPS * largest * float(np.finfo(values.dtype).eps)


def checked_svd(x: hg.Tensor, held: np.ndarray, full: bool = False) -> None:
    u, s, vh = (f.to_numpy() for f in linalg.svd(x, full_matrices=full))
    wanted = np.linalg.svd(held, full_matrices=full)
    assert (u.shape, vh.shape) == (wanted.U.shape, wanted.Vh.shape)
    assert ulps(s, wanted.S, x.dtype.name) <= ULPS
    assert ulps(linalg.svdvals(x).to_numpy(), wanted.S, x.dtype.name) <= ULPS
    assert np.all(np.diff(s) <= 0)
    assert np.all(s >= 0)
    assert max(unitary(u), unitary(adjoint(vh))) <= ULPS
    width, largest = s.shape[-1], float(np.max(wanted.S, initial=0.0))
    product = (u[..., :width] * s[..., None, :]).astype(held.dtype) @ vh[..., :width, :]
    assert np.max(np.abs(product - held), initial=0.0) <= ULPS * largest * float(np.finfo(s.dtype).eps)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(alone: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, mode: Any) -> None:
    if lacks(alone, dtype):
        return
    x, held = given(alone, make, general(shape), dtype)
    q, r = (f.to_numpy() for f in linalg.qr(x, mode=mode))
    wanted = np.linalg.qr(held, mode=mode)
    assert (q.shape, r.shape) == (wanted.Q.shape, wanted.R.shape)
    assert unitary(q) <= ULPS
    largest = float(np.max(np.linalg.norm(held, axis=(-2, -1)), initial=0.0)) if held.size else 1.0
    assert ulps((q.astype(held.dtype) @ r).astype(q.dtype), held, dtype, largest) <= ULPS
    np.testing.assert_array_equal(np.tril(r, -1), 0)


@KINDS
@MAKES
@pytest.mark.parametrize("shape", SQUARE, ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_eigh(alone: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, upper: bool) -> None:
    if not lacks(alone, dtype):
        checked_eigh(*given(alone, make, general(shape), dtype), upper)  # whose other triangle is not read


@KINDS
@MAKES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_svd(alone: hg.Executor, make: Any, shape: tuple[int, ...], dtype: str, full: bool) -> None:
    if not lacks(alone, dtype):
        checked_svd(*given(alone, make, general(shape), dtype), full)


VALUES = {
    "zeros": lambda n: np.zeros(n),
    "ones": lambda n: np.ones(n),
    "two that repeat": lambda n: np.where(np.arange(n) % 3 == 0, 1.0, -2.0),
    "rank 3": lambda n: np.where(np.arange(n) < 3, np.arange(n) + 1.0, 0.0),
    "graded": lambda n: 10.0 ** -np.linspace(0, 12, n),
    "clusters": lambda n: 1.0 + (np.arange(n) % 2) + 1e-5 * np.arange(n),
    "huge": lambda n: 1e30 * (1 + np.arange(n)),
    "tiny": lambda n: 1e-30 * (1 + np.arange(n)),
}


@KINDS
@pytest.mark.parametrize("n", [9, 20, 71])
@pytest.mark.parametrize("name", VALUES)
def test_values_that_are_hard(alone: hg.Executor, name: str, n: int, dtype: str) -> None:
    """Zero, equal, graded and clustered values, and such whose squares are no numbers: vectors stay orthonormal."""
    left, _ = np.linalg.qr(general((n, n), 1))
    right, _ = np.linalg.qr(general((n, n), 2))
    values = VALUES[name](n)
    kind = hg.dtypes.dtype(dtype)
    if lacks(alone, dtype):
        return
    for made, check in ((left * values @ left.T, checked_eigh), (left * values @ right.T, checked_svd)):
        kept = (made * (1j if kind.is_complex and check is checked_svd else 1)).astype(kind.numpy)
        wide = kept.astype(np.complex128 if kind.is_complex else np.float64)
        check(alone.tensor(kept), wide)
        q, r = (f.to_numpy() for f in linalg.qr(alone.tensor(kept)))
        assert unitary(q) <= ULPS
        assert ulps((q.astype(wide.dtype) @ r).astype(kind.numpy), wide, dtype) <= ULPS * 2


@KINDS
@pytest.mark.parametrize("shape", [(33, 33), (70, 40), (17, 9)], ids=str)
def test_columns_that_are_equal(alone: hg.Executor, shape: tuple[int, int], dtype: str) -> None:
    """Of what is left of them nothing but rounding remains, ever smaller: squares of it are no numbers."""
    if lacks(alone, dtype):
        return
    kind = hg.dtypes.dtype(dtype)
    column = general((shape[0], 1)) + (1j * general((shape[0], 1), 7) if kind.is_complex else 0)
    kept = np.repeat(column, shape[1], 1).astype(kind.numpy)
    x, held = alone.tensor(kept), kept.astype(np.complex128 if kind.is_complex else np.float64)
    q, r = (f.to_numpy() for f in linalg.qr(x))
    assert unitary(q) <= ULPS
    largest = float(np.linalg.norm(held))
    assert ulps((q.astype(held.dtype) @ r).astype(q.dtype), held, dtype, largest) <= ULPS
    checked_svd(x, held)


def test_rank_deficient(alone: hg.Executor) -> None:
    low = (general((6, 2)) @ general((2, 5), 1)).astype(np.float32)
    x = alone.tensor(low)
    assert int(linalg.matrix_rank(x)) == 2
    np.testing.assert_allclose(linalg.pinv(x).to_numpy(), np.linalg.pinv(low, rcond=1e-6), atol=1e-5)
    found = linalg.lstsq(x, alone.tensor(np.ones(6, np.float32)))
    np.testing.assert_allclose(found.x.to_numpy(), np.linalg.lstsq(low, np.ones(6), rcond=1e-6)[0], atol=1e-5)


@pytest.mark.parametrize("n", [3, 70])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(alone: hg.Executor, n: int, bad: float) -> None:
    """It is told, in the matrix where it is; nothing runs on."""
    x = general((2, n, n)).astype(np.float32)
    x[1, n - 1, 0] = bad
    tensor = alone.tensor(x)
    for call in (linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals, linalg.pinv):
        with pytest.raises(hg.LinAlgError, match="matrix 1 of the batch has NaN or infinite elements"):
            call(tensor)
    values, vectors = hg.jit(lambda t: tuple(linalg.eigh(t)))(tensor)
    assert np.all(np.isfinite(vectors.to_numpy()[0]))
    assert np.all(np.isnan(vectors.to_numpy()[1]))
    assert np.all(np.isnan(values.to_numpy()[1]))
    q = linalg.qr(tensor).Q.to_numpy()
    assert np.all(np.isfinite(q[0]))
    assert np.any(np.isnan(q[1]))


def test_jitted(alone: hg.Executor) -> None:
    x = general((2, 6, 4)).astype(np.float32)

    @hg.jit
    def parts(x: hg.Tensor) -> Any:
        u, s, vh = linalg.svd(x, full_matrices=False)
        return (u * s[..., None, :]) @ vh, linalg.eigvalsh(x.mT @ x), hg.abs(linalg.qr(x).R)

    back, values, r = (f.to_numpy() for f in parts(alone.tensor(x)))
    np.testing.assert_allclose(back, x, atol=1e-5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x.swapaxes(-1, -2) @ x), atol=1e-5)
    np.testing.assert_allclose(r, np.abs(np.linalg.qr(x).R), atol=1e-5)


def test_gradients(alone: hg.Executor) -> None:
    """The nuclear norm's is U V^H, an eigenvalue's v v^H, log |det R|'s the inverse, turned."""
    x = general((70, 70)).astype(np.float32)
    tensor, wide = alone.tensor(x), x.astype(np.float64)
    u, _, vh = np.linalg.svd(wide)
    got = hg.grad(lambda t: hg.sum(linalg.svdvals(t)))(tensor).to_numpy()
    np.testing.assert_allclose(got, u @ vh, atol=2e-4)  # what is left of the smallest value's vectors
    got = hg.grad(lambda t: linalg.eigvalsh(t + t.mT)[-1])(tensor).to_numpy()
    v = np.linalg.eigh(wide + wide.T)[1][:, -1:]
    np.testing.assert_allclose(got, 2 * v @ v.T, atol=1e-4)
    small = general((5, 5)).astype(np.float32)
    got = hg.grad(lambda t: hg.sum(hg.log(hg.abs(linalg.diagonal(linalg.qr(t).R)))))(alone.tensor(small))
    np.testing.assert_allclose(got.to_numpy(), np.linalg.inv(small.astype(np.float64)).T, atol=1e-3)


def test_blocks_hold_all_columns() -> None:
    for n in range(MOST + 1, 1500):
        blocks, block = blocks_of(n)
        assert blocks % 2 == 0
        assert 2 * block <= MOST
        assert n <= blocks * block < n + blocks
