"""LU factors with partial pivoting, block by block, and what is solved by them, on devices without LAPACK.

A workgroup factors a panel of columns, its threads rows in turn: each looks for the largest element of its rows, all
find the largest of those, and its row, which whoever owns it shows to the others. Rows are exchanged once for a panel,
as all matrices are copied; what is right of the panel is then a substitution and a matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import imag, real
from hologram.atlas.functions import absolute, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, i32, index
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.creation import fill
from hologram.opset.forms.operation import Attributes
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.linear_algebra.small.lu import multiplied
from hologram.opset.linear_algebra.triangular_blocks import (
    part,
    product_of,
    substitute,
    substitution_steps,
    turned,
)

PANEL = 16  # columns
THREADS = 64

Results = tuple[Place, Place, Place]  # factors (batch, m, n), and for each row the one it was, and the pivots


def _factored(steps: Steps, source: Place, info: Place, target: Target) -> Results:
    """Appends the factors of a stack, flat; `info` has been filled with 0."""
    *lead, m, n = source.layout.shape
    dtype = source.layout.dtype
    batch = source.layout.size // (m * n)
    now, turned = steps.place(dtype, (batch, m, n)), steps.place(dtype, (batch, m, n))
    steps.copy(source, Place(now.position, Layout.contiguous(dtype, (*lead, m, n))))
    width = min(m, n)
    order, place, total = (steps.place(i32, (batch, m)) for _ in range(3))
    chosen, pivots, used = (steps.place(i32, (batch, size)) for size in (PANEL, width, m))
    steps.run(_begin(), (total,), {}, (batch, m))
    for first in fixed_range(0, width, PANEL):
        last = min(first + PANEL, width)
        sizes = {"m": m, "n": n, "first": first, "last": last, "width": width}
        _cleared(steps, used, target)
        steps.run(_panel(dtype), (now, used, chosen, info), sizes, (batch * THREADS,))
        steps.run(_begin(), (order,), {}, (batch, m))
        steps.run(_begin(), (place,), {}, (batch, m))
        steps.run(_exchange(), (chosen, order, place, total, pivots), sizes, (batch,))
        steps.run(_rows(dtype), (now, order, turned), {"m": m, "n": n}, (batch, m, n))
        if last < n:
            own, right, below = slice(first, last), slice(last, n), slice(last, m)
            upper = steps.place(dtype, (batch, last - first, n - last))
            substitute(steps, part(turned, own, own), part(turned, own, right), None, upper, True)
            steps.copy(turned, now)
            steps.copy(upper, part(now, own, right))
            if last < m:
                product = product_of(steps, part(turned, below, own), upper, target)
                numbers = {"m": m, "n": n, "first": last}
                steps.run(_less(dtype), (turned, product, now), numbers, (batch, m - last, n - last))
        else:
            now, turned = turned, now
    return now, total, pivots


@lru_cache(maxsize=1)
def _begin() -> Program:
    """Each row's own number."""
    b = Builder("atlas_lu_begin", rank=2)
    row = b.coordinate(1)
    b.store(b.buffer("order", i32, Access.WRITE), b.coordinate(0) * b.extent(1) + row, row.to(i32))
    return b.build()


