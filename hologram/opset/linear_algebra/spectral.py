"""Orthogonal factors: QR, eigenvectors, singular values.

Derivatives are those of Townsend 2016, "Differentiating the singular value decomposition", and Roberts and Roberts
2020, "QR and LQ decomposition matrix backpropagation algorithms". Where two eigenvalues, or two singular values, are
equal, their vectors are not unique and have no derivative: it is NaN, but for what depends on the values alone.
"""

from __future__ import annotations

import math
from typing import Any

from hologram.foundation.errors import GradientError
from hologram.opset.arrange import tril
from hologram.opset.complex_numbers import conjugated
from hologram.opset.creation import eye
from hologram.opset.linear_algebra.factorisation import factored, square
from hologram.opset.linear_algebra.householder import qr_steps
from hologram.opset.linear_algebra.small import jacobi, singular
from hologram.opset.linear_algebra.small import qr as householder
from hologram.opset.linear_algebra.spectral_blocks import eigh_steps, svd_steps, svdvals_steps
from hologram.opset.linear_algebra.triangular import adjoint, solve_triangular, symmetric
from hologram.opset.logic import equal, logical_and, logical_or, where
from hologram.opset.matmul import matmul
from hologram.opset.movement import concat


def _qr_shapes(x, complete=False):
    *batch, rows, columns = x
    width = rows if complete else min(rows, columns)
    return {"q": (*batch, rows, width), "r": (*batch, width, columns)}


def _qr_gradient(cotangents, results, inputs, complete):
    q, r = results
    towards_q, towards_r = cotangents
    rows, columns = inputs[0].shape[-2:]
    if complete and rows > columns:
        raise GradientError(
            f"linalg.qr: complete factors of {rows} x {columns} matrices have no derivative, for their last columns "
            "are not unique: use mode='reduced'"
        )
    if rows >= columns:
        return _square_qr(q, r, towards_q, towards_r)
    # x = [a b], r = [u v]: the factors are those of a, and v is q^H b.
    left, right = r[..., :rows], r[..., rows:]
    u, v = towards_r[..., :rows], towards_r[..., rows:]
    through = matmul(matmul(q, right), adjoint(v))  # b v^H
    first = _square_qr(q, left, towards_q + through, u)
    return concat([first, matmul(q, v)], axis=-1)


def _square_qr(q: Any, r: Any, towards_q: Any, towards_r: Any) -> Any:
    """Of as many rows as columns, or more."""
    inner = matmul(r, adjoint(towards_r)) - matmul(adjoint(towards_q), q)
    if inner.dtype.is_complex:  # the diagonal of R is real
        inner = inner - 0.5 * diagonal_matrix(diagonal(inner) - conjugated(diagonal(inner)))
    lower = tril(inner) + adjoint(tril(inner, k=-1))
    flow = towards_q + matmul(q, lower)
    return solve_triangular(conjugated(r), flow.mT, upper=True).mT


@factored(
    "qr", shapes=_qr_shapes, blocks=qr_steps, small=householder.qr, sooner=4, gradient={"x": _qr_gradient}
)
def qr(x, *, complete=False):
    """Q with orthonormal columns and the upper triangular R with Q R = x; all rows of them where `complete`."""


def _vector_shapes(who, *names):
    def shapes(x, upper=False):
        n = square(who, x)
        known = {"values": (*x[:-2], n), "vectors": x, "info": x[:-2]}
        return {name: known[name] for name in names}

    return shapes


def _over_differences(flow: Any, values: Any) -> Any:
    """flow / (values[j] - values[i]), 0 on the diagonal; NaN where values are equal, unless nothing flows there."""
    apart = values[..., None, :] - values[..., :, None]
    same = equal(apart, 0.0)
    diagonal = eye(values.executor, values.shape[-1], dtype="bool")
    quotient = flow / where(same, 1.0, apart)
    return where(
        logical_or(diagonal, logical_and(same, equal(flow, 0.0))), 0.0, where(same, math.nan, quotient)
    )


def _eigh_gradient(cotangents, results):
    values, vectors = results[0], results[1]
    towards_values, towards_vectors = cotangents
    inner = _over_differences(matmul(adjoint(vectors), towards_vectors), values)
    inner = inner + diagonal_matrix(towards_values)
    return symmetric(matmul(matmul(vectors, inner), adjoint(vectors)))


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    return (x * eye(x.executor, x.shape[-1], dtype=x.dtype)).sum(axis=-1)


