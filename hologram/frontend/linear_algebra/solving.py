"""Systems of equations, inverses, determinants, and functions of matrices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import LinAlgError
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.gradient.transforms import custom_gradient, stop_gradient
from hologram.frontend.linear_algebra.factors import svd, svdvals
from hologram.frontend.linear_algebra.operands import matrices, matrix, square, succeeded
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import sequence
from hologram.machine.axes import normalize_axis, whole
from hologram.opset import creation, logic
from hologram.opset import math as arithmetic
from hologram.opset.complex_numbers import conjugated
from hologram.opset.linear_algebra import solving
from hologram.opset.linear_algebra import triangular as substitution
from hologram.opset.linear_algebra.triangular import adjoint
from hologram.opset.matmul import matmul
from hologram.runtime.dispatch import deferred

SINGULAR = "is singular: pivot {code} is 0"


class SlogdetResult(NamedTuple):
    """The determinant's sign, and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """The solution, sums of squares of what is left (none where the rank is not full), the rank, singular values."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    s: Tensor


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The x with x1 @ x = x2; x2 is a vector if it has one axis, else a stack of matrices.

    Raises LinAlgError where a matrix is singular; in a traced function x is NaN or infinite there.
    """
    a, b = matrices("solve", x1, x2, axes=1)
    square("solve", a)
    vector = b.ndim == 1
    x, info = solving.solve(a, b[:, None] if vector else b)
    succeeded("solve", info, SINGULAR)
    return x[..., 0] if vector else x


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of a are first moved behind the others."""
    a, b = matrices("tensorsolve", a, b, axes=0)
    named = () if axes is None else sequence(axes, "linalg.tensorsolve: axes")
    moved = tuple(normalize_axis(k, a.ndim, "linalg.tensorsolve") for k in named)
    a = a.permute((*(k for k in range(a.ndim) if k not in moved), *moved))
    shape = a.shape[b.ndim :]
    if math.prod(shape) != b.size or a.size != b.size**2:
        raise LinAlgError(
            f"linalg.tensorsolve: as many unknowns as equations are needed, got shapes {a.shape} and {b.shape}"
        )
    return solve(a.reshape((b.size, b.size)), b.reshape(b.size)).reshape(shape)


def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """The inverse of what tensordot(a, x, ind) does, of a's first `ind` axes and the others."""
    (a,) = matrices("tensorinv", a, axes=0)
    count = whole(ind, "linalg.tensorinv: ind")
    if count < 1:
        raise ValueError(f"linalg.tensorinv: ind must be at least 1, got {ind}")
    first, last = a.shape[:count], a.shape[count:]
    size = math.prod(first)
    if size != math.prod(last):
        raise LinAlgError(
            f"linalg.tensorinv: the first {count} axes must have as many elements as the others, got shape {a.shape}"
        )
    return inv(a.reshape((size, size))).reshape((*last, *first))