@lru_cache(maxsize=4)
def _panel(dtype: DType) -> Program:
    b = Builder(f"atlas_lu_panel_{dtype}", rank=1, workgroup=THREADS)
    x, used = b.buffer("x", dtype, Access.READ_WRITE), b.buffer("used", i32, Access.READ_WRITE)
    chosen, info = b.buffer("chosen", i32, Access.WRITE), b.buffer("info", i32, Access.READ_WRITE)
    m, n, first, last = (b.scalar(name, index) for name in ("m", "n", "first", "last"))
    matrix, thread = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    sizes, rows = b.shared("sizes", dtype.part, THREADS), b.shared("rows", i32, THREADS)
    shown, failed = b.shared("shown", dtype, PANEL), b.shared("failed", i32, 1)
    zero, none = b.constant(0, index), b.constant(-1, i32)
    own = first + thread

    def nothing() -> None:
        return None

    def at(row: Value, column: Value) -> Value:
        return (matrix * m + row) * n + column

    def column(j: Value) -> None:
        def look(row: Value, best: Value, place: Value) -> tuple[Value, Value]:
            z = b.load(x, at(row, j))
            size = absolute(real(z)) + absolute(imag(z)) if dtype.is_complex else absolute(z)  # as LAPACK
            size = select(size == size, size, float("inf"))  # NaN is taken at once, and stays
            better = (b.load(used, matrix * m + row) == 0) & ((size > best) | (place < 0))
            return select(better, size, best), select(better, row.to(i32), place)

        best, place = b.loop(own, m, look, first=(b.constant(-1.0, dtype.part), none), step=THREADS)
        b.shared_store(sizes, thread, best)
        b.shared_store(rows, thread, place)
        b.barrier()

        def largest(k: Value, best: Value, place: Value) -> tuple[Value, Value]:
            size, row = b.shared_load(sizes, k), b.shared_load(rows, k)
            better = (row >= 0) & ((size > best) | (place < 0) | ((size == best) & (row < place)))
            return select(better, size, best), select(better, row, place)

        best, place = b.loop(0, THREADS, largest, first=(b.constant(-1.0, dtype.part), none))
        pivot = select(place < 0, 0, place).to(index)
        mine = ((pivot - first) % THREADS) == thread

        def show() -> None:
            b.loop(j, last, lambda c: b.shared_store(shown, c - first, b.load(x, at(pivot, c))))
            b.store(used, matrix * m + pivot, 1)
            b.store(chosen, matrix * PANEL + (j - first), place)
            before = (b.shared_load(failed, zero) != 0) | (b.load(info, matrix) != 0)

            def tell() -> None:
                b.shared_store(failed, zero, 1)
                b.store(info, matrix, (j + 1).to(i32))

            b.if_(~before & (best == 0.0), tell, nothing)

        b.if_(mine, show, nothing)
        b.barrier()
        divisor = b.shared_load(shown, j - first)
        none_left = (real(divisor) == 0.0) & (imag(divisor) == 0.0)

        def update(row: Value) -> None:
            def eliminate() -> None:
                factor = b.load(x, at(row, j)) / select(none_left, 1.0, divisor)
                b.store(x, at(row, j), factor)

                def term(c: Value) -> None:
                    b.store(x, at(row, c), b.load(x, at(row, c)) - factor * b.shared_load(shown, c - first))

                b.loop(j + 1, last, term)

            b.if_(b.load(used, matrix * m + row) == 0, eliminate, nothing)

        b.loop(own, m, update, step=THREADS)
        b.barrier()

    b.loop(first, last, column)
    return b.build()


@lru_cache(maxsize=1)
def _exchange() -> Program:
    """The order of rows after a panel's exchanges: row k with the one that was chosen, in turn."""
    b = Builder("atlas_lu_exchange", rank=1)
    chosen = b.buffer("chosen", i32, Access.READ)
    order, place, total = (b.buffer(name, i32, Access.READ_WRITE) for name in ("order", "place", "total"))
    pivots = b.buffer("pivots", i32, Access.WRITE)
    m, first, last, width = (b.scalar(name, index) for name in ("m", "first", "last", "width"))
    matrix = b.coordinate(0)
    base = matrix * m

    def swap(j: Value) -> None:
        row = b.load(chosen, matrix * PANEL + (j - first)).to(index)
        where = b.load(place, base + row).to(index)
        other = b.load(order, base + j)
        b.store(order, base + where, other)
        b.store(order, base + j, row.to(i32))
        b.store(place, base + other.to(index), where.to(i32))
        b.store(place, base + row, j.to(i32))
        here, there = b.load(total, base + j), b.load(total, base + where)
        b.store(total, base + j, there)
        b.store(total, base + where, here)
        b.store(pivots, matrix * width + j, where.to(i32))

    b.loop(first, last, swap)
    return b.build()


