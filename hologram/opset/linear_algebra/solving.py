"""Systems of equations: LU factors with partial pivoting, and what follows from them."""

from __future__ import annotations

from hologram.opset.complex_numbers import complex_, conjugated, imag
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
from hologram.opset.linear_algebra.triangular import adjoint, solved_shape, summed_to
from hologram.opset.matmul import matmul
from hologram.opset.movement import concat


def _lu_shapes(x):
    *batch, rows, columns = x
    return {"factors": x, "pivots": (*batch, min(rows, columns)), "info": tuple(batch)}


@factored("lu", shapes=_lu_shapes, blocks=lu_steps, small=small.lu)
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


def _det_gradient(cotangent, result, x):
    if x.shape[-1] <= 3:
        return cotangent[..., None, None] * conjugated(_cofactors(x))
    return (cotangent * conjugated(result))[..., None, None] * adjoint(inv(x)[0])


@factored("det", shapes=_scalar_shapes("linalg.det", "determinant"), blocks=determinant_steps,
          small=small.determinant, sooner=MOST, gradient={"x": _det_gradient})  # fmt: skip
def det(x):
    """The determinant. The derivative divides by it for more than 3 rows: there is none where it is 0."""


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
