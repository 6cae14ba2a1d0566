"""Cholesky's factor and substitution, block by block: products of what is known, and programs for what is left.

A block's right side has the product of all before it subtracted, as one matrix product (our own tiles); inside of a
block a lane substitutes a column, and a workgroup factors the diagonal block, a thread a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, less, number, parts, real
from hologram.atlas.functions import select, sqrt
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, i32, index
from hologram.foundation.sizes import fixed_range
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.creation import fill
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.operation import Attributes
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.matmul import matmul

BLOCK = 32  # rows and columns


def part(place: Place, rows: slice, columns: slice) -> Place:
    layout = place.layout
    for axis, part in ((layout.ndim - 2, rows), (layout.ndim - 1, columns)):
        layout = layout.slice(axis, part.start, part.stop, part.step)
    return Place(place.position, layout)


def turned(place: Place) -> Place:
    """The transposes."""
    layout = place.layout
    return Place(place.position, layout.transpose(layout.ndim - 2, layout.ndim - 1))


def product_of(steps: Steps, a: Place, b: Place, target: Target) -> Place:
    """Appends a @ b, in scratch memory."""
    dtype = a.layout.dtype
    out = steps.place(dtype, (*a.layout.shape[:-1], b.layout.shape[-1]))
    steps.extend(
        matmul.plan((a.layout, b.layout), (out.layout,), {}, target), (a.position, b.position, out.position)
    )
    return out


def adjoint_of(steps: Steps, x: Place) -> Place:
    """The transposes, conjugated where they are complex: a copy then."""
    if not x.layout.dtype.is_complex:
        return turned(x)
    out = steps.place(x.layout.dtype, x.layout.shape)
    layouts = {"x": x.layout, "out": out.layout}
    program = _conjugated(*(Address.of(layout) for layout in layouts.values()))
    numbers = numbers_of(list(layouts), list(layouts.values()), {})
    steps.add(step_of(program, range(2), numbers, x.layout.shape), (x.position, out.position))
    return turned(out)


@lru_cache(maxsize=64)
def _conjugated(source: Address, result: Address) -> Program:
    b = Builder(f"atlas_conjugated_{source.dtype}", rank=len(source.steps))
    x = Operand(b, "x", source, Access.READ, source.dtype)
    out = Operand(b, "out", result, Access.WRITE, source.dtype)
    at = [b.coordinate(axis) for axis in range(len(source.steps))]
    out.put(conjugate(x.at(*at)), *at)
    return b.build()


# Substitution.


def substitution_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends x with a x = b; an upper triangle is a lower one, turned round."""
    a, b = sources
    x = results[0]
    if attributes["upper"]:
        back = slice(None, None, -1)
        a, b, x = part(a, back, back), part(b, back, slice(None)), part(x, back, slice(None))
    n = a.layout.shape[-1]
    for first in fixed_range(0, n, BLOCK):
        rows = slice(first, min(first + BLOCK, n))
        rest = None
        if first:
            before = slice(0, first)
            rest = product_of(steps, part(a, rows, before), part(x, before, slice(None)), target)
        substitute(
            steps,
            part(a, rows, rows),
            part(b, rows, slice(None)),
            rest,
            part(x, rows, slice(None)),
            attributes["unit"],
        )


def substitute(steps: Steps, a: Place, b: Place, rest: Place | None, x: Place, unit: bool) -> None:
    """Appends x with a x = b - rest, for a lower triangular block a; a lane for each column."""
    given = {"a": a, "b": b} | ({} if rest is None else {"rest": rest}) | {"x": x}
    described = tuple((name, Address.of(place.layout)) for name, place in given.items())
    layouts = [place.layout for place in given.values()]
    numbers = numbers_of(list(given), layouts, {"rows": a.layout.shape[-1]})
    program = _substitution(described, unit)
    step = step_of(program, range(len(given)), numbers, (*x.layout.shape[:-2], x.layout.shape[-1]))
    steps.add(step, [place.position for place in given.values()])


@lru_cache(maxsize=256)
def _substitution(described: tuple[tuple[str, Address], ...], unit: bool) -> Program:
    dtype = described[0][1].dtype
    rank = len(described[0][1].steps) - 1
    b = Builder(f"atlas_substitution_{dtype}", rank=rank)
    operands = {
        name: Operand(b, name, address, Access.READ_WRITE if name == "x" else Access.READ, dtype)
        for name, address in described
    }
    *batch, column = (b.coordinate(axis) for axis in range(rank))
    a, x = operands["a"], operands["x"]

    def row(i: Value) -> None:
        total = operands["b"].at(*batch, i, column)
        if "rest" in operands:
            total = total - operands["rest"].at(*batch, i, column)

        def term(k: Value, *total: Value) -> tuple[Value, ...]:
            return less(total, a.at(*batch, i, k) * x.at(*batch, k, column))

        total = number(b.loop(0, i, term, first=parts(total)))
        x.put(total if unit else total / a.at(*batch, i, i), *batch, i, column)

    b.loop(0, b.scalar("rows", index), row)
    return b.build()


