"""Triangular matrices: Cholesky's factor, and what is solved by substitution."""

from __future__ import annotations

from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.machine.axes import broadcast
from hologram.opset.arrange import tril, triu
from hologram.opset.complex_numbers import conjugated
from hologram.opset.linear_algebra.factorisation import factored, square
from hologram.opset.linear_algebra.small import cholesky as small
from hologram.opset.linear_algebra.triangular_blocks import cholesky_steps, substitution_steps
from hologram.opset.matmul import matmul


def halved_lower(x: Any) -> Any:
    """The lower triangles, with half of the diagonal."""
    return 0.5 * (tril(x) + tril(x, k=-1))


def adjoint(x: Any) -> Any:
    """The transposes, conjugated where they are complex."""
    return conjugated(x).mT


def symmetric(x: Any) -> Any:
    """The half of x and its adjoint."""
    return 0.5 * (x + adjoint(x))


def triangle(x: Any, upper: bool, unit: bool = False) -> Any:
    """The triangle that is read, without the diagonal where that counts as ones."""
    return triu(x, k=int(unit)) if upper else tril(x, k=-int(unit))


def _cholesky_gradient(cotangents, results, upper):
    """Murray 2016, "Differentiation of the Cholesky decomposition": the matrix is taken for Hermitian."""
    factor, cotangent = results[0], cotangents[0]
    lower, flow = (adjoint(factor), adjoint(cotangent)) if upper else (factor, cotangent)
    inner = halved_lower(matmul(adjoint(lower), flow))
    left = solve_triangular(adjoint(lower), inner, upper=True)
    return symmetric(solve_triangular(lower.mT, left.mT, upper=True).mT)


def _cholesky_shapes(x, upper=False):
    square("linalg.cholesky", x)
    return {"factor": x, "info": x[:-2]}


@factored("cholesky", shapes=_cholesky_shapes, blocks=cholesky_steps, small=small.cholesky, sooner=8,
          gradient={"x": _cholesky_gradient})  # fmt: skip
def cholesky(x, *, upper=False):
    """The lower triangular L with L L^H = x, or the upper U with U^H U = x; only that triangle of x is read.

    `info` is k > 0 where the leading matrix of order k is not positive definite; the factor is NaN there.
    """


def _triangular_gradient(cotangent, result, a, inputs, upper, unit, wanted):
    flow = solve_triangular(adjoint(a), cotangent, upper=not upper, unit=unit)
    towards_a = triangle(-matmul(flow, adjoint(result)), upper, unit) if "a" in wanted else None
    return (
        None if towards_a is None else summed_to(towards_a, inputs[0].shape),
        summed_to(flow, inputs[1].shape) if "b" in wanted else None,
    )


def summed_to(x: Any, shape: tuple[int, ...]) -> Any:
    """The sum over the axes that something of that shape was broadcast along."""
    lead = x.ndim - len(shape)
    axes = (*range(lead), *(lead + k for k, n in enumerate(shape) if n == 1 != x.shape[lead + k]))
    return x.sum(axis=axes).reshape(shape) if axes else x


def solved_shape(who: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what solves a x = b."""
    n = square(who, a)
    if b[-2] != n:
        raise ShapeError(f"{who}: as many rows as the matrix has are needed, got shapes {a} and {b}")
    return (*broadcast([a[:-2], b[:-2]], who), *b[-2:])


@factored("triangular", blocks=substitution_steps, gradient={("a", "b"): _triangular_gradient},
          shapes=lambda a, b, **_: {"x": solved_shape("linalg.solve_triangular", a, b)})  # fmt: skip
def solve_triangular(a, b, *, upper=False, unit=False):
    """The x with a x = b, for a triangular a, whose other triangle is not read, nor the diagonal where it is `unit`."""
