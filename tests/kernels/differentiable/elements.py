"""Kernels with gradients that map elements, their neighbours, and elements that indices name."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hologram as hg
from tests.kernels.differentiable.case import NEXT, Cases, N

CASES = Cases()
case = CASES.case


def of_one(name: str, value: Callable[[Any], Any]) -> None:
    """A map of one element, `value`."""

    def maker(T: Any) -> Any:
        @hg.kernel
        def mapped(x: hg.Array[T], out: hg.Array[T]):
            i = hg.index()
            out[i] = value(x[i])

        return mapped

    maker.__name__ = name
    case((N,))(maker)


@hg.func
def waves(x):
    return hg.sin(x) * hg.exp(-x) + hg.cos(2.0 * x) / (1.0 + x * x)


@hg.func
def roots(x):
    return hg.sqrt(x) + hg.log(x) + hg.tanh(x) + x**2.5


@hg.func
def pieces(x):
    if x < 0.8:
        return x * x
    elif x < 1.2:
        return 3.0 * x
    return hg.sqrt(x - 1.0)


@hg.func
def chosen(x):
    return max(x, 1.0) * min(x * x, 1.1) + (x if x > 1.0 else 2.0 / x) + abs(x - 1.0)


@hg.func
def horner(x):
    total = 0.0 * x
    for k in hg.static((3.0, -2.0, 0.5, 1.0)):
        total = total * x + k
    return total


@hg.func
def nested(x):
    return waves(pieces(x)) * horner(x)


for named in (waves, roots, pieces, chosen, horner, nested):
    of_one(named.__name__, named)


@case((N,), (N,))
def products(T):
    @hg.kernel
    def products(x: hg.Array[T], y: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] = x[i] * y[i] + x[i]

    return products


@case((N,), 0.3)
def a_number(T):
    @hg.kernel
    def a_number(x: hg.Array[T], scale: T, out: hg.Array[T]):
        i = hg.index()
        out[i] = x[i] * scale * scale + scale

    return a_number


@case((N,), 0.3)
def stencil(T):
    @hg.kernel
    def stencil(u: hg.Array[T], dt: T, out: hg.Array[T]):
        i = hg.index()
        if 0 < i < u.shape[0] - 1:
            out[i] = u[i] + dt * (u[i - 1] * u[i + 1] - 2.0 * u[i])

    return stencil


@case((4, 5), 0.1, grid=(4, 5), shape=(4, 5))
def heat(T):
    @hg.kernel
    def heat(u: hg.Array[T, 2], dt: T, out: hg.Array[T, 2]):
        i, j = hg.index()
        if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
            around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            out[i, j] = u[i, j] + dt * (around - 4.0 * u[i, j]) * u[i, j]

    return heat


@case((3, 2, 4), grid=(3, 2, 4), shape=(3, 2, 4))
def of_three_axes(T):
    @hg.kernel
    def of_three_axes(u: hg.Array[T, 3], out: hg.Array[T, 3]):
        i, j, k = hg.index()
        out[i, j, k] = u[i, j, k] * u[(i + 1) % 3, j, k] + u[i, 1 - j, k] ** 2.0

    return of_three_axes


@case((N,), NEXT)
def gathered(T):
    @hg.kernel
    def gathered(x: hg.Array[T], at: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        out[i] = x[at[i]] * x[at[i]] * x[i]

    return gathered


@case((N,), NEXT)
def scattered(T):
    @hg.kernel
    def scattered(x: hg.Array[T], at: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        out[N - 1 - i] = x[at[i]] * 2.0 + x[i] * x[i]

    return scattered


@case((4, 3), (3, 5), grid=(4, 5), shape=(4, 5))
def product_of_matrices(T):
    @hg.kernel
    def product_of_matrices(a: hg.Array[T, 2], b: hg.Array[T, 2], out: hg.Array[T, 2]):
        i, j = hg.index()
        total = 0.0 * a[i, 0]
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        out[i, j] = total

    return product_of_matrices
