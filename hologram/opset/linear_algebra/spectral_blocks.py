"""Eigenvalues, singular values and their vectors by Jacobi's rotations, on devices without LAPACK.

Eigenvalues are v^H x v of vectors v that rotations found. Singular vectors of x = Q R are those of R: rotations V make
the columns of R V orthogonal, and V is one side. The other is that of R V = U S, taken from a QR factorisation of its
columns in descending order, so that it is orthonormal where singular values are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, pair, real
from hologram.atlas.functions import select, sqrt
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, i32, index
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.creation import fill
from hologram.opset.forms.operation import Attributes
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.linear_algebra.householder import (
    Panel,
    flat_copy,
    identity,
    reflected,
    triangle_of,
    turn,
)
from hologram.opset.linear_algebra.jacobi import diagonalised
from hologram.opset.linear_algebra.scaling import scaled, unscaled
from hologram.opset.linear_algebra.triangular_blocks import adjoint_of, part, product_of


def _flat(place: Place, axes: int) -> Place:
    """Stacks as one: what is contiguous, with so many axes of its own."""
    own = place.layout.shape[place.layout.ndim - axes :]
    count = math.prod(place.layout.shape[: place.layout.ndim - axes])
    return Place(place.position, Layout.contiguous(place.layout.dtype, (count, *own)))


def _cleared(steps: Steps, place: Place, target: Target) -> None:
    if place.layout.size:
        steps.extend(fill.plan((), (place.layout,), {"value": 0}, target), (place.position,))


# Eigenvalues.


def eigh_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends eigenvalues, eigenvectors and codes; eigenvalues and codes alone where nothing else is asked for."""
    values, *asked, info = results
    if not values.layout.size:
        return _cleared(steps, info, target)
    values, info = _flat(values, 1), _flat(info, 0)
    x = _whole(steps, sources[0], attributes["upper"])
    batch, n, _ = x.layout.shape
    dtype = x.layout.dtype
    factors, codes = scaled(steps, x)
    known = steps.converted(x, dtype)
    vectors = diagonalised(steps, x, target, False)
    columns = vectors.layout.shape[-1]
    images = product_of(steps, known, vectors, target)
    keys, real_ones = steps.place(dtype.part, (batch, columns)), steps.place(i32, (batch, columns))
    steps.run(_keys(dtype, False), (vectors, images, keys, real_ones), {"n": n}, (batch, columns))
    ranks = _ranked(steps, keys, real_ones, codes, info, n, False)
    steps.run(_values_in_order(dtype.part, False), (keys, ranks, codes, values), {"n": n}, (batch, columns))
    unscaled(steps, values, factors)
    if asked:
        _in_order(steps, vectors, ranks, codes, _flat(asked[0], 2))
    return None


def _whole(steps: Steps, source: Place, upper: bool) -> Place:
    """Appends Hermitian matrices from one triangle."""
    x = flat_copy(steps, source)
    out = steps.place(x.layout.dtype, x.layout.shape)
    steps.run(_hermitian(x.layout.dtype, upper), (x, out), {}, x.layout.shape)
    return out


@lru_cache(maxsize=8)
def _hermitian(dtype: DType, upper: bool) -> Program:
    b = Builder(f"atlas_hermitian_{dtype}", rank=3)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    n = b.extent(1)
    turned = column < row if upper else column > row
    first, second = select(turned, column, row), select(turned, row, column)
    z = b.load(x, (matrix * n + first) * n + second)
    if dtype.is_complex:
        z = select(row == column, pair(real(z), 0.0), select(turned, conjugate(z), z))
    b.store(out, (matrix * n + row) * n + column, z)
    return b.build()


