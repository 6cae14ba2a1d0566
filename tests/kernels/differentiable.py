"""Thirty kernels with gradients, each for any dtype of floats, and those that have none, with the reason."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

import hologram as hg


@lru_cache
def made_of(maker: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The maker of a kernel, which makes it once for each dtype."""
    return lru_cache(maker)


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel that takes arguments and, last, the array that it writes."""

    maker: Callable[[Any], Any]
    grid: Any
    shape: tuple[int, ...]
    given: tuple[Any, ...]

    @cached_property
    def name(self) -> str:
        return self.maker.__name__

    @property
    def kernel(self) -> Callable[[Any], Any]:
        return made_of(self.maker)

    def arguments(self) -> list[Any]:
        """Shapes as floats between 0.5 and 1.5; everything else as it is."""
        rng = np.random.default_rng(len(self.name))
        return [0.5 + rng.random(x) if isinstance(x, tuple) else x for x in self.given]


CASES: list[Case] = []
N = 6  # a number of kernels
NEXT = np.array([3, 1, 0, 5, 3, 2], np.int32)


def case(*given: Any, grid: Any = N, shape: tuple[int, ...] = (N,)) -> Callable[[Any], Any]:
    """Each argument: a shape of floats, an array of integers, or a number."""
    return lambda maker: CASES.append(Case(maker, grid, shape, given)) or maker


def of_one(name: str, value: Callable[[Any], Any]) -> None:
    """A map of one element, `value`."""

    def maker(T: Any) -> Any:
        @hg.kernel
        def mapped(x: hg.Array[T], out: hg.Array[T]):
            i = hg.index()
            out[i] = value(x[i])

        return mapped

    maker.__name__ = name
    CASES.append(Case(maker, N, (N,), ((N,),)))


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


@case((N,))
def power_by_turns(T):
    @hg.kernel
    def power_by_turns(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for _k in range(5):
            y = y * x[i] + hg.sin(y)
        out[i] = y

    return power_by_turns


@case((N,), NEXT)
def turns_of_data(T):
    @hg.kernel
    def turns_of_data(x: hg.Array[T], n: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for k in range(n[i]):
            y = 0.5 * y * y + x[k]
        out[i] = y

    return turns_of_data


@case((N,))
def two_loops(T):
    @hg.kernel
    def two_loops(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for k in range(3):
            z = y
            for j in range(k + 1):
                z = hg.sin(z) * x[j]
            y = y + z * y
        out[i] = y

    return two_loops


@case((N,))
def a_loop_with_branches(T):
    @hg.kernel
    def a_loop_with_branches(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y, z = x[i], 0.0 * x[i]
        for k in range(6):
            if k % 2 == 0:
                y = y * 1.1 + z
                continue
            z = z + y * y
        out[i] = y * z

    return a_loop_with_branches


@case((N,))
def an_early_end(T):
    @hg.kernel
    def an_early_end(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for _k in range(20):
            if y > 4.0:
                break
            y = y * (1.0 + 0.5 * x[i])
        out[i] = y

    return an_early_end


@case((N,))
def newton(T):
    @hg.kernel
    def newton(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y, turns = x[i], 0
        while turns < 4 and abs(y * y - x[i]) > 1e-9:
            y = 0.5 * (y + x[i] / y)
            turns += 1
        out[i] = y

    return newton


@case((N,))
def backwards_range(T):
    @hg.kernel
    def backwards_range(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for k in range(N - 1, 0, -2):
            y = y * x[k] + y * y * 0.25
        out[i] = y

    return backwards_range


@case((N,))
def an_early_return(T):
    @hg.kernel
    def an_early_return(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        if i == 2:
            return
        if x[i] > 1.0:
            out[i] = x[i] ** 3.0
            return
        out[i] = 5.0 * x[i]

    return an_early_return


@case((N,))
def added_in_place(T):
    @hg.kernel
    def added_in_place(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] += x[i]
        out[i] *= x[i]
        out[i] = out[i] * out[i]

    return added_in_place


@case((N,))
def stored_twice(T):
    @hg.kernel
    def stored_twice(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] = 7.0 * x[i]
        if i < 3:
            out[i] = x[i] * x[i]

    return stored_twice


@case((N, 2), grid=N)
def by_vectors(T):
    @hg.kernel
    def by_vectors(p: hg.Array[T, 2], out: hg.Array[T]):
        i = hg.index()
        v = hg.vec2(p[i, 0], p[i, 1])
        w = v * 2.0 + hg.vec2(p[0, 1], p[1, 0])
        out[i] = v.dot(w) + w.length()

    return by_vectors


@dataclass
class Body:
    place: Any
    speed: Any


@hg.func
def moved(body, dt):
    return Body(body.place + dt * body.speed, body.speed - dt * hg.sin(body.place))


@case((N,), (N,), 0.2)
def a_struct(T):
    @hg.kernel
    def a_struct(x: hg.Array[T], v: hg.Array[T], dt: T, out: hg.Array[T]):
        i = hg.index()
        body = Body(x[i], v[i])
        for _k in range(4):
            body = moved(body, dt)
        out[i] = body.place * body.speed

    return a_struct


@case((N,), NEXT)
def of_mixed_dtypes(T):
    @hg.kernel
    def of_mixed_dtypes(x: hg.Array[T], n: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        out[i] = x[i] * T(n[i]) + T(i) * x[i] * x[i]

    return of_mixed_dtypes


@case((5, 2), grid=(5, 2), shape=(5, 2))
def bodies(T):
    @hg.kernel
    def bodies(p: hg.Array[T, 2], out: hg.Array[T, 2]):
        i, axis = hg.index()
        total = 0.0 * p[i, 0]
        for j in range(p.shape[0]):
            if j != i:
                dx, dy = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1]
                d = dx * dx + dy * dy + 0.1
                total += (p[j, axis] - p[i, axis]) / (d * hg.sqrt(d))
        out[i, axis] = total

    return bodies


@case((N,), np.array([0, 2, 3, 6], np.int32), NEXT, (N,), grid=3, shape=(3,))
def sparse_rows(T):
    @hg.kernel
    def sparse_rows(
        a: hg.Array[T], rows: hg.Array[hg.i32], columns: hg.Array[hg.i32], x: hg.Array[T], out: hg.Array[T]
    ):
        i = hg.index()
        total = 0.0 * x[0]
        for k in range(rows[i], rows[i + 1]):
            total += a[k] * x[columns[k]]
        out[i] = total * total

    return sparse_rows


@case((N,))
def of_workgroups(T):
    @hg.kernel(workgroup=4)
    def of_workgroups(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] = x[i] * x[0] + x[N - 1 - i]

    return of_workgroups


@case((N,), NEXT)
def added_by_atomics(T):
    if T is not hg.f32:
        return sums_of_sources(T)

    @hg.kernel
    def added_by_atomics(x: hg.Array[T], at: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        hg.atomic_add(out, at[i], x[i] * x[i])

    return added_by_atomics


def sums_of_sources(T):
    """The same without atomics, which f64 has not."""

    @hg.kernel
    def sums_of_sources(x: hg.Array[T], at: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        total = out[i]
        for k in range(x.shape[0]):
            if at[k] == i:
                total += x[k] * x[k]
        out[i] = total

    return sums_of_sources


@hg.kernel
def shares(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    hg.atomic_exchange(out, i, x[i])


@hg.kernel
def neighbours(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = x[i] * out[(i + 1) % 8]


@hg.kernel
def sums_in_place(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    for k in range(8):
        out[i] += x[k]


@hg.kernel
def one_place(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    out[0] = x[hg.index()]


@hg.kernel(workgroup=8)
def together(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    own = hg.shared(8, hg.f32)
    own[hg.thread_index()] = x[hg.index()]
    hg.barrier()
    out[hg.index()] = own[7 - hg.thread_index()]


@hg.kernel
def own_array(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    own = hg.local(2, hg.f32)
    own[0] = x[i]
    out[i] = own[0]


REFUSED = [
    (shares, "atomic_exchange has no derivative"),
    (neighbours, "the kernel stores into it elsewhere"),
    (sums_in_place, "keep it in a variable"),
    (one_place, "which one wins is not known"),
    (together, "share memory"),
    (own_array, "local array"),
]
