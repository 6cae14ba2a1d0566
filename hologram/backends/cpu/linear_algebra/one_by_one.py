"""What SciPy's LAPACK computes, matrix by matrix: without copies where it can, and with all of its blocks.

A matrix in order is its transpose in Fortran's order, so `x.T` is what LAPACK is given, where that makes no difference
to what it finds, or one that is easily mended: the transpose of a Hermitian matrix is its conjugate. A function takes
one matrix of each operand and result, and gives LAPACK's code.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # of LAPACK, by NumPy's
BLOCKS = 64  # columns that LAPACK has room for at once, in work memory


@lru_cache(maxsize=1)
def here() -> bool:
    """Whether SciPy is installed, which is not required."""
    return importlib.util.find_spec("scipy") is not None


@lru_cache(maxsize=64)
def routine(module: str, name: str, kind: str) -> Any:
    """A routine of SciPy's for a dtype, by NumPy's letter for that."""
    functions = importlib.import_module(f"scipy.linalg.{module}")
    return getattr(functions, LETTERS[kind] + name)


def _lapack(name: str, x: Array, complex_name: str = "") -> Any:
    """A routine for x's dtype; some have another name for complex numbers."""
    kind = x.dtype.char
    return routine("lapack", complex_name if complex_name and kind.isupper() else name, kind)


def cholesky(x: Array, factor: Array, upper: bool) -> int:
    factor[...] = x
    given = factor.T
    made, code = _lapack("potrf", x)(given, lower=int(upper), clean=1, overwrite_a=1)
    if made is not given:
        factor[...] = made.T
    return code


def triangular(a: Array, b: Array, x: Array, unit: bool) -> int:
    """Of a lower triangle: x^T a^T = b^T."""
    solved = routine("blas", "trsm", x.dtype.char)(
        1.0, np.ascontiguousarray(a).T, b.T, side=1, lower=0, diag=int(unit)
    )
    x[...] = solved.T
    return 0


def lu(x: Array, factors: Array, pivots: Array) -> int:
    factors[...], pivots[...], code = _lapack("getrf", x)(x)
    return code


def lu_solve(factors: Array, pivots: Array, b: Array, x: Array, adjoint: bool) -> int:
    """Not by getrs: OpenBLAS has all of its threads in it, however small the matrix."""
    order = list(range(len(b)))
    for k in range(len(b))[:: -1 if adjoint else 1]:
        row = pivots[k]
        order[k], order[row] = order[row], order[k]
    given = b if adjoint else b[order]
    for unit in (False, True) if adjoint else (True, False):  # of the transpose, U comes first
        given = routine("blas", "trsm", b.dtype.char)(
            1.0, factors.T, given, lower=int(not unit), trans_a=int(not adjoint), diag=int(unit)
        )
    x[...] = given[order] if adjoint else given
    return 0


def solve(a: Array, b: Array, x: Array) -> int:
    _, _, x[...], code = _lapack("gesv", a)(a, b)
    return code


def inverse(x: Array, inverse: Array) -> int:
    factors, pivots, code = _lapack("getrf", x)(x.T)
    if not code:
        made, code = _lapack("getri", x)(factors, pivots, lwork=BLOCKS * len(x), overwrite_lu=1)
        inverse[...] = made.T
    return code


def _diagonal(x: Array) -> tuple[Array, int]:
    """U's diagonal, in double precision, and the sign of the rows' exchanges."""
    factors, pivots, _ = _lapack("getrf", x)(x.T)
    odd = np.count_nonzero(pivots != np.arange(len(pivots))) % 2
    return np.diagonal(factors).astype(np.result_type(x.dtype, np.float64)), -1 if odd else 1


def det(x: Array, determinant: Array) -> int:
    diagonal, sign = _diagonal(x)
    determinant[...] = sign * np.prod(diagonal)
    return 0


def slogdet(x: Array, sign: Array, logarithm: Array) -> int:
    diagonal, exchanged = _diagonal(x)
    sign[...] = exchanged * np.prod(np.sign(diagonal))
    logarithm[...] = np.sum(np.log(np.abs(diagonal)))
    return 0


def qr(x: Array, q: Array, r: Array, complete: bool) -> int:
    rows, columns = x.shape
    width = min(rows, columns)
    work = BLOCKS * max(rows, columns)
    packed, scales, _, code = _lapack("geqrf", x)(x, lwork=work)
    r[...] = 0
    np.copyto(r[:width], packed[:width], where=_upper(width, columns))
    reflected = packed[:, :width]
    if complete:
        reflected = np.zeros((rows, rows), x.dtype, order="F")
        reflected[:, :width] = packed[:, :width]
    q[...], _, _ = _lapack("orgqr", x, "ungqr")(reflected, scales, lwork=work)
    return code


@lru_cache(maxsize=16)
def _upper(rows: int, columns: int) -> Array:
    """Which elements are not below the diagonal."""
    return np.arange(rows)[:, None] <= np.arange(columns)


def eigh(x: Array, values: Array, vectors: Array, upper: bool) -> int:
    values[...], found, code = _lapack("syevd", x, "heevd")(x.T, lower=int(upper))
    np.conjugate(found, out=vectors)
    return code


def eigvalsh(x: Array, values: Array, upper: bool) -> int:
    values[...], _, code = _lapack("syevd", x, "heevd")(x.T, lower=int(upper), compute_v=0)
    return code


def svd(x: Array, u: Array, s: Array, vh: Array, full: bool) -> int:
    """x^T = v s u^T: what is left there is right here."""
    right, s[...], left, code = _lapack("gesdd", x)(x.T, full_matrices=int(full), lwork=_room(x, 1, full))
    u[...], vh[...] = left.T, right.T
    return code


def svdvals(x: Array, s: Array) -> int:
    _, s[...], _, code = _lapack("gesdd", x)(x.T, compute_uv=0, lwork=_room(x, 0, False))
    return code


def _room(x: Array, vectors: int, full: bool) -> int:
    return _asked(x.dtype.char, *x.shape, vectors, int(full))


@lru_cache(maxsize=256)
def _asked(kind: str, rows: int, columns: int, vectors: int, full: int) -> int:
    """Elements of work memory, which LAPACK is asked for."""
    size, _ = routine("lapack", "gesdd_lwork", kind)(columns, rows, compute_uv=vectors, full_matrices=full)
    return int(np.nextafter(np.float32(np.real(size)), np.float32(np.inf)))