def solve_triangular(
    x1: Any, x2: Any, /, *, upper: bool = False, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The x with x1 @ x = x2, or x @ x1 = x2 unless `left`, for a triangular x1, whose other triangle is not read.

    `unitriangular` says that its diagonal counts as ones. A 0 on the diagonal gives infinities, nothing is raised.
    """
    a, b = matrices("solve_triangular", x1, x2, axes=1)
    square("solve_triangular", a)
    upper, unit = bool(upper), bool(unitriangular)
    if b.ndim == 1:
        a, upper = (a, upper) if left else (a.mT, not upper)
        return substitution.solve_triangular(a, b[:, None], upper=upper, unit=unit)[..., 0]
    if left:
        return substitution.solve_triangular(a, b, upper=upper, unit=unit)
    return substitution.solve_triangular(a.mT, b.mT, upper=not upper, unit=unit).mT


def cholesky_solve(x1: Any, x2: Any, /, *, upper: bool = False) -> Tensor:
    """The x with a @ x = x2, where x1 is the factor of a that `cholesky` gives."""
    a, b = matrices("cholesky_solve", x1, x2)
    square("cholesky_solve", a)
    turned = adjoint(a)
    first, second = (turned, a) if upper else (a, turned)
    inner = substitution.solve_triangular(first, b, upper=False)
    return substitution.solve_triangular(second, inner, upper=True)


def inv(x: Any, /) -> Tensor:
    """The inverses. Raises LinAlgError where a matrix is singular; in a traced function that is NaN or infinite."""
    made, info = solving.inv(square("inv", x))
    succeeded("inv", info, SINGULAR)
    return made


def det(x: Any, /) -> Tensor:
    """The determinants. Of singular matrices of more than 3 rows the derivative is NaN."""
    return solving.det(square("det", x))


def slogdet(x: Any, /) -> SlogdetResult:
    """The determinants' signs, and the logarithms of their magnitudes: 0 and -infinity of singular matrices."""
    return SlogdetResult(*solving.slogdet(square("slogdet", x)))


def _cutoff(s: Tensor, rtol: Any, shape: tuple[int, ...]) -> Tensor:
    """Up to where a singular value counts as 0: rtol times the largest."""
    if rtol is None:
        rtol = max(shape[-2:]) * epsilon(s.dtype)
    return _each(s, rtol) * s[..., :1] if s.shape[-1] else s


def _each(s: Tensor, number: Any) -> Any:
    """A number, or one for each row of singular values."""
    if isinstance(number, (int, float)):
        return number
    return asarray(number, device=s.executor).astype(s.dtype, copy=False)[..., None]


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    return 2.0**-dtype.mantissa


def matrix_rank(x: Any, /, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """How many singular values exceed `tol`, or rtol times the largest (i64); by default max(m, n) epsilons of it.

    Nothing depends on `hermitian`, which tells NumPy of a shorter way.
    """
    if tol is not None and rtol is not None:
        raise ValueError("linalg.matrix_rank: tol or rtol is meant, got both")
    given = asarray(x)
    if given.ndim < 2:
        return logic.not_equal(given, 0).any().astype("i64")
    s = svdvals(given)
    least = _cutoff(s, rtol, given.shape) if tol is None else _each(s, tol)
    return (s > least).sum(axis=-1)


def pinv(x: Any, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverses; singular values up to rtol, or `rcond`, times the largest count as 0.

    By default that is max(m, n) epsilons, as the array API has it; NumPy's `pinv` says 1e-15. Nothing depends on
    `hermitian`, which tells NumPy of a shorter way. The derivative is that of Golub and Pereyra 1973, at matrices whose
    rank does not change.
    """
    if rcond is not None and rtol is not None:
        raise ValueError("linalg.pinv: rcond or rtol is meant, got both")
    return _pinv(matrix("pinv", x), rtol if rcond is None else rcond)


@custom_gradient
def _pinv(x: Any, rtol: Any) -> Any:
    u, s, vh = svd(x, full_matrices=False)
    kept = s > _cutoff(s, rtol, x.shape)
    inverse = logic.where(kept, 1.0 / logic.where(kept, s, 1.0), 0.0)
    y = matmul(adjoint(vh) * inverse[..., None, :], adjoint(u))

    def pullback(cotangent: Any) -> Any:
        turned = adjoint(cotangent)
        inner = matmul(turned, y)
        outer = matmul(inner, adjoint(y))
        seen = matmul(matmul(adjoint(y), y), turned - matmul(inner, x))
        return seen + outer - matmul(matmul(x, y), outer) - adjoint(matmul(y, inner)), None

    return y, pullback


def lstsq(x1: Any, x2: Any, /, rcond: float | None = None) -> LstsqResult:
    """The x of the smallest norm among those that make the squares of x1 @ x - x2 smallest, by singular values.

    Those up to `rcond` times the largest count as 0: by default max(m, n) epsilons. Stacks are taken, unlike NumPy's.
    Residuals are empty where the rank is below n, or there are no more rows than columns; in a traced function, which
    cannot know the rank, they are computed all the same.
    """
    a, b = matrices("lstsq", x1, x2, axes=1)
    matrix("lstsq", a)
    vector = b.ndim == 1
    columns = b[:, None] if vector else b
    if columns.shape[-2] != a.shape[-2]:
        raise LinAlgError(
            f"linalg.lstsq: as many rows as the matrix has are needed, got shapes {a.shape} and {b.shape}"
        )
    s = svdvals(a)
    rank = (s > _cutoff(s, rcond, a.shape)).sum(axis=-1)
    x = matmul(_pinv(a, rcond), columns)
    rows, width = a.shape[-2:]
    full = rows > width and (deferred() or bool((rank == width).all()))
    left = columns - matmul(a, x)
    residuals = (left * conjugated(left)).sum(axis=-2) if full else a.executor.empty((0,), a.dtype)
    return LstsqResult(x[..., 0] if vector else x, residuals, rank, s)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """x multiplied by itself n times; its inverse, if n is negative, and the identity for 0."""
    a = asarray(x)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise LinAlgError(f"linalg.matrix_power: square matrices are needed, got shape {a.shape}")
    n = whole(n, "linalg.matrix_power: n")
    if n < 0:
        a, n = inv(a), -n
    if not n:
        one = creation.eye(a.executor, a.shape[-1], dtype=a.dtype)
        return one.expand(a.shape).clone()
    if n == 1:
        return a.clone()
    if n == 2:
        return matmul(a, a)
    half = matrix_power(matmul(a, a), n // 2)
    return matmul(half, a) if n % 2 else half


# Padé approximants: degree, and the largest norm whose error is below an epsilon (Higham 2005, "The scaling and
# squaring method for the matrix exponential revisited").
PADE = {
    "f32": ((3, 0.4258730016922831), (5, 1.880152677804762), (7, 3.925724783138660)),
    "f64": ((13, 5.371920351148152),),
}
TRACED_SQUARINGS = 24  # where nobody can see how many are needed: for norms up to 2^24 times the bound


def expm(x: Any, /) -> Tensor:
    """The matrix exponentials, by a Padé approximant, scaled and squared (Higham 2005).

    It waits for the norms; a traced function squares as often as the largest norm, 2^24 times the bound, needs.
    """
    a = square("expm", x)
    if not a.size:
        return a.clone()
    degree, bound = PADE[a.dtype.part.name][-1]
    norm = a.abs().sum(axis=-2).max(axis=-1)[..., None, None]
    ratio = norm * (1.0 / bound)
    needed = logic.where(ratio > 1.0, arithmetic.log2(logic.where(ratio > 1.0, ratio, 1.0)).ceil(), 0.0)
    needed = stop_gradient(needed)
    most = TRACED_SQUARINGS if deferred() else _most(needed)
    scaled = a * arithmetic.exp2(-needed) if most else a
    numerator, denominator = _pade(scaled, degree)
    made, _ = solving.solve(denominator, numerator)
    for k in fixed_range(most):
        made = logic.where(needed > k, matmul(made, made), made)
    return made


def _most(needed: Tensor) -> int:
    """How many squarings the largest needs; none of NaN, which is its own result."""
    numbers = needed.to_numpy()
    finite = numbers[np.isfinite(numbers)]
    return int(finite.max(initial=0))


def _pade(a: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Numerator and denominator of the diagonal approximant of a degree."""
    weights = [
        math.factorial(2 * degree - k)
        * math.factorial(degree)
        / (math.factorial(2 * degree) * math.factorial(k) * math.factorial(degree - k))
        for k in range(degree + 1)
    ]
    one = creation.eye(a.executor, a.shape[-1], dtype=a.dtype)
    squared = matmul(a, a)
    even, odd, power = weights[0] * one, weights[1] * one, None
    for k in range(2, degree + 1, 2):
        power = squared if power is None else matmul(power, squared)
        even = even + weights[k] * power
        if k < degree:
            odd = odd + weights[k + 1] * power
    odd = matmul(a, odd)
    return even + odd, even - odd
