"""Matrices taken apart: Cholesky, QR, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram.opset.linear_algebra import spectral, triangular
from hologram_torch.aten.linear_algebra.declared import matrices, succeeded


def none(x: Tensor) -> Tensor:
    """In the place of a result that nobody asked for."""
    return x.executor.empty((0,), x.dtype)


@matrices("linalg_cholesky_ex", triangular.cholesky, checked="linalg.cholesky_ex")
def cholesky_ex(x: Tensor, upper: bool = False) -> Any:
    return triangular.cholesky(x, upper=upper)


@matrices("cholesky", triangular.cholesky)
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    factor, info = triangular.cholesky(x, upper=upper)
    succeeded(info, "cholesky", x.ndim)
    return factor


@matrices("linalg_qr", spectral.qr)
def qr(x: Tensor, mode: str = "reduced") -> Any:
    q, r = spectral.qr(x, complete=mode == "complete")
    return none(x) if mode == "r" else q, r


@matrices("_linalg_eigh", spectral.eigh)
def eigh(x: Tensor, uplo: str = "L", vectors: bool = True) -> Any:
    upper = uplo.upper() == "U"
    if vectors:
        values, found, info = spectral.eigh(x, upper=upper)
    else:
        (values, info), found = spectral.eigvalsh(x, upper=upper), none(x)
    succeeded(info, "linalg.eigh", x.ndim)
    return values, found


@matrices("_linalg_svd", spectral.svd)
def svd(x: Tensor, full_matrices: bool = False, vectors: bool = True) -> Any:
    if vectors:
        u, s, vh, info = spectral.svd(x, full=full_matrices)
    else:
        (s, info), u, vh = spectral.svdvals(x), none(x), none(x)
    succeeded(info, "linalg.svd", x.ndim)
    return u, s, vh


@matrices("linalg_eig", spectral.eig, complex_results=True)
def eig(x: Tensor) -> Any:
    values, imaginary, vectors, imaginary_vectors, info = spectral.eig(x)
    succeeded(info, "torch.linalg.eig", x.ndim)
    return hg.complex(values, imaginary), hg.complex(vectors, imaginary_vectors)


@matrices("_linalg_eigvals", spectral.eig, complex_results=True)
def eigvals(x: Tensor) -> Any:
    return eig(x)[0]