@lru_cache(maxsize=8)
def _keys(dtype: DType, squares: bool) -> Program:
    """v^H y of columns of n rows, or y^H y; and whether v is the matrix's, not one of those that make up blocks."""
    b = Builder(f"atlas_keys_{dtype}", rank=2)
    v, y = b.buffer("v", dtype, Access.READ), b.buffer("y", dtype, Access.READ)
    keys, own = b.buffer("keys", dtype.part, Access.WRITE), b.buffer("own", i32, Access.WRITE)
    n, matrix, column = b.scalar("n", index), b.coordinate(0), b.coordinate(1)
    none = b.constant(0.0, dtype.part)

    def term(row: Value, total: Value, size: Value) -> tuple[Value, Value]:
        at = (matrix * n + row) * b.extent(1) + column
        p, q = b.load(v, at), b.load(y, at)
        return total + real(conjugate(q if squares else p) * q), size + real(conjugate(p) * p)

    total, size = b.loop(0, n, term, first=(none, none))
    b.store(keys, matrix * b.extent(1) + column, total)
    b.store(own, matrix * b.extent(1) + column, select(size < 0.5, b.constant(0, i32), 1))
    return b.build()


def _ranked(
    steps: Steps, keys: Place, own: Place, codes: Place, info: Place, n: int, descending: bool
) -> Place:
    """Appends the places of the columns in order, from n on of those that are none; and what the codes are."""
    ranks = steps.place(i32, keys.layout.shape)
    steps.run(_ranks(keys.layout.dtype, descending), (keys, own, ranks), {}, keys.layout.shape)
    steps.copy(codes, info)
    return ranks


@lru_cache(maxsize=4)
def _ranks(dtype: DType, descending: bool) -> Program:
    b = Builder(f"atlas_ranks_{dtype}", rank=2)
    keys, own = b.buffer("keys", dtype, Access.READ), b.buffer("own", i32, Access.READ)
    ranks = b.buffer("ranks", i32, Access.WRITE)
    matrix, column, columns = b.coordinate(0), b.coordinate(1), b.extent(1)
    key, mine = b.load(keys, matrix * columns + column), b.load(own, matrix * columns + column)

    def count(k: Value, rank: Value) -> tuple[Value]:
        other, theirs = b.load(keys, matrix * columns + k), b.load(own, matrix * columns + k)
        ahead = other > key if descending else other < key
        before = (theirs > mine) | ((theirs == mine) & (ahead | ((other == key) & (k < column))))
        return (select(before, rank + 1, rank),)

    (rank,) = b.loop(0, columns, count, first=(b.constant(0, i32),))
    b.store(ranks, matrix * columns + column, rank)
    return b.build()


@lru_cache(maxsize=4)
def _values_in_order(dtype: DType, root: bool) -> Program:
    b = Builder(f"atlas_values_in_order_{dtype}", rank=2)
    keys, ranks = b.buffer("keys", dtype, Access.READ), b.buffer("ranks", i32, Access.READ)
    codes, out = b.buffer("codes", i32, Access.READ), b.buffer("out", dtype, Access.WRITE)
    n, matrix, column, columns = b.scalar("n", index), b.coordinate(0), b.coordinate(1), b.extent(1)
    key = b.load(keys, matrix * columns + column)
    key = sqrt(key) if root else key
    bad = b.load(codes, matrix) != 0
    place = select(bad, column, b.load(ranks, matrix * columns + column).to(index))
    b.if_(place < n, lambda: b.store(out, matrix * n + place, select(bad, math.nan, key)), lambda: None)
    return b.build()


def _in_order(steps: Steps, x: Place, ranks: Place, codes: Place, out: Place, turned: bool = False) -> None:
    """Appends the first n of the columns of x (batch, n, columns) in order; as rows, conjugated, where `turned`."""
    program = _columns_in_order(x.layout.dtype, turned)
    steps.run(program, (x, ranks, codes, out), {"n": out.layout.shape[-1]}, x.layout.shape)


@lru_cache(maxsize=8)
def _columns_in_order(dtype: DType, turned: bool) -> Program:
    b = Builder(f"atlas_columns_in_order_{dtype}", rank=3)
    x, ranks = b.buffer("x", dtype, Access.READ), b.buffer("ranks", i32, Access.READ)
    codes, out = b.buffer("codes", i32, Access.READ), b.buffer("out", dtype, Access.WRITE)
    n = b.scalar("n", index)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    rows, columns = b.extent(1), b.extent(2)
    bad = b.load(codes, matrix) != 0
    place = select(bad, column, b.load(ranks, matrix * columns + column).to(index))
    value = select(bad, math.nan, b.load(x, (matrix * rows + row) * columns + column))
    line, at = (place, row) if turned else (row, place)
    to = (matrix * (n if turned else rows) + line) * n + at
    b.if_(place < n, lambda: b.store(out, to, conjugate(value) if turned else value), lambda: None)
    return b.build()


