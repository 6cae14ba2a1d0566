"""QR factors by Householder's reflections, block by block, on devices without LAPACK.

A workgroup factors a panel of columns: its threads hold rows in turn, and add up what they hold by memory that they
share. A panel's reflections are one matrix I - V T V^H (Schreiber and Van Loan 1989, "A storage-efficient WY
representation"), so what is right of it, and Q, are matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, imag, number, pair, parts, plus, real
from hologram.atlas.functions import absolute, select, sqrt
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, index
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.operation import Attributes
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.linear_algebra.scaling import scaled, unscaled
from hologram.opset.linear_algebra.triangular_blocks import adjoint_of, part, product_of

PANEL = 16  # columns
FEW, THREADS = 16, 64  # of a workgroup: for few rows, and for more
NOTHING = {
    32: 1e-30,
    64: 1e-290,
}  # by bits: columns below it are 0 beside a matrix that `scaled` brought to its size


class Panel(NamedTuple):
    """The reflections of a panel, I - V T V^H: of the rows from `first` on."""

    v: Place
    t: Place
    first: int


def reflected(steps: Steps, x: Place, target: Target) -> list[Panel]:
    """Appends what makes x (batch, m, n), contiguous, an upper triangle; below it lies what is of no use."""
    batch, m, n = x.layout.shape
    dtype, panels = x.layout.dtype, []
    threads = FEW if m <= 2 * FEW else THREADS
    for first in fixed_range(0, min(m, n), PANEL):
        last = min(first + PANEL, m, n)
        rows, width = m - first, last - first
        v = steps.place(dtype, (batch, rows, width))
        tau, t = steps.place(dtype, (batch, width)), steps.place(dtype, (batch, width, width))
        sizes = {"m": m, "n": n, "first": first, "last": last}
        steps.run(_panel(dtype, threads), (x, v, tau), sizes, (batch * threads,))
        turned = adjoint_of(steps, v)
        products = product_of(steps, turned, v, target)
        steps.run(_joined(dtype), (products, tau, t), {"width": width}, (batch, width))
        panels.append(Panel(v, t, first))
        if last < n:
            right = part(x, slice(first, m), slice(last, n))
            inner = product_of(steps, turned, right, target)
            inner = product_of(steps, adjoint_of(steps, t), inner, target)
            subtract(steps, right, product_of(steps, v, inner, target))
    return panels


def turn(steps: Steps, panels: Sequence[Panel], x: Place, target: Target, same: bool = False) -> None:
    """Appends x = Q x for x (batch, m, columns); `same` says that Q's first columns are those of the identity there.

    So it is of the identity itself: what is left of a panel's columns is not touched by its reflections.
    """
    m, columns = x.layout.shape[-2:]
    for v, t, first in reversed(panels):
        right = part(x, slice(first, m), slice(first if same else 0, columns))
        inner = product_of(steps, adjoint_of(steps, v), right, target)
        inner = product_of(steps, t, inner, target)
        subtract(steps, right, product_of(steps, v, inner, target))


def qr_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends Q and R."""
    (source,), (q, r) = sources, results
    m, width = q.layout.shape[-2:]
    batch = q.layout.size // max(m * width, 1)
    dtype = source.layout.dtype
    panels: list[Panel] = []
    if source.layout.size:
        x = flat_copy(steps, source)
        factors, _ = scaled(steps, x)
        panels = reflected(steps, x, target)
        triangle_of(steps, x, r, factors)
    out = Place(q.position, Layout.contiguous(dtype, (batch, m, width)))
    identity(steps, out)
    turn(steps, panels, out, target, same=True)


def triangle_of(steps: Steps, x: Place, r: Place, factors: Place) -> None:
    """Appends the upper triangles of x's first rows, over what x was scaled by."""
    batch, m, n = x.layout.shape
    shape = (batch, r.layout.shape[-2], n)
    steps.run(_triangle(x.layout.dtype), (x, r), {"m": m, "n": n}, shape)
    unscaled(steps, Place(r.position, Layout.contiguous(x.layout.dtype, shape)), factors)


