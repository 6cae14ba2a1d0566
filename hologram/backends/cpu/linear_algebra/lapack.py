"""What LAPACK computes, on stacks of matrices (batch, rows, columns) that lie in order; results are written in place.

NumPy's functions go through a stack in C, SciPy's take a matrix at a time (one_by_one.py) and let LAPACK work in larger
blocks. So SciPy's, where that is installed, take large matrices and small stacks, NumPy's the rest. NumPy raises for a
stack if one matrix of it fails: then each is taken alone. What fails is filled with NaN, and its code told in `info`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from hologram.backends.cpu.linear_algebra import one_by_one

Array = np.ndarray
Function = Callable[..., None]

BLOCK = 64  # rows that are substituted at once
LONG = 24  # rows up to which matrices are solved together with the others of their stack
FEW = 4  # matrices, of any size, that are taken one by one
LARGE = 20  # rows or columns of matrices that are, however many
_AT_ONCE = 1 << 24  # work of the matrices given to NumPy at once
_CALL = 1 << 10  # what each of them costs beside n^3


def _alone(x: Array) -> bool:
    """Whether the matrices of a stack are taken one by one, by SciPy."""
    batch, *sizes = x.shape
    return one_by_one.here() and bool(x.size) and (batch <= FEW or max(sizes) >= LARGE)


def _one_by_one(
    name: str, operands: Sequence[Array], results: Sequence[Array], info: Array | None = None, **flags: bool
) -> None:
    """SciPy's function for each matrix of a stack."""
    function = getattr(one_by_one, name)
    arrays = (*operands, *results)
    for k in range(len(operands[0])):
        code = function(*[x[k, ...] for x in arrays], **flags)
        if info is not None:
            info[k] = code
            if code:
                for result in results:
                    result[k] = np.nan


