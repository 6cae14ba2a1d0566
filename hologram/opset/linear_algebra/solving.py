"""Systems of equations: LU factors with partial pivoting, and what follows from them."""

from __future__ import annotations

import numpy as np

from hologram.foundation.errors import GradientError
from hologram.opset.arrange import tril, triu
from hologram.opset.complex_numbers import complex_, conjugated, imag
from hologram.opset.creation import arange, eye
from hologram.opset.linear_algebra.factorisation import factored, square
from hologram.opset.linear_algebra.lu_blocks import (
    determinant_steps,
    inverse_steps,
    lu_solve_steps,
    lu_steps,
    order_steps,
    slogdet_steps,
    solve_steps,
)
from hologram.opset.linear_algebra.small import lu as small
from hologram.opset.linear_algebra.small.matrix import MOST
from hologram.opset.linear_algebra.triangular import adjoint, solve_triangular, solved_shape, summed_to
from hologram.opset.logic import equal, logical_and, where
from hologram.opset.math import abs_, maximum
from hologram.opset.matmul import matmul
from hologram.opset.movement import concat
from hologram.opset.reduce import max_, prod, sum_


def _lu_shapes(x):
    *batch, rows, columns = x
    return {"factors": x, "pivots": (*batch, min(rows, columns)), "info": tuple(batch)}


def _lu_gradient(cotangents, results, inputs):
    """To the matrix, which must be square: the rows come back through the exchanges at the end."""
    rows, columns = inputs[0].shape[-2:]
    if rows != columns:
        raise GradientError(
            f"linalg.lu: factors of {rows} x {columns} matrices have no derivative, only of square ones"
        )
    factors, pivots, _ = results
    towards = cotangents[0]
    inner = tril(matmul(adjoint(_unit_lower(factors)), tril(towards, k=-1)), k=-1)
    inner = inner + triu(matmul(triu(towards), adjoint(triu(factors))))
    # inner U^-1 from the right, L^-1 from the left, both of them adjoint.
    right = adjoint(solve_triangular(factors, adjoint(inner), upper=True))
    return matmul(_exchanged(pivots, rows, factors).mT, _below_solved(factors, right))


def _unit_lower(factors):
    return tril(factors, k=-1) + eye(factors.executor, factors.shape[-1], dtype=factors.dtype)


def _below_solved(factors, b):
    """The x with L^H x = b."""
    return solve_triangular(adjoint(factors), b, upper=True, unit=True)


def _exchanged(pivots, rows, like):
    """The matrix that exchanges rows as the pivots say, in a dtype."""
    order = row_order(pivots, rows=rows)
    places = arange(like.executor, rows, dtype=order.dtype)
    return equal(order[..., None], places).astype(like.dtype)


@factored("lu", shapes=_lu_shapes, blocks=lu_steps, small=small.lu, gradient={"x": _lu_gradient})
def lu(x):
    """L, below a diagonal of ones, and U in one matrix, where rows were exchanged: row k with row pivots[k], in turn.

    `info` is k > 0 where the k-th pivot, from 1 on, is the first that is 0.
    """


def _lu_solve_shapes(factors, pivots, b, adjoint=False):
    return {"x": solved_shape("linalg.lu_solve", factors, b)}


@factored("lu_solve", shapes=_lu_solve_shapes, blocks=lu_solve_steps)
def lu_solve(factors, pivots, b, *, adjoint=False):
    """The x with a x = b, or with a^T x = b where `adjoint`, by the factors and pivots of a that `lu` gives."""


def _order_shapes(pivots, rows=0):
    return {"order": (*pivots[:-1], rows)}


@factored("row_order", shapes=_order_shapes, blocks=order_steps)
def row_order(pivots, *, rows=0):
    """Which of a matrix's so many rows is where in the product of its factors, by the pivots that `lu` gives."""


def _solve_gradient(cotangents, results, a, inputs, wanted):
    flow, _ = solve(adjoint(a), cotangents[0])
    return (
        summed_to(-matmul(flow, adjoint(results[0])), inputs[0].shape) if "a" in wanted else None,
        summed_to(flow, inputs[1].shape) if "b" in wanted else None,
    )


def _solve_shapes(a, b):
    shape = solved_shape("linalg.solve", a, b)
    return {"x": shape, "info": shape[:-2]}


@factored("solve", shapes=_solve_shapes, blocks=solve_steps, small=small.solve,
          gradient={("a", "b"): _solve_gradient})  # fmt: skip