def diagonal_matrix(x: Any) -> Any:
    """Matrices with x on the diagonal."""
    n = x.shape[-1]
    return x[..., None] * eye(x.executor, n, dtype=x.dtype)


@factored(
    "eigh", shapes=_vector_shapes("linalg.eigh", "values", "vectors", "info"), blocks=eigh_steps,
    small=jacobi.eigh, gradient={"x": _eigh_gradient},
)  # fmt: skip
def eigh(x, *, upper=False):
    """Eigenvalues of Hermitian matrices, in ascending order, and orthonormal eigenvectors, as columns.

    One triangle is read; the derivative is that of a Hermitian matrix. `info` is not 0 where LAPACK found none.
    """


def _eigvalsh_gradient(cotangents, x, upper):
    vectors = eigh(x, upper=upper)[1]
    return matmul(vectors * cotangents[0][..., None, :], adjoint(vectors))


@factored("eigvalsh", shapes=_vector_shapes("linalg.eigvalsh", "values", "info"), blocks=eigh_steps,
          small=jacobi.eigvalsh, gradient={"x": _eigvalsh_gradient})  # fmt: skip
def eigvalsh(x, *, upper=False):
    """Eigenvalues of Hermitian matrices, in ascending order; see eigh."""


def _svd_shapes(x, full=False):
    *batch, rows, columns = x
    width = min(rows, columns)
    u, v = (rows, columns) if full else (width, width)
    return {"u": (*batch, rows, u), "s": (*batch, width), "vh": (*batch, v, columns), "info": tuple(batch)}


def _svd_gradient(cotangents, results, inputs, full):
    u, s, vh = results[:3]
    towards_u, towards_s, towards_vh = cotangents
    rows, columns = inputs[0].shape[-2:]
    if full and rows != columns:
        raise GradientError(
            f"linalg.svd: full factors of {rows} x {columns} matrices have no derivative, for their last vectors are "
            "not unique: use full_matrices=False"
        )
    ut_u, vt_v = matmul(adjoint(u), towards_u), matmul(vh, adjoint(towards_vh))
    squares, row, column = s * s, s[..., None, :], s[..., :, None]
    inner = _over_differences(ut_u - adjoint(ut_u), squares) * row
    inner = inner + column * _over_differences(vt_v - adjoint(vt_v), squares)
    none = equal(s, 0.0)
    inverse = where(none, 0.0, 1.0 / where(none, 1.0, s))
    along = towards_s
    if u.dtype.is_complex:  # a vector's phase turns with the other's
        along = along + 0.5 * diagonal(ut_u - adjoint(ut_u)) * inverse
    flow = matmul(matmul(u, inner + diagonal_matrix(along)), vh)
    if rows > columns:
        outside = towards_u - matmul(u, ut_u)
        flow = flow + matmul(outside * inverse[..., None, :], vh)
    if columns > rows:
        outside = towards_vh - matmul(adjoint(vt_v), vh)
        flow = flow + matmul(u, inverse[..., :, None] * outside)
    return flow


@factored("svd", shapes=_svd_shapes, blocks=svd_steps, small=singular.svd, gradient={"x": _svd_gradient})
def svd(x, *, full=False):
    """U, the singular values in descending order, and V^H with (U * s) V^H = x; all vectors of them where `full`."""


def _svdvals_shapes(x):
    return {"s": (*x[:-2], min(x[-2:])), "info": x[:-2]}


def _svdvals_gradient(cotangents, x):
    u, _, vh, _ = svd(x)
    return matmul(u * cotangents[0][..., None, :], vh)


@factored("svdvals", shapes=_svdvals_shapes, blocks=svdvals_steps, small=singular.svdvals,
          gradient={"x": _svdvals_gradient})  # fmt: skip
def svdvals(x):
    """The singular values in descending order."""


def _eig_shapes(x):
    n = square("linalg.eig", x)
    values = (*x[:-2], n)
    return {"real": values, "imaginary": values, "real_vectors": x, "imaginary_vectors": x, "info": x[:-2]}


@factored("eig", shapes=_eig_shapes)
def eig(x):
    """Eigenvalues, and eigenvectors as columns, of any square matrices: real and imaginary parts."""