def flat_copy(steps: Steps, source: Place) -> Place:
    """Appends a copy of matrices: (batch, m, n), contiguous."""
    copied = steps.converted(source, source.layout.dtype)
    m, n = source.layout.shape[-2:]
    return Place(
        copied.position, Layout.contiguous(source.layout.dtype, (source.layout.size // (m * n), m, n))
    )


def identity(steps: Steps, x: Place) -> None:
    """Appends x = 1, of contiguous matrices."""
    steps.run(_identity(x.layout.dtype), (x,), {}, x.layout.shape)


def subtract(steps: Steps, x: Place, y: Place) -> None:
    """Appends x = x - y."""
    given = {"x": x, "y": y}
    described = tuple(Address.of(place.layout) for place in given.values())
    numbers = numbers_of(list(given), [place.layout for place in given.values()], {})
    step = step_of(_difference(*described), range(2), numbers, x.layout.shape)
    steps.add(step, [place.position for place in given.values()])


@lru_cache(maxsize=256)
def _difference(first: Address, second: Address) -> Program:
    b = Builder(f"atlas_less_{first.dtype}", rank=len(first.steps))
    x = Operand(b, "x", first, Access.READ_WRITE, first.dtype)
    y = Operand(b, "y", second, Access.READ, second.dtype)
    at = [b.coordinate(axis) for axis in range(len(first.steps))]
    x.put(x.at(*at) - y.at(*at), *at)
    return b.build()


@lru_cache(maxsize=4)
def _identity(dtype: DType) -> Program:
    b = Builder(f"atlas_identity_{dtype}", rank=3)
    out = b.buffer("out", dtype, Access.WRITE)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    one, none = b.constant(1.0, dtype), b.constant(0.0, dtype)
    at = (matrix * b.extent(1) + row) * b.extent(2) + column
    b.store(out, at, select(row == column, one, none))
    return b.build()


@lru_cache(maxsize=4)
def _triangle(dtype: DType) -> Program:
    """out = the upper triangle of x's first rows."""
    b = Builder(f"atlas_qr_triangle_{dtype}", rank=3)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    m, n = b.scalar("m", index), b.scalar("n", index)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    known = b.load(x, (matrix * m + row) * n + column)
    out_at = (matrix * b.extent(1) + row) * n + column
    b.store(out, out_at, select(column < row, b.constant(0.0, dtype), known))
    return b.build()


@lru_cache(maxsize=4)
def _joined(dtype: DType) -> Program:
    """T, a lane for each row: T[i, j] = -tau_j sum over k < j of T[i, k] (V^H V)[k, j], and tau_j on the diagonal."""
    b = Builder(f"atlas_qr_joined_{dtype}", rank=2)
    products, tau = b.buffer("products", dtype, Access.READ), b.buffer("tau", dtype, Access.READ)
    t = b.buffer("t", dtype, Access.READ_WRITE)
    width = b.scalar("width", index)
    matrix, row = b.coordinate(0), b.coordinate(1)

    def at(i: Value, j: Value) -> Value:
        return (matrix * width + i) * width + j

    zero = b.constant(0.0, dtype)

    def column(j: Value) -> None:
        scale = b.load(tau, matrix * width + j)

        def term(k: Value, *total: Value) -> tuple[Value, ...]:
            return plus(total, b.load(t, at(row, k)) * b.load(products, at(k, j)))

        total = b.loop(row, j, term, first=parts(zero))
        above = -(scale * number(total))
        b.store(t, at(row, j), select(j == row, scale, select(j < row, b.constant(0.0, dtype), above)))

    b.loop(0, width, column)
    return b.build()


def _square(x: Value) -> Value:
    """|x|^2."""
    return real(x) * real(x) + imag(x) * imag(x) if x.dtype.is_complex else x * x


@lru_cache(maxsize=8)
def _panel(dtype: DType, threads: int) -> Program:
    b = Builder(f"atlas_qr_panel_{dtype}", rank=1, workgroup=threads)
    x, v = b.buffer("x", dtype, Access.READ_WRITE), b.buffer("v", dtype, Access.READ_WRITE)
    taus = b.buffer("tau", dtype, Access.WRITE)
    m, n, first, last = (b.scalar(name, index) for name in ("m", "n", "first", "last"))
    matrix, thread = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    sums, totals = b.shared("sums", dtype, PANEL * threads), b.shared("totals", dtype, PANEL)
    squares = b.shared("squares", dtype.part, threads)
    width, rows = last - first, m - first
    none, zero, one = b.constant(0.0, dtype.part), b.constant(0.0, dtype), b.constant(1.0, dtype)

    def at(row: Value, column: Value) -> Value:  # a panel's own row and column
        return (matrix * m + first + row) * n + first + column

    def v_at(row: Value, column: Value) -> Value:
        return (matrix * rows + row) * width + column

    def nothing() -> None:
        return None

    def column(j: Value) -> None:
        # Times a factor by which the largest is 1: squares of small numbers are none.
        def larger(row: Value, best: Value) -> tuple[Value]:
            z = b.load(x, at(row, j))
            for u in parts(z):
                best = select((row >= j) & (absolute(u) > best), absolute(u), best)
            return (best,)

        (best,) = b.loop(thread, rows, larger, first=(none,), step=threads)
        b.shared_store(squares, thread, best)
        b.barrier()

        def largest(k: Value, best: Value) -> tuple[Value]:
            other = b.shared_load(squares, k)
            return (select(other > best, other, best),)

        (peak,) = b.loop(0, threads, largest, first=(none,))
        b.barrier()
        empty = peak < NOTHING[dtype.part.bits]
        factor = 1.0 / select(empty, b.constant(1.0, dtype.part), peak)

        def sized(row: Value) -> Value:
            z = b.load(x, at(row, j))
            return pair(real(z) * factor, imag(z) * factor) if dtype.is_complex else z * factor

        def square(row: Value, total: Value) -> tuple[Value]:
            return (total + select(row > j, _square(sized(row)), none),)

        (total,) = b.loop(thread, rows, square, first=(none,), step=threads)
        b.shared_store(squares, thread, total)
        b.barrier()
        (under,) = b.loop(0, threads, lambda k, s: (s + b.shared_load(squares, k),), first=(none,))
        known, alpha = b.load(x, at(j, j)), sized(j)
        size = sqrt(under + _square(alpha))
        beta = select(real(alpha) > 0.0, -size, size)
        flat = under == 0.0
        if dtype.is_complex:
            flat = flat & (imag(alpha) == 0.0)
        flat = flat | empty
        divisor = select(flat, one, alpha - beta.to(dtype))
        safe = select(flat, b.constant(1.0, dtype.part), beta)
        tau = (safe - real(alpha)) / safe
        tau = pair(tau, -(imag(alpha) / safe)) if dtype.is_complex else tau
        tau = select(flat, zero, tau)
        b.barrier()

        def reflector(row: Value) -> None:
            own = select((row < j) | empty, zero, sized(row) / divisor)
            b.store(v, v_at(row, j), select(row == j, one, own))

        b.loop(thread, rows, reflector, step=threads)

        def keep() -> None:
            b.store(taus, matrix * width + j, tau)
            b.store(x, at(j, j), select(flat, known, (beta / factor).to(dtype)))

        b.if_(j % threads == thread, keep, nothing)

        def along(k: Value) -> None:
            def term(row: Value, *total: Value) -> tuple[Value, ...]:
                return plus(total, conjugate(b.load(v, v_at(row, j))) * b.load(x, at(row, k)))

            b.shared_store(
                sums,
                k * threads + thread,
                number(b.loop(thread, rows, term, first=parts(zero), step=threads)),
            )

        b.loop(j + 1, width, along)
        b.barrier()

        def total_of(k: Value) -> None:
            def term(i: Value, *total: Value) -> tuple[Value, ...]:
                return plus(total, b.shared_load(sums, k * threads + i))

            total = number(b.loop(0, threads, term, first=parts(zero)))
            b.shared_store(totals, k, conjugate(tau) * total)

        b.loop(j + 1 + thread, width, total_of, step=threads)
        b.barrier()

        def update(k: Value) -> None:
            factor = b.shared_load(totals, k)

            def less(row: Value) -> None:
                b.store(x, at(row, k), b.load(x, at(row, k)) - b.load(v, v_at(row, j)) * factor)

            b.loop(thread, rows, less, step=threads)

        b.loop(j + 1, width, update)
        b.barrier()

    b.loop(0, width, column)
    return b.build()