@lru_cache(maxsize=2)
def _exchanges(back: bool) -> Program:
    """The order of rows after all exchanges, each row with the one of its pivot; or after these from last to first."""
    b = Builder("atlas_lu_exchanges_back" if back else "atlas_lu_exchanges", rank=1)
    pivots, order = b.buffer("pivots", i32, Access.READ), b.buffer("order", i32, Access.READ_WRITE)
    rows, width = b.scalar("rows", index), b.scalar("width", index)
    matrix = b.coordinate(0)

    def swap(k: Value) -> None:
        row = width - k - 1 if back else k
        here = matrix * rows + row
        there = matrix * rows + b.load(pivots, matrix * width + row).to(index)
        first, second = b.load(order, here), b.load(order, there)
        b.store(order, here, second)
        b.store(order, there, first)

    b.loop(0, width, swap)
    return b.build()


def _ordered(steps: Steps, pivots: Place, order: Place, back: bool = False) -> None:
    """Appends the order that pivots say, each flat: (batch, width) and (batch, rows)."""
    batch, width = pivots.layout.shape
    steps.run(_begin(), (order,), {}, order.layout.shape)
    numbers = {"rows": order.layout.shape[1], "width": width}
    steps.run(_exchanges(back), (pivots, order), numbers, (batch,))


@lru_cache(maxsize=4)
def _rows(dtype: DType) -> Program:
    """out[i] = x[order[i]]."""
    b = Builder(f"atlas_lu_rows_{dtype}", rank=3)
    x, order = b.buffer("x", dtype, Access.READ), b.buffer("order", i32, Access.READ)
    out = b.buffer("out", dtype, Access.WRITE)
    m, n = b.scalar("m", index), b.scalar("n", index)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    source = b.load(order, matrix * b.extent(1) + row).to(index)
    b.store(out, (matrix * b.extent(1) + row) * n + column, b.load(x, (matrix * m + source) * n + column))
    return b.build()


@lru_cache(maxsize=4)
def _less(dtype: DType) -> Program:
    """out = x - product, in the rows and columns from `first` on."""
    b = Builder(f"atlas_lu_less_{dtype}", rank=3)
    x, product = b.buffer("x", dtype, Access.READ), b.buffer("product", dtype, Access.READ)
    out = b.buffer("out", dtype, Access.WRITE)
    m, n, first = (b.scalar(name, index) for name in ("m", "n", "first"))
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    at = (matrix * m + row + first) * n + column + first
    value = b.load(product, (matrix * b.extent(1) + row) * b.extent(2) + column)
    b.store(out, at, b.load(x, at) - value)
    return b.build()


def _cleared(steps: Steps, info: Place, target: Target) -> None:
    steps.extend(fill.plan((), (info.layout,), {"value": 0}, target), (info.position,))


def lu_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends factors, pivots and codes."""
    factors, pivots, info = results
    _cleared(steps, info, target)
    if not factors.layout.size:
        return
    made, _, exchanged = _factored(steps, sources[0], info, target)
    for found, result in ((made, factors), (exchanged, pivots)):
        steps.copy(Place(found.position, result.layout), result)


def solve_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends x with a x = b: b with its rows exchanged, and two substitutions."""
    (a, b), (x, info) = sources, results
    _cleared(steps, info, target)
    if not x.layout.size:
        return
    n, columns = x.layout.shape[-2:]
    made, total, _ = _factored(steps, a, info, target)
    batch = x.layout.size // (n * columns)
    given = steps.converted(b, b.layout.dtype)
    right = steps.place(b.layout.dtype, (batch, n, columns))
    steps.run(_rows(b.layout.dtype), (given, total, right), {"m": n, "n": columns}, (batch, n, columns))
    out = Place(x.position, right.layout)
    _substituted(steps, made, right, out, target)


def _substituted(steps: Steps, factors: Place, right: Place, out: Place, target: Target) -> None:
    middle = steps.place(right.layout.dtype, right.layout.shape)
    substitution_steps(steps, (factors, right), (middle,), {"upper": False, "unit": True}, target)
    substitution_steps(steps, (factors, middle), (out,), {"upper": True, "unit": False}, target)