def _each(
    function: Callable[..., Any],
    operands: Sequence[Array],
    results: Sequence[Array],
    info: Array | None = None,
) -> None:
    """A function of a stack, of some matrices at a time: between them interrupts are heard."""
    batch, *sizes = operands[0].shape
    count = max(1, _AT_ONCE // (max(sizes) ** 3 + _CALL))
    for first in range(0, batch, count):
        some = slice(first, first + count)
        now = [x[some] for x in operands], [x[some] for x in results]
        if info is None:
            _store(function(*now[0]), now[1])
        else:
            _some(function, *now, info[some])


def _some(
    function: Callable[..., Any], operands: Sequence[Array], results: Sequence[Array], info: Array
) -> None:
    """A function of a stack that may fail for some of its matrices."""
    info[...] = 0
    try:
        made = function(*operands)
    except LinAlgError:
        pass
    else:
        _store(made, results)
        return
    for k in range(info.size):
        try:
            made = function(*(x[k] for x in operands))
        except LinAlgError:
            info[k] = 1
            for result in results:
                result[k] = np.nan
        else:
            _store(made, [r[k] for r in results])


def _store(made: Any, results: Sequence[Array]) -> None:
    for value, result in zip(made if isinstance(made, tuple) else (made,), results, strict=True):
        result[...] = value


def cholesky(x: Array, factor: Array, info: Array, upper: bool) -> None:
    if _alone(x):
        _one_by_one("cholesky", [x], [factor], info, upper=upper)
        return
    _each(lambda a: np.linalg.cholesky(a, upper=upper), [x], [factor], info)
    for k in np.flatnonzero(info):
        info[k] = _indefinite(x[k].T if upper else x[k])


def _indefinite(x: Array) -> int:
    """The order, from 1 on, of the first leading matrix that is not positive definite."""
    low, high = 0, x.shape[0]  # the first is positive definite, the last is not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            np.linalg.cholesky(x[:middle, :middle])
            low = middle
        except LinAlgError:
            high = middle
    return high


def triangular(a: Array, b: Array, x: Array, upper: bool, unit: bool) -> None:
    batch, n, _ = a.shape
    if upper:  # turned round, an upper triangle is a lower one
        a, b, x = a[:, ::-1, ::-1], b[:, ::-1], x[:, ::-1]
    if batch > 1 and n <= LONG:
        _substituted(a, b, x, unit)
        return
    for k in range(batch):
        if not one_by_one.here():
            _by_blocks(a[k], b[k], x[k], unit)
        elif x[k].size:
            one_by_one.triangular(a[k], b[k], x[k], unit)


def _substituted(a: Array, b: Array, x: Array, unit: bool) -> None:
    """Row by row, for all matrices of a stack together."""
    with np.errstate(all="ignore"):
        for i in range(a.shape[1]):
            rest = b[:, i] - np.matmul(a[:, i, None, :i], x[:, :i])[:, 0]
            x[:, i] = rest if unit else rest / a[:, i, i, None]


def _by_blocks(a: Array, b: Array, x: Array, unit: bool) -> None:
    for first in range(0, a.shape[0], BLOCK):
        last = first + BLOCK
        rest = b[first:last] - a[first:last, :first] @ x[:first]
        _substituted(a[None, first:last, first:last], rest[None], x[None, first:last], unit)


def lu(x: Array, factors: Array, pivots: Array, info: Array) -> None:
    info[...] = 0
    if len(x) > FEW and max(x.shape[1:]) < LARGE:
        _lu_together(x, factors, pivots, info)
        return
    for k in range(len(x) if x.size else 0):
        info[k] = one_by_one.lu(x[k], factors[k], pivots[k])


def _lu_together(x: Array, factors: Array, pivots: Array, info: Array) -> None:
    """Column by column, for all matrices of a stack together."""
    factors[...] = x
    every = np.arange(len(x))
    with np.errstate(all="ignore"):
        for k in range(pivots.shape[1]):
            rows = k + np.argmax(np.abs(factors[:, k:, k]), axis=1)
            pivots[:, k] = rows
            upper = factors[every, rows]
            factors[every, rows] = factors[:, k]
            factors[:, k] = upper
            pivot = upper[:, k]
            info[(pivot == 0) & (info == 0)] = k + 1
            below = factors[:, k + 1 :, k]
            below /= np.where(pivot == 0, 1, pivot)[:, None]
            factors[:, k + 1 :, k + 1 :] -= below[:, :, None] * upper[:, None, k + 1 :]


def lu_solve(factors: Array, pivots: Array, b: Array, x: Array, adjoint: bool) -> None:
    if len(b) <= FEW or max(factors.shape[1:]) >= LARGE:
        for k in range(len(b) if x.size else 0):
            one_by_one.lu_solve(factors[k], pivots[k], b[k], x[k], adjoint)
        return
    every, across = np.arange(len(b)), factors.swapaxes(1, 2)
    x[...] = b
    if not adjoint:
        _exchange(x, pivots, every, range(pivots.shape[1]))
        _substituted(factors, x, x, True)
        _substituted(factors[:, ::-1, ::-1], x[:, ::-1], x[:, ::-1], False)
    else:
        _substituted(across, x, x, False)
        _substituted(across[:, ::-1, ::-1], x[:, ::-1], x[:, ::-1], True)
        _exchange(x, pivots, every, reversed(range(pivots.shape[1])))


def _exchange(x: Array, pivots: Array, every: Array, columns: Iterable[int]) -> None:
    for k in columns:
        rows = pivots[:, k]
        taken = x[every, rows]
        x[every, rows] = x[:, k]
        x[:, k] = taken


def _first_zero(a: Array) -> int:
    """The first pivot that is 0, from 1 on, of a singular matrix."""
    code = one_by_one.lu(a, np.empty_like(a), np.empty(len(a), np.int32)) if one_by_one.here() else 0
    return code or len(a)


def _solved(a: Array, b: Array) -> Array:
    return np.linalg.solve(a, b)


def solve(a: Array, b: Array, x: Array, info: Array) -> None:
    if _alone(a) and x.size:
        _one_by_one("solve", [a, b], [x], info)
        return
    _each(_solved, [a, b], [x], info)
    for k in np.flatnonzero(info):
        info[k] = _first_zero(a[k])


def inverse(x: Array, inverse: Array, info: Array) -> None:
    if _alone(x):
        _one_by_one("inverse", [x], [inverse], info)
    else:
        _each(np.linalg.inv, [x], [inverse], info)
    for k in np.flatnonzero(info):
        info[k] = _first_zero(x[k])


def det(x: Array, determinant: Array) -> None:
    with np.errstate(all="ignore"):
        if _alone(x):
            _one_by_one("det", [x], [determinant])
        else:
            _each(np.linalg.det, [x], [determinant])


def slogdet(x: Array, sign: Array, logarithm: Array) -> None:
    with np.errstate(all="ignore"):
        if _alone(x):
            _one_by_one("slogdet", [x], [sign, logarithm])
        else:
            _each(np.linalg.slogdet, [x], [sign, logarithm])


def qr(x: Array, q: Array, r: Array, complete: bool) -> None:
    if _alone(x):
        _one_by_one("qr", [x], [q, r], complete=complete)
    else:
        _each(lambda a: np.linalg.qr(a, mode="complete" if complete else "reduced"), [x], [q, r])


def eigh(x: Array, values: Array, vectors: Array, info: Array, upper: bool) -> None:
    x, bad = _finite(x, np.triu if upper else np.tril)
    if _alone(x):
        _one_by_one("eigh", [x], [values, vectors], info, upper=upper)
    else:
        _each(lambda a: tuple(np.linalg.eigh(a, UPLO="U" if upper else "L")), [x], [values, vectors], info)
    info[bad], values[bad], vectors[bad] = 1, np.nan, np.nan


def eigvalsh(x: Array, values: Array, info: Array, upper: bool) -> None:
    x, bad = _finite(x, np.triu if upper else np.tril)
    if _alone(x):
        _one_by_one("eigvalsh", [x], [values], info, upper=upper)
    else:
        _each(lambda a: np.linalg.eigvalsh(a, UPLO="U" if upper else "L"), [x], [values], info)
    info[bad], values[bad] = 1, np.nan


def _finite(x: Array, part: Callable[[Array], Array] = np.asarray) -> tuple[Array, Array]:
    """x with zeros for the matrices of which a part is not finite, and their numbers.

    Of those LAPACK, and NumPy with it, has an error, NaN, or finite values that are none, or it never returns.
    """
    if np.isfinite(x).all():
        return x, np.empty(0, np.intp)
    bad = np.flatnonzero(~np.isfinite(part(x)).all((1, 2)))
    held = x.copy()
    held[bad] = 0
    return held, bad


def svd(x: Array, u: Array, s: Array, vh: Array, info: Array, full: bool) -> None:
    x, bad = _finite(x)
    if _alone(x):
        _one_by_one("svd", [x], [u, s, vh], info, full=full)
    else:
        _each(lambda a: tuple(np.linalg.svd(a, full_matrices=full)), [x], [u, s, vh], info)
    info[bad], u[bad], s[bad], vh[bad] = 1, np.nan, np.nan, np.nan


def svdvals(x: Array, s: Array, info: Array) -> None:
    x, bad = _finite(x)
    if _alone(x):
        _one_by_one("svdvals", [x], [s], info)
    else:
        _each(lambda a: np.linalg.svd(a, compute_uv=False), [x], [s], info)
    info[bad], s[bad] = 1, np.nan


def _apart(x: Array) -> tuple[Array, ...]:
    return tuple(part for found in np.linalg.eig(x) for part in (np.real(found), np.imag(found)))


def eig(
    x: Array, real: Array, imaginary: Array, real_vectors: Array, imaginary_vectors: Array, info: Array
) -> None:
    _each(_apart, [x], [real, imaginary, real_vectors, imaginary_vectors], info)


FUNCTIONS: dict[str, Function] = {
    f.__name__: f
    for f in (
        cholesky,
        triangular,
        lu,
        lu_solve,
        solve,
        inverse,
        det,
        slogdet,
        qr,
        eigh,
        eigvalsh,
        svd,
        svdvals,
        eig,
    )
}