# Cholesky's factor.


def cholesky_steps(
    steps: Steps, sources: Sequence[Place], results: Sequence[Place], attributes: Attributes, target: Target
) -> None:
    """Appends the factor, column of blocks by column; where a pivot is not above 0, NaN follows from there on."""
    (source,), (factor, info) = sources, results
    for place in (factor, info):
        steps.extend(fill.plan((), (place.layout,), {"value": 0}, target), (place.position,))
    if not factor.layout.size:
        return
    x = source if source.layout.is_contiguous and not source.layout.offset else steps.gathered(source)
    n = x.layout.shape[-1]
    flat = Layout.contiguous(x.layout.dtype, (x.layout.size // (n * n), n, n))
    x, out = Place(x.position, flat), Place(factor.position, flat)
    if attributes["upper"]:  # of the transpose
        x, out = turned(x), turned(out)
    dtype, batch = flat.dtype, flat.shape[0]
    for first in fixed_range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        own, below = slice(first, last), slice(last, n)
        rest = None
        if first:
            before = slice(0, first)
            rest = product_of(
                steps, part(out, slice(first, n), before), adjoint_of(steps, part(out, own, before)), target
            )
        block = steps.place(dtype, (batch, BLOCK, BLOCK))
        _factor(steps, part(x, own, own), rest, part(out, own, own), block, info, first)
        if last == n:
            continue
        left = Place(block.position, block.layout.narrow(1, 0, last - first).narrow(2, 0, last - first))
        under = None if rest is None else turned(part(rest, slice(last - first, n - first), slice(None)))
        substitute(steps, left, turned(part(x, below, own)), under, turned(part(out, below, own)), False)


def _factor(
    steps: Steps, x: Place, rest: Place | None, out: Place, block: Place, info: Place, first: int
) -> None:
    """Appends the factor of diagonal blocks x - rest, and its conjugate in `block`; a workgroup for each."""
    size = x.layout.shape[-1]
    given = {"x": x} | ({} if rest is None else {"rest": rest}) | {"out": out, "block": block}
    described = tuple((name, Address.of(place.layout)) for name, place in given.items())
    layouts = [place.layout for place in given.values()]
    numbers = numbers_of(list(given), layouts, {"rows": size, "first": first + 1})
    program = _diagonal_block(x.layout.dtype, described)
    step = step_of(program, range(len(given) + 1), numbers, (x.layout.shape[0] * BLOCK,))
    steps.add(step, [*(place.position for place in given.values()), info.position])


@lru_cache(maxsize=64)
def _diagonal_block(dtype: DType, described: tuple[tuple[str, Address], ...]) -> Program:
    b = Builder(f"atlas_cholesky_block_{dtype}", rank=1, workgroup=BLOCK)
    operands = {
        name: Operand(b, name, address, Access.READ if name in ("x", "rest") else Access.WRITE, dtype)
        for name, address in described
    }
    info = b.buffer("info", i32, Access.READ_WRITE)
    matrix, row = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    rows, first = b.scalar("rows", index), b.scalar("first", index)
    known = b.shared("known", dtype, BLOCK * BLOCK)  # the factor's rows
    pivot, failed = b.shared("pivot", dtype.part, 1), b.shared("failed", i32, 1)
    zero = b.constant(0, index)

    def nothing() -> None:
        return None

    def column(j: Value) -> None:
        place = select(row < rows, row, zero)
        total = operands["x"].at(matrix, place, j)
        if "rest" in operands:
            total = total - operands["rest"].at(matrix, place, j)

        def term(k: Value, *total: Value) -> tuple[Value, ...]:
            other = conjugate(b.shared_load(known, j * BLOCK + k))
            return less(total, b.shared_load(known, row * BLOCK + k) * other)

        total = number(b.loop(0, j, term, first=parts(total)))

        def keep(element: Value) -> None:
            b.shared_store(known, row * BLOCK + j, element)
            operands["out"].put(element, matrix, row, j)
            operands["block"].put(conjugate(element), matrix, row, j)

        def own() -> None:
            root = sqrt(real(total))
            b.shared_store(pivot, zero, root)
            keep(root.to(dtype))
            before = (b.shared_load(failed, zero) != 0) | (b.load(info, matrix) != 0)

            def tell() -> None:
                b.shared_store(failed, zero, 1)
                b.store(info, matrix, (first + j).to(i32))

            b.if_((real(total) <= 0.0) & ~before, tell, nothing)

        def under() -> None:
            root = b.shared_load(pivot, zero)
            keep(number([u / root for u in parts(total)]))

        b.if_(row == j, own, nothing)
        b.barrier()
        b.if_((row > j) & (row < rows), under, nothing)
        b.barrier()

    b.loop(0, rows, column)
    return b.build()
