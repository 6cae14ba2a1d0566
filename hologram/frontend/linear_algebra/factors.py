"""Matrices taken apart: Cholesky, QR, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

from hologram.foundation.errors import UnsupportedDType
from hologram.frontend.linear_algebra.operands import matrix, square, succeeded
from hologram.frontend.tensor import Tensor
from hologram.opset.linear_algebra import solving, spectral, triangular

NONE_FOUND = "has NaN or infinite elements, or the iteration did not converge"


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values, right vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class LUResult(NamedTuple):
    """L and U in one matrix, and with which row each was exchanged, in turn (i32, from 0 on)."""

    LU: Tensor
    pivots: Tensor


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L @ L.mT = x, or the upper U with U.mT @ U = x; of complex x with conjugates.

    Only that triangle of x is read, as NumPy does. Raises LinAlgError where x is not positive definite; in a traced
    function the factor is NaN there.
    """
    factor, info = triangular.cholesky(square("cholesky", x), upper=bool(upper))
    succeeded("cholesky", info, "is not positive definite: its leading matrix of order {code} is not")
    return factor


@overload
def qr(x: Any, /, mode: Literal["reduced", "complete"] = ...) -> QRResult: ...
@overload
def qr(x: Any, /, mode: str) -> Any: ...
def qr(x: Any, /, mode: str = "reduced") -> Any:
    """Q with orthonormal columns, and the upper triangular R with Q @ R = x.

    `mode` is 'reduced', 'complete' for a square Q, or 'r' for R alone. Complete factors of more rows than columns have
    no derivative.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    found = QRResult(*spectral.qr(matrix("qr", x), complete=mode == "complete"))
    return found.R if mode == "r" else found


def lu_factor(x: Any, /) -> LUResult:
    """The factors of x with its rows exchanged: L, below a diagonal of ones, and U. There is no derivative.

    Raises LinAlgError where a pivot is 0.
    """
    factors, pivots, info = solving.lu(matrix("lu_factor", x))
    succeeded("lu_factor", info, "is singular: pivot {code} is 0")
    return LUResult(factors, pivots)


def _symmetric(who: str, x: Any, triangle: str) -> tuple[Tensor, bool]:
    if triangle not in ("L", "U"):
        raise ValueError(f"linalg.{who}: UPLO must be 'L' or 'U', got {triangle!r}")
    return square(who, x), triangle == "U"


def eigh(x: Any, /, UPLO: str = "L") -> EighResult:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order, and orthonormal eigenvectors, as columns.

    Only the triangle that UPLO names is read. The derivative takes the matrix for Hermitian.
    """
    given, upper = _symmetric("eigh", x, UPLO)
    values, vectors, info = spectral.eigh(given, upper=upper)
    succeeded("eigh", info, NONE_FOUND)
    return EighResult(values, vectors)


def eigvalsh(x: Any, /, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order; see eigh."""
    given, upper = _symmetric("eigvalsh", x, UPLO)
    values, info = spectral.eigvalsh(given, upper=upper)
    succeeded("eigvalsh", info, NONE_FOUND)
    return values


@overload
def svd(
    x: Any, /, full_matrices: bool = ..., compute_uv: Literal[True] = ..., hermitian: bool = ...
) -> SVDResult: ...
@overload
def svd(
    x: Any, /, full_matrices: bool = ..., *, compute_uv: Literal[False], hermitian: bool = ...
) -> Tensor: ...
@overload
def svd(x: Any, /, full_matrices: bool, compute_uv: Literal[False], hermitian: bool = ...) -> Tensor: ...
def svd(x: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """U, the singular values S in descending order, and Vh with (U * S) @ Vh = x; S alone unless `compute_uv`.

    U and Vh are square unless `full_matrices` is false. Full factors of matrices that are not square have no
    derivative. Nothing depends on `hermitian`, which tells NumPy of a shorter way.
    """
    if not compute_uv:
        return svdvals(x)
    u, s, vh, info = spectral.svd(matrix("svd", x), full=bool(full_matrices))
    succeeded("svd", info, NONE_FOUND)
    return SVDResult(u, s, vh)


def svdvals(x: Any, /) -> Tensor:
    """The singular values in descending order."""
    s, info = spectral.svdvals(matrix("svdvals", x))
    succeeded("svdvals", info, NONE_FOUND)
    return s


def eig(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors, as columns, of square matrices, which need not be symmetric.

    They are real where all of them are, else complex, as in NumPy: so it waits, and cannot be traced. There is no
    derivative. Raises UnsupportedDType for complex ones on a device without complex numbers.
    """
    given = square("eig", x)
    real, imaginary, real_vectors, imaginary_vectors, info = spectral.eig(given)
    succeeded("eig", info, NONE_FOUND)
    if not given.dtype.is_complex and not imaginary.to_numpy().any():
        return EighResult(real, real_vectors)
    return EighResult(_complex(real, imaginary), _complex(real_vectors, imaginary_vectors))


def eigvals(x: Any, /) -> Tensor:
    """Eigenvalues of square matrices, which need not be symmetric; see eig."""
    return eig(x).eigenvalues


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    try:
        return real.executor.tensor(real.to_numpy() + 1j * imaginary.to_numpy())
    except UnsupportedDType as error:
        raise UnsupportedDType(f"linalg.eig: the eigenvalues are complex: {error}") from error