def solve(a, b):
    """The x with a x = b; `info` is that of `lu`, and x NaN or infinite where it is not 0."""


def _inverse_shapes(x):
    square("linalg.inv", x)
    return {"inverse": x, "info": x[:-2]}


def _inverse_gradient(cotangents, results):
    turned = adjoint(results[0])
    return -matmul(matmul(turned, cotangents[0]), turned)


@factored("inverse", shapes=_inverse_shapes, blocks=inverse_steps, small=small.inverse,
          gradient={"x": _inverse_gradient})  # fmt: skip
def inv(x):
    """The inverse; `info` is that of `lu`."""


def _scalar_shapes(who, *names):
    def shapes(x):
        square(who, x)
        return dict.fromkeys(names, x[:-2])

    return shapes


def _cofactors(x):
    """Of matrices of up to 3 rows, which have a derivative where the determinant is 0 too."""
    n = x.shape[-1]
    if n < 2:
        return x.executor.full((), 1, x.dtype).expand(x.shape)
    if n == 2:
        turned = x.slice(-1, None, None, -1).slice(-2, None, None, -1)
        first, last = turned.narrow(-1, 0, 1), turned.narrow(-1, 1, 1)
        top = concat([first.narrow(-2, 0, 1), -last.narrow(-2, 0, 1)], axis=-1)
        return concat([top, concat([-first.narrow(-2, 1, 1), last.narrow(-2, 1, 1)], axis=-1)], axis=-2)
    rows = concat([x, x.narrow(-2, 0, 2)], axis=-2)
    wide = concat([rows, rows.narrow(-1, 0, 2)], axis=-1)  # so that neighbours go round

    def moved(down, right):
        return wide.narrow(-2, down, 3).narrow(-1, right, 3)

    return moved(1, 1) * moved(2, 2) - moved(1, 2) * moved(2, 1)


def _by_factors(x):
    """The cofactors, as the determinant times the inverse, transposed, of a matrix that is not singular.

    That is x with pivots of no less than rounding makes of 0, so it is x to rounding. Determinant and inverse are of
    the same factors: errors of a pivot cancel.
    """
    n = x.shape[-1]
    factors, pivots, _ = lu(x)
    largest = max_(abs_(x), axis=(-2, -1), keepdims=True)
    part = x.dtype.part
    least = maximum(largest * (n * np.finfo(part.numpy).eps), float(np.finfo(part.numpy).tiny))
    diagonal = eye(x.executor, n, dtype="bool")
    factors = where(logical_and(diagonal, abs_(factors) < least), least.astype(x.dtype), factors)
    exchanges = _exchanged(pivots, n, x)
    inverse = solve_triangular(factors, solve_triangular(factors, exchanges, unit=True), upper=True)
    pivot = sum_(where(diagonal, factors, 0), axis=-1)
    moved = arange(x.executor, n, dtype=pivots.dtype)
    odd = sum_(equal(pivots, moved), axis=-1) + n
    determinant = prod(pivot, axis=-1) * (1 - 2 * (odd % 2)).astype(x.dtype)
    return determinant[..., None, None] * inverse.mT


def _det_gradient(cotangent, x):
    cofactors = _cofactors(x) if x.shape[-1] <= 3 else _by_factors(x)
    return cotangent[..., None, None] * conjugated(cofactors)


@factored("det", shapes=_scalar_shapes("linalg.det", "determinant"), blocks=determinant_steps,
          small=small.determinant, sooner=MOST, gradient={"x": _det_gradient})  # fmt: skip
def det(x):
    """The determinant. Where it is 0 it has a first derivative, and of up to 3 rows further ones."""


def _slogdet_gradient(cotangents, results, x):
    towards_sign, towards_logarithm = cotangents
    flow = towards_logarithm
    if x.dtype.is_complex:  # the sign turns with the imaginary part of tr(x^-1 dx)
        flow = complex_(flow, imag(towards_sign * conjugated(results[0])))
    return flow[..., None, None] * adjoint(inv(x)[0])


@factored("slogdet", shapes=_scalar_shapes("linalg.slogdet", "sign", "logarithm"), blocks=slogdet_steps,
          small=small.slogdet, sooner=MOST, gradient={"x": _slogdet_gradient})  # fmt: skip
def slogdet(x):
    """The determinant's sign, or phase, and the logarithm of its magnitude: 0 and -infinity of singular matrices."""