def lu_solve_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends x with a x = b, of known factors; or with a^T x = b: substitutions first, exchanges then."""
    factors, pivots, b = map(steps.gathered, sources)
    x, dtype = results[0], sources[0].layout.dtype
    if not x.layout.size:
        return
    n, columns = x.layout.shape[-2:]
    batch = x.layout.size // (n * columns)
    made = Place(factors.position, Layout.contiguous(dtype, (batch, n, n)))
    given = Place(b.position, Layout.contiguous(dtype, (batch, n, columns)))
    out, back = Place(x.position, given.layout), attributes["adjoint"]
    order, middle = steps.place(i32, (batch, n)), steps.place(dtype, given.layout.shape)
    _ordered(steps, Place(pivots.position, order.layout), order, back)
    exchange, sizes, grid = _rows(dtype), {"m": n, "n": columns}, given.layout.shape
    if not back:
        steps.run(exchange, (given, order, middle), sizes, grid)
        _substituted(steps, made, middle, out, target)
        return
    across, right = turned(made), steps.place(dtype, given.layout.shape)
    substitution_steps(steps, (across, given), (middle,), {"upper": False, "unit": False}, target)
    substitution_steps(steps, (across, middle), (right,), {"upper": True, "unit": True}, target)
    steps.run(exchange, (right, order, out), sizes, grid)


def order_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends the order of rows."""
    pivots, order = steps.gathered(sources[0]), results[0]
    if not order.layout.size:
        return
    batch = order.layout.size // order.layout.shape[-1]
    given, out = (Layout.contiguous(i32, (batch, p.layout.shape[-1])) for p in (pivots, order))
    _ordered(steps, Place(pivots.position, given), Place(order.position, out))


def inverse_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends the solution for the identity."""
    (x,), (inverse, info) = sources, results
    _cleared(steps, info, target)
    if not inverse.layout.size:
        return
    n = x.layout.shape[-1]
    made, total, _ = _factored(steps, x, info, target)
    flat = Layout.contiguous(x.layout.dtype, (x.layout.size // (n * n), n, n))
    right = steps.place(x.layout.dtype, flat.shape)
    steps.run(_identity(x.layout.dtype), (total, right), {}, flat.shape)
    _substituted(steps, made, right, Place(inverse.position, flat), target)


@lru_cache(maxsize=4)
def _identity(dtype: DType) -> Program:
    """The identity, its rows exchanged."""
    b = Builder(f"atlas_lu_identity_{dtype}", rank=3)
    total, out = b.buffer("total", i32, Access.READ), b.buffer("out", dtype, Access.WRITE)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    line = matrix * b.extent(1) + row
    b.store(out, line * b.extent(2) + column, (b.load(total, line) == column.to(i32)).to(dtype))
    return b.build()


@lru_cache(maxsize=8)
def _diagonal(dtype: DType, logarithm: bool) -> Program:
    """The product of U's diagonal, with the exchanges' sign; or that sign, and the sum of logarithms."""
    b = Builder(f"atlas_lu_diagonal_{dtype}", rank=1)
    factors, pivots = b.buffer("factors", dtype, Access.READ), b.buffer("pivots", i32, Access.READ)
    kinds = {"sign": dtype, "sum": dtype.part} if logarithm else {"product": dtype}
    outs = [b.buffer(name, kind, Access.WRITE) for name, kind in kinds.items()]
    n, matrix = b.scalar("n", index), b.coordinate(0)
    made = multiplied(
        b,
        n,
        lambda k: b.load(factors, (matrix * n + k) * n + k),
        lambda k: b.load(pivots, matrix * n + k) == k.to(i32),
        dtype,
        logarithm,
    )
    for out, value in zip(outs, made, strict=True):
        b.store(out, matrix, value)
    return b.build()


def _by_diagonal(
    steps: Steps, source: Place, results: Sequence[Place], target: Target, logarithm: bool
) -> None:
    n = source.layout.shape[-1]
    if not source.layout.size:  # of no elements: 1, and 0
        for out, value in zip(results, (1, 0), strict=False):
            steps.extend(fill.plan((), (out.layout,), {"value": value}, target), (out.position,))
        return
    batch = source.layout.size // (n * n)
    info = steps.place(i32, (batch,))
    _cleared(steps, info, target)
    made, _, pivots = _factored(steps, source, info, target)
    steps.run(_diagonal(source.layout.dtype, logarithm), (made, pivots, *results), {"n": n}, (batch,))


def determinant_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends determinants."""
    _by_diagonal(steps, sources[0], results, target, False)


def slogdet_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends signs and logarithms."""
    _by_diagonal(steps, sources[0], results, target, True)
