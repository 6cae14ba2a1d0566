"""Jacobi's rotations: what makes Hermitian matrices diagonal, many rows and columns at once.

Neighbours are rotated until they are orthogonal, and exchanged, as in the sort by odd and even places: after so many
rounds as there are columns each has met each other, and they lie in reverse (Brent and Luk 1985, "The solution of
singular-value and symmetric eigenvalue problems on multiprocessor arrays"). Of each two, the smaller eigenvalue goes
ahead in one sweep, and behind in the next, without which equal and graded values take many sweeps. A pair that need
not be exchanged is rotated alone. A workgroup does that for a matrix of MOST columns at most. Of larger ones, a pair of
neighbouring blocks of columns is such a matrix; all pairs are rotated at once, and what the rotations are applied to is
a product. No loop takes more turns for what is computed, some take none: NaN ends as anything else does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, imag, pair, polar, real
from hologram.atlas.functions import absolute, select, sqrt
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, f64, i32, index
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.creation import fill
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.linear_algebra.householder import identity
from hologram.opset.linear_algebra.triangular_blocks import adjoint_of, part, product_of
from hologram.opset.matmul import matmul

MOST = 64  # columns that one workgroup rotates
PRODUCTS = 3  # times that columns are multiplied with one another: squares hide what is small the first time
INNER = 3  # sweeps over a pair of blocks; an odd number leaves it as one does


def sweeps(dtype: DType) -> int:
    """As many as matrices of one workgroup take at most."""
    return 16 if dtype.part is f64 else 12


def block_sweeps(dtype: DType) -> int:
    """As many as larger matrices are given: an even number."""
    return 10 if dtype.part is f64 else 8


@frozen
class Sweep:
    """Which sweep over the blocks of larger matrices: its number, the launch's pairs of a matrix, and a list of flags.

    The flags (batch, sweeps + 1) say of which matrix a sweep found anything: where it did not, the next does nothing.
    """

    number: int
    pairs: int
    flags: Place


def rotated(steps: Steps, x: Place, count: int, products: bool, of: Sweep | None = None) -> Place:
    """Appends V with V^H x V diagonal but for what is left, which is put in the place of x (batch, n, n).

    `count` sweeps at most, until one finds nothing that matters: beside the largest value, or where x is `products` of
    columns beside these. In the first, eigenvalues ascend, but for every second sweep over blocks.
    """
    batch, n, _ = x.layout.shape
    dtype = x.layout.dtype
    vectors = steps.place(dtype, (batch, n, n))
    identity(steps, vectors)
    threads = 32 if n <= 16 else 128
    numbers = {"n": n, "count": count, "first": 0 if of is None else of.number % 2}
    places = [x, vectors]
    if of is not None:
        numbers |= {"sweep": of.number, "pairs": of.pairs, "sweeps": of.flags.layout.shape[-1]}
        places.append(of.flags)
    steps.run(_rotations(dtype, threads, products, of is not None), places, numbers, (batch * threads,))
    return vectors


@lru_cache(maxsize=32)
def _rotations(dtype: DType, threads: int, products: bool, blocks: bool) -> Program:
    b = Builder(f"atlas_jacobi_{dtype}", rank=1, workgroup=threads)
    x, v = (b.buffer(name, dtype, Access.READ_WRITE) for name in ("x", "v"))
    flags = b.buffer("flags", i32, Access.READ_WRITE) if blocks else None
    n, count, first_way = (b.scalar(name, index) for name in ("n", "count", "first"))
    matrix, thread = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    pairs = MOST // 2 + 1
    sines, taus = (b.shared(name, dtype.part, pairs) for name in ("sines", "taus"))
    phases, kept = b.shared("phases", dtype, pairs), b.shared("kept", i32, pairs)
    busy, done, peak = (
        b.shared("busy", i32, threads),
        b.shared("done", i32, 1),
        b.shared("peak", dtype.part, 1),
    )
    zero, one = b.constant(0, index), b.constant(1.0, dtype.part)
    # A sweep that finds nothing larger has made that smaller still. Products leave roundings of the whole matrix.
    tiny = 2.0 ** -(dtype.part.mantissa - (5 if blocks and not products else 2))
    base = matrix * n * n

    number = flag = zero
    if flags is not None:
        number, pairs_here, width = (b.scalar(name, index) for name in ("sweep", "pairs", "sweeps"))
        flag = matrix // pairs_here * width + number

    def nothing() -> None:
        return None

    def at(row: Value, column: Value) -> Value:
        return base + row * n + column

    def ends(group: Value, odd: Value) -> tuple[Value, Value, Value]:
        """Two neighbours, or twice the one at an end; and whether they are two."""
        second = group * 2 + 1 - odd
        alone = (second == 0) | (second >= n)
        low = select(second == 0, zero, second - select(second == 0, zero, b.constant(1, index)))
        high = select(second >= n, low, second)
        return low, select(alone, low, high), ~alone

    def rotation(group: Value, odd: Value, way: Value, active: Value) -> tuple[Value]:
        i, j, two = ends(group, odd)
        low, high, across = real(b.load(x, at(i, i))), real(b.load(x, at(j, j))), b.load(x, at(i, j))
        size, phase = polar(across)
        half = (high - low) * 0.5
        wide = select(absolute(half) > absolute(size), absolute(half), absolute(size))
        whole = select(wide > 0.0, wide, select(wide == wide, one, wide))
        d, g = half / whole, size / whole
        under = absolute(d) + sqrt(d * d + g * g)
        t = g / select(under == 0.0, 1.0, under)
        t = select(d < 0.0, -t, t)
        r = sqrt(t * t + 1.0)
        left, right = low - t * size, high + t * size
        keep = two & select(way == 0, right > left, right < left)
        b.shared_store(sines, group, select(two, t / r, 1.0))
        b.shared_store(taus, group, select(two, t / (r + 1.0), 1.0))
        b.shared_store(phases, group, select(two, phase, 1.0))
        b.shared_store(kept, group, keep.to(i32))
        magnitude = absolute(size)
        beside = sqrt(absolute(low)) * sqrt(absolute(high))
        largest = beside if products else b.shared_load(peak, zero)
        matters = (magnitude > select(beside > largest, beside, largest) * tiny) & two
        return (select(matters, 1, active),)

    def applied(f: Value, s: Value, group: Value, phase: Value) -> tuple[Value, Value]:
        sine, tau = b.shared_load(sines, group), b.shared_load(taus, group)
        y = phase * s
        behind = _of(lambda y, f: y + sine * (f - tau * y), y, f)
        ahead = conjugate(phase) * _of(lambda y, f: f - sine * (y + tau * f), y, f)
        keep = b.shared_load(kept, group) != 0
        return select(keep, ahead, behind), select(keep, behind, ahead)

    def sweep(k: Value, way: Value) -> tuple[Value]:
        b.shared_store(busy, thread, 0)
        rounds = select(b.shared_agreed(done, zero) == 0, n, zero)

        def round_(r: Value) -> None:
            odd = (r + k * n) % 2
            groups = (n + 1 + odd) // 2
            (active,) = b.loop(
                thread,
                groups,
                lambda g, active: rotation(g, odd, way, active),
                first=(b.shared_load(busy, thread),),
                step=threads,
            )
            b.shared_store(busy, thread, active)
            b.barrier()

            def both(item: Value) -> None:
                p, q = item // groups, item % groups
                (i, j, _), (first, second, _) = ends(p, odd), ends(q, odd)
                right, left = conjugate(b.shared_load(phases, q)), b.shared_load(phases, p)
                over = applied(b.load(x, at(i, first)), b.load(x, at(i, second)), q, right)
                under = applied(b.load(x, at(j, first)), b.load(x, at(j, second)), q, right)
                columns = [applied(f, s, p, left) for f, s in zip(over, under, strict=True)]
                # What the rotation is to make 0 is 0: roundings there would matter for ever.
                own = (p == q) & (i != j)
                for row, values in zip((i, j), zip(*columns, strict=True), strict=True):
                    for column, value in zip((first, second), values, strict=True):
                        b.store(x, at(row, column), select(own & (row != column), 0.0, value))

            b.loop(thread, groups * groups, both, step=threads)

            def one_side(item: Value) -> None:
                row, q = item // groups, item % groups
                first, second, _ = ends(q, odd)
                right = conjugate(b.shared_load(phases, q))
                f, s = applied(b.load(v, at(row, first)), b.load(v, at(row, second)), q, right)
                b.store(v, at(row, first), f)
                b.store(v, at(row, second), s)

            b.loop(thread, groups * n, one_side, step=threads)
            b.barrier()

        b.loop(0, rounds, round_)
        b.barrier()

        def tell() -> None:
            (any_,) = b.loop(
                0, threads, lambda i, s: (s | b.shared_load(busy, i),), first=(b.constant(0, i32),)
            )

            def larger(k: Value, best: Value) -> tuple[Value]:
                size = absolute(real(b.load(x, at(k, k))))
                return (select(size > best, size, best),)

            if not products:
                b.shared_store(peak, zero, *b.loop(0, n, larger, first=(b.constant(0.0, dtype.part),)))
            if flags is not None:
                b.if_((k == 0) & (any_ != 0), lambda to=flags: b.store(to, flag + 1, 1), nothing)
            b.shared_store(done, zero, select((any_ == 0) & (way == first_way), 1, b.shared_load(done, zero)))

        b.if_(thread == 0, tell, nothing)
        b.barrier()
        return (b.constant(1, index) - way,)

    def start() -> None:
        still = b.constant(0, i32)
        if flags is not None:
            still = select((number > 0) & (b.load(flags, flag) == 0), 1, still)
        b.shared_store(done, zero, still)
        b.shared_store(peak, zero, 0.0)

    b.if_(thread == 0, start, nothing)
    b.barrier()
    b.loop(0, count, sweep, first=(first_way,))
    return b.build()


def _of(function: Callable[[Value, Value], Value], y: Value, f: Value) -> Value:
    """A real function of numbers, part by part."""
    if not y.dtype.is_complex:
        return function(y, f)
    return pair(function(real(y), real(f)), function(imag(y), imag(f)))


# Larger matrices: blocks of columns.


def blocks_of(n: int) -> tuple[int, int]:
    """How many blocks, an even number, of how many columns each; the last may have columns that are none."""
    blocks = -(-n // MOST) * 2
    return blocks, -(-n // blocks)


def diagonalised(steps: Steps, x: Place, target: Target, products: bool) -> Place:
    """Appends V, unitary, with V^H x V diagonal for x (batch, n, n), Hermitian, or x V orthogonal where `products`.

    V is (batch, n, columns): n or more, of which those behind are none, 0 in all rows. x is no more what it was.
    """
    batch, n, _ = x.layout.shape
    dtype = x.layout.dtype
    if n <= MOST and not products:
        return orthonormal(steps, rotated(steps, x, sweeps(dtype), False), target)
    if n <= MOST:
        vectors = None
        for _ in range(PRODUCTS):
            made = rotated(steps, product_of(steps, adjoint_of(steps, x), x, target), sweeps(dtype), True)
            x = product_of(steps, x, made, target)
            vectors = made if vectors is None else product_of(steps, vectors, made, target)
        assert vectors is not None
        return orthonormal(steps, vectors, target)
    blocks, block = blocks_of(n)
    columns = blocks * block
    rows = n if products else columns
    now, then = (steps.place(dtype, (batch, rows, columns)) for _ in range(2))
    steps.extend(fill.plan((), (now.layout,), {"value": 0}, target), (now.position,))
    steps.copy(x, part(now, slice(0, n), slice(0, n)))
    vectors, others = (steps.place(dtype, (batch, columns, columns)) for _ in range(2))
    identity(steps, vectors)
    count = block_sweeps(dtype)
    flags = steps.place(i32, (batch, count + 1))
    steps.extend(fill.plan((), (flags.layout,), {"value": 0}, target), (flags.position,))
    for sweep in range(count):
        for turn in fixed_range(blocks):
            low = turn % 2 * block
            pairs = blocks // 2 - turn % 2
            if not pairs:
                continue
            taken = _pairs(now, low, pairs, 2 * block)
            if products:
                square = product_of(steps, adjoint_of(steps, taken), taken, target)
            else:
                square = steps.converted(_diagonal(now, low, pairs, 2 * block), dtype)
            flat = Layout.contiguous(dtype, (batch * pairs, 2 * block, 2 * block))
            made = rotated(steps, Place(square.position, flat), INNER, products, Sweep(sweep, pairs, flags))
            made = Place(made.position, Layout.contiguous(dtype, square.layout.shape))
            _by_columns(steps, now, then, made, low, target)
            _by_columns(steps, vectors, others, made, low, target)
            vectors, others = others, vectors
            if products:
                now, then = then, now
                continue
            _by_rows(steps, then, now, made, low, target)
    return orthonormal(steps, part(vectors, slice(0, n), slice(0, columns)), target)


def _pairs(x: Place, low: int, count: int, width: int) -> Place:
    """Neighbouring columns: (batch, pairs, rows, width)."""
    batch, rows, _ = x.layout.shape
    whole, row, column = x.layout.strides
    layout = Layout(
        x.layout.dtype,
        (batch, count, rows, width),
        (whole, width * column, row, column),
        x.layout.offset + low * column,
    )
    return Place(x.position, layout)


def _diagonal(x: Place, low: int, count: int, width: int) -> Place:
    """Blocks on the diagonal: (batch, pairs, width, width)."""
    whole, row, column = x.layout.strides
    layout = Layout(
        x.layout.dtype,
        (x.layout.shape[0], count, width, width),
        (whole, width * (row + column), row, column),
        x.layout.offset + low * (row + column),
    )
    return Place(x.position, layout)


def _by_columns(steps: Steps, x: Place, out: Place, made: Place, low: int, target: Target) -> None:
    """Appends out = x with pairs of blocks of columns times what was made of them."""
    _, count, width, _ = made.layout.shape
    source, result = (_pairs(place, low, count, width) for place in (x, out))
    plan = matmul.plan((source.layout, made.layout), (result.layout,), {}, target)
    steps.extend(plan, (x.position, made.position, out.position))
    rows, columns = x.layout.shape[-2:]
    for edge in (slice(0, low), slice(low + count * width, columns)):
        if edge.start < edge.stop:
            steps.copy(part(x, slice(0, rows), edge), part(out, slice(0, rows), edge))


def _by_rows(steps: Steps, x: Place, out: Place, made: Place, low: int, target: Target) -> None:
    """Appends out = x with pairs of blocks of rows times the adjoint of what was made of them."""
    _, count, width, _ = made.layout.shape
    batch, rows, columns = x.layout.shape
    whole, row, column = x.layout.strides
    shape, strides = (batch, count, width, columns), (whole, width * row, row, column)
    source, result = (
        Place(p.position, Layout(p.layout.dtype, shape, strides, p.layout.offset + low * row))
        for p in (x, out)
    )
    turned = adjoint_of(steps, made)
    plan = matmul.plan((turned.layout, source.layout), (result.layout,), {}, target)
    steps.extend(plan, (turned.position, x.position, out.position))
    for edge in (slice(0, low), slice(low + count * width, rows)):
        if edge.start < edge.stop:
            steps.copy(part(x, edge, slice(0, columns)), part(out, edge, slice(0, columns)))


def orthonormal(steps: Steps, v: Place, target: Target) -> Place:
    """Appends V (3 - V^H V) / 2 for columns that are orthonormal but for roundings, which it squares."""
    square = product_of(steps, adjoint_of(steps, v), v, target)
    steps.run(_near_one(square.layout.dtype), (square,), {}, square.layout.shape)
    return product_of(steps, v, square, target)


@lru_cache(maxsize=4)
def _near_one(dtype: DType) -> Program:
    b = Builder(f"atlas_near_one_{dtype}", rank=3)
    x = b.buffer("x", dtype, Access.READ_WRITE)
    matrix, row, column = (b.coordinate(axis) for axis in range(3))
    at = (matrix * b.extent(1) + row) * b.extent(2) + column
    whole = select(row == column, b.constant(1.5, dtype), b.constant(0.0, dtype))
    b.store(x, at, whole - b.load(x, at) * 0.5)
    return b.build()