# Singular values.


def svdvals_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends singular values and codes."""
    s, info = results
    if not s.layout.size:
        return _cleared(steps, info, target)
    _decomposed(steps, sources[0], _flat(s, 1), _flat(info, 0), target)
    return None


def svd_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends U, singular values, V^H and codes."""
    u, s, vh, info = results
    if not s.layout.size:
        for place in (u, vh):
            if place.layout.size:
                identity(steps, _flat(place, 2))
        return _cleared(steps, info, target)
    u, vh = _flat(u, 2), _flat(vh, 2)
    m, n = sources[0].layout.shape[-2:]
    panels, images, vectors, ranks, codes = _decomposed(
        steps, sources[0], _flat(s, 1), _flat(info, 0), target
    )
    batch, width, _ = images.layout.shape
    dtype = images.layout.dtype
    ordered = steps.place(dtype, (batch, width, width))
    _in_order(steps, images, ranks, codes, ordered)
    own = reflected(steps, ordered, target)
    far, near = (u, vh) if m >= n else (vh, u)  # `near` has the vectors that are rotations
    _in_order(steps, vectors, ranks, codes, near, turned=m >= n)
    rows, columns = far.layout.shape[-2:] if m >= n else far.layout.shape[:-3:-1]
    made = far if m >= n else steps.place(dtype, (batch, rows, columns))
    identity(steps, made)
    inner = steps.place(dtype, (batch, width, width))
    identity(steps, inner)
    turn(steps, own, inner, target, same=True)
    signed = part(made, slice(0, width), slice(0, width))
    steps.run(_signed(dtype), (inner, ordered), {}, inner.layout.shape)
    steps.copy(inner, signed)
    turn(steps, panels, made, target)
    if m < n:
        steps.copy(adjoint_of(steps, made), far)
    return None


def _decomposed(
    steps: Steps, source: Place, s: Place, info: Place, target: Target
) -> tuple[list[Panel], Place, Place, Place, Place]:
    """Appends singular values and codes; and reflections Q, R V, V, the order of their columns, and what failed.

    They are those of the matrix, or its adjoint where that has more rows: x = Q R, if there are more than columns.
    """
    m, n = source.layout.shape[-2:]
    x = flat_copy(steps, source if m >= n else adjoint_of(steps, source))
    batch, rows, columns = x.layout.shape
    dtype = x.layout.dtype
    factors, codes = scaled(steps, x)
    panels: list[Panel] = []
    if rows > columns:
        panels = reflected(steps, x, target)
        ones, square = steps.place(dtype.part, (batch,)), steps.place(dtype, (batch, columns, columns))
        steps.extend(fill.plan((), (ones.layout,), {"value": 1}, target), (ones.position,))
        triangle_of(steps, x, square, ones)
        x = square
    vectors = diagonalised(steps, x, target, True)
    images = product_of(steps, x, vectors, target)
    width = vectors.layout.shape[-1]
    keys, own = steps.place(dtype.part, (batch, width)), steps.place(i32, (batch, width))
    steps.run(_keys(dtype, True), (vectors, images, keys, own), {"n": columns}, (batch, width))
    ranks = _ranked(steps, keys, own, codes, info, columns, True)
    steps.run(_values_in_order(dtype.part, True), (keys, ranks, codes, s), {"n": columns}, (batch, width))
    unscaled(steps, s, factors)
    return panels, images, vectors, ranks, codes


@lru_cache(maxsize=4)
def _signed(dtype: DType) -> Program:
    """Columns of Q with the signs of R's diagonal, which is real."""
    b = Builder(f"atlas_signed_{dtype}", rank=3)
    q, r = b.buffer("q", dtype, Access.READ_WRITE), b.buffer("r", dtype, Access.READ)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    n = b.extent(1)
    at = (matrix * n + row) * n + column
    diagonal = b.load(r, (matrix * n + column) * n + column)
    b.store(q, at, select(real(diagonal) < 0.0, -b.load(q, at), b.load(q, at)))
    return b.build()
