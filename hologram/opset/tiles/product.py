"""Plans of matrix products: which kernel computes one, and what is copied to where it can read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from hologram.atlas.functions import reduce_add
from hologram.atlas.program import Program
from hologram.foundation.dtypes import NUMBERS, DType, f32
from hologram.foundation.errors import ShapeError
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import ROWS_OF_A_LANE, TERMS_OF_A_LANE, Limits, slice_length
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.forms import types
from hologram.opset.forms.epilogue import add_epilogue, epilogue_reads, identity
from hologram.opset.forms.map import indexed
from hologram.opset.forms.samples import cases
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.math import add
from hologram.opset.reduce import sum_
from hologram.opset.tiles import product_bulk, product_tile
from hologram.opset.tiles.product_bulk import BULK
from hologram.opset.tiles.product_kernel import Product, ProductKernel
from hologram.opset.tiles.product_tile import KERNEL

# Kernels add terms up one after the other: of longer products pieces are added up, and few results are rows.
LONG, LONG_IN_TILES, PIECE, FEW = 8192, 16_384, 4096, 9
MOST_PARTS = 1 << 24  # elements of all pieces' results that lie in memory at once


def _is_skinny(a: Layout, b: Layout, out: Layout, limits: Limits) -> bool:
    """Whether dot products along memory beat tiles of 8 x 8 results: few rows or columns, both read along k.

    Each of the few reads the other operand anew. Matrix units have tiles that read it once, so there this is for one
    row or column alone, and for others a way that may be measured. A library of the backend's own takes these too.
    """
    along_k = a.strides[-1] == 1 and b.strides[-2] == 1 and a.dtype == b.dtype == out.dtype
    few = 1 if a.dtype in limits.matrix_dtypes else product_tile.SKINNY
    return along_k and min(a.shape[-2], b.shape[-1]) <= few and not limits.own_products


def _batched(layout: Layout, batch: tuple[int, ...]) -> Layout | None:
    """A layout (..., r, c) as (batch, r, c), or None where the batch axes have no common stride."""
    full = layout.expand((*batch, *layout.shape[-2:]))
    one = Layout(full.dtype, full.shape[:-2], full.strides[:-2], full.offset).reshape(
        (-1,) if full.size else (0,)
    )
    if one is None:
        return None
    return Layout(full.dtype, (*one.shape, *full.shape[-2:]), (*one.strides, *full.strides[-2:]), full.offset)


def product_plan(
    a: Layout, b: Layout, out: Layout, dtype: DType, target: Target, epilogue: Program | None = None
) -> Plan:
    """Steps for out = epilogue(a @ b), where operands 0 and 1 are a and b, then come what the epilogue reads, then out.

    What the tile kernels cannot read or write (other dtypes, batch axes without a common stride) goes through scratch;
    what they cannot compute (integers, no inner elements) is a reduction, with the epilogue as a program of its own, as
    it is where a kernel cannot see all it reads. `dtype` is that of the product, which `out` converts.
    """
    reads = tuple(range(2, 2 + len(epilogue_reads(epilogue))))
    steps = Steps(3 + len(reads))
    final = Place(2 + len(reads), out)
    fused = 3 + len(reads) <= target.limits.max_bindings
    long = _is_long(a, b, out, dtype, target.limits)
    if fused and not long and _tiled(steps, a, b, final, dtype, target, epilogue):
        return steps.plan()
    value = final if epilogue is None else steps.place(dtype, out.shape)
    if long and out.shape[-2] * out.shape[-1] <= FEW:
        _summed(steps, Place(0, a), Place(1, b), value, target)
    elif long:
        _by_pieces(steps, a, b, value, target)
    elif (fused and epilogue is None) or not _tiled(steps, a, b, value, dtype, target, None):
        _summed(steps, Place(0, a), Place(1, b), value, target)
    if epilogue is not None:
        add_epilogue(steps, epilogue, value, reads, final, out.shape[-1])
    return steps.plan()


def _is_long(a: Layout, b: Layout, out: Layout, dtype: DType, limits: Limits) -> bool:
    """Whether many terms of f32 are nobody else's to add up: neither a vendor's library's nor cut already."""
    alone = not (limits.reproducible or f32 in limits.library_products | limits.rounded_dtypes)
    most = LONG if limits.own_products else LONG_IN_TILES
    return alone and a.shape[-1] > most and {a.dtype, b.dtype, out.dtype, dtype} == {f32}


def _by_pieces(steps: Steps, a: Layout, b: Layout, out: Place, target: Target) -> None:
    """Appends products of PIECE terms, and their sum."""
    batch, k = out.layout.shape[:-2], a.shape[-1]
    a, b = (x.expand((*batch, *x.shape[-2:])) for x in (a, b))
    whole, rest = divmod(k, PIECE)

    def product(first: int, count: int, length: int, parts: Place, into: Layout) -> None:
        left, right = (_slices(x, axis, first * PIECE, count, length) for x, axis in ((a, -1), (b, -2)))
        steps.extend(product_plan(left, right, into, f32, target), (0, 1, parts.position))

    if whole * out.layout.size > MOST_PARTS:  # one after the other, in memory for one
        part = steps.place(f32, (1, *out.layout.shape))
        for first in range(whole + (rest > 0)):
            length = PIECE if first < whole else rest
            own = part if first else out
            product(first, 1, length, own, own.layout if first else out.layout.unsqueeze(0))
            if first:
                plan = add.plan((out.layout, part.layout.squeeze(0)), (out.layout,), {}, target)
                steps.extend(plan, (out.position, part.position, out.position))
        return
    parts = steps.place(f32, (whole + (rest > 0), *out.layout.shape))
    for first, count, length in ((0, whole, PIECE), (whole, 1, rest)):
        if length:
            product(first, count, length, parts, parts.layout.narrow(0, first, count))
    add_up = {"axis": 0, "keepdims": False, "dtype": f32}
    plan = sum_.plan((parts.layout,), (out.layout,), add_up, target)
    steps.extend(plan, (parts.position, out.position))


def _tiled(
    steps: Steps, a: Layout, b: Layout, final: Place, dtype: DType, target: Target, epilogue: Program | None
) -> bool:
    """Appends the product by a tile kernel; False, and nothing appended, where none applies."""
    limits = target.limits
    used = dtype if dtype in limits.product_dtypes else dtype.computed
    out = final.layout
    if used not in limits.product_dtypes or not a.shape[-1] or _is_skinny(a, b, out, limits):
        return False
    batch = out.shape[:-2]
    sizes = (math.prod(batch), out.shape[-2], a.shape[-1], out.shape[-1])
    candidate = _candidate(a, b, batch, sizes, used, target, fused=epilogue is not None)
    if candidate is None:
        return False
    kernel = product_tile.of(candidate)
    summed = used.computed
    widens = used in limits.panel_dtypes
    stored = (used, summed) if widens or kernel.widens else (used,)
    if widens and epilogue is not None:  # which works on sums, in f32
        value = steps.place(summed, out.shape)
        done = _tiled(steps, a, b, value, dtype, target, None)
        assert done
        reads = range(2, 2 + len(epilogue_reads(epilogue)))
        add_epilogue(steps, epilogue, value, reads, final, out.shape[-1])
        return True
    direct = _batched(out, batch) if out.dtype in stored else None
    direct = direct if direct is not None and kernel.writable(direct) else None
    view = direct or _batched(Layout.contiguous(used, out.shape), batch)
    assert view is not None
    left = _readable(steps, Place(0, a), used, batch, kernel, -1, sizes[3])
    right = _readable(steps, Place(1, b), used, batch, kernel, -2, sizes[1])
    reads = range(2, 2 + len(epilogue_reads(epilogue)))
    operands = (left.position, right.position)
    if candidate.parts > 1:
        product = Product(left.layout, right.layout, Layout.contiguous(summed, view.shape))
        cut = _parts_at_once if kernel.adds_parts else _parts
        parts = cut(steps, product, candidate, operands)
        add_epilogue(
            steps, epilogue or identity(summed), parts, reads, final, out.shape[-1], parts.layout.shape[0]
        )
        return True
    result = final if direct else steps.place(used, out.shape)
    product = Product(left.layout, right.layout, view)
    positions = (*operands, result.position, *reads)
    for ranges in kernel.slices(candidate, sizes, limits.max_workgroups):
        part = product.cut(*ranges)
        tile, scalars = kernel.tile(candidate, part, epilogue)
        grid = kernel.grid(candidate, part.sizes)
        steps.add(Step(tile, tuple(range(len(positions))), scalars, grid), positions)
    if result is not final:
        steps.copy(result, final)
    return True


def _candidate(
    a: Layout,
    b: Layout,
    batch: tuple[int, ...],
    sizes: tuple[int, int, int, int],
    dtype: DType,
    target: Target,
    *,
    fused: bool,
) -> Candidate | None:
    """The kernel that a product takes; None where it is dot products, or one launch has too few workgroups for it."""
    limits = target.limits
    asked = Problem(KERNEL, dtype, sizes, (a.strides[-1] == 1, b.strides[-2] == 1))
    if limits.bulk_bytes and not (_mapped(a, dtype, batch, 2) and _mapped(b, dtype, batch, 1)):
        limits = replace(limits, bulk_bytes=0)
    if fused:  # with an epilogue, which the vendor's library has not, and the choice was measured without
        limits = replace(limits, library_products=frozenset())
    candidate = product_tile.choice(sizes, asked, replace(target, limits=limits))
    if candidate == product_tile.DOTS:
        return None
    if len(product_tile.of(candidate).slices(candidate, sizes, limits.max_workgroups)) == 1:
        return candidate
    candidate = product_tile.choice(sizes, asked, replace(target, limits=replace(limits, bulk_bytes=0)))
    return None if fused or candidate.parts > 1 else candidate  # rows, and parts, are counted of the whole


def _parts(steps: Steps, product: Product, candidate: Candidate, operands: tuple[int, int]) -> Place:
    """Appends the products of parts of k: (parts, m, n)."""
    kernel, (_, m, k, n) = product_tile.of(candidate), product.sizes
    length = -(-k // candidate.parts // product_tile.UNIT_LINE) * product_tile.UNIT_LINE
    whole, rest = divmod(k, length)
    place = steps.place(product.out.dtype, (whole + (rest > 0), m, n))
    for start, depth, count in ((0, length, whole), (whole * length, rest, 1 if rest else 0)):
        if count:
            part = product.along_k(start, depth, count)
            part = replace(part, out=replace(part.out, offset=start // length * m * n))
            tile, scalars = kernel.tile(candidate, part, None)
            grid = kernel.grid(candidate, part.sizes)
            steps.add(Step(tile, (0, 1, 2), scalars, grid), (*operands, place.position))
    return place


def _parts_at_once(steps: Steps, product: Product, candidate: Candidate, operands: tuple[int, int]) -> Place:
    """As `_parts`, by one launch: the kernel itself begins where its part does."""
    (_, m, k, n), depth = product.sizes, candidate.constant("TILE_K")
    length = -(-k // candidate.parts // depth) * depth
    out = Layout.contiguous(product.out.dtype, (-(-k // length), m, n))
    place = steps.place(out.dtype, out.shape)
    tile, scalars = product_bulk.tile(candidate, replace(product, out=out), length, None)
    columns, rows, _ = BULK.grid(candidate, product.sizes)
    steps.add(Step(tile, (0, 1, 2), scalars, (columns, rows, out.shape[0])), (*operands, place.position))
    return place


def _mapped(layout: Layout, dtype: DType, batch: tuple[int, ...], inner: int) -> bool:
    """Whether the device can copy boxes of an operand: as it lies, or of the copy that a plan makes of it anyway."""
    view = _batched(layout, batch) if layout.dtype == dtype else None
    return view is None or product_bulk.mapped(view, inner) is not None


def _readable(
    steps: Steps,
    source: Place,
    dtype: DType,
    batch: tuple[int, ...],
    kernel: ProductKernel,
    inner: int,
    uses: int,
) -> Place:
    """An operand as (batch, rows, columns) where the tile kernel can read it: as it lies, or copied.

    `inner` is the axis along k, of the last two; `uses` is how often an element is needed.
    """
    layout = source.layout
    view = _batched(layout, batch) if layout.dtype == dtype else None
    scattered = view is not None and product_tile.scattered(kernel, view, inner, uses)
    if view is not None and not scattered and kernel.readable(view):
        return Place(source.position, view)
    if not _batched(Layout.contiguous(dtype, layout.shape), batch):
        layout = layout.expand((*batch, *layout.shape[-2:]))
    crossed = scattered and inner == -2
    *lead, columns = _transposed(layout).shape if crossed else layout.shape
    padded = steps.place(dtype, (*lead, -(-columns // product_tile.UNIT_LINE) * product_tile.UNIT_LINE))
    copied = padded.layout.narrow(len(lead), 0, columns)
    copied = _transposed(copied) if crossed else copied
    steps.copy(Place(source.position, layout), Place(padded.position, copied))
    view = _batched(copied, batch)
    assert view is not None
    return Place(padded.position, view)


def _transposed(layout: Layout) -> Layout:
    return layout.permute((*range(layout.ndim - 2), layout.ndim - 1, layout.ndim - 2))


def _summed(steps: Steps, a: Place, b: Place, out: Place, target: Target) -> None:
    """Appends the product as a reduction: for what no tile kernel computes.

    Neighbours are along the rows of the result, so these shall be rows of memory, and those of b: its transpose is
    computed where that suits it, and an operand that many rows read across memory is copied. A reproducible executor,
    which computes all products so, takes them in pieces that depend on sizes alone.
    """
    dtype = types.promoted((a.layout.dtype, b.layout.dtype))
    if target.limits.reproducible and dtype.computed != dtype:
        # One operand at least becomes f32, as partial sums are: those whose elements are read often.
        *_, m, n = out.layout.shape
        often = n >= ROWS_OF_A_LANE, m >= ROWS_OF_A_LANE
        a, b = (
            steps.converted(p, dtype.computed) if o or not any(often) else p
            for p, o in zip((a, b), often, strict=True)
        )
        dtype = dtype.computed
    if out.layout.dtype != dtype:
        wide = steps.place(dtype, out.layout.shape)
        _summed(steps, a, b, wide, target)
        steps.copy(wide, out)
        return
    if out.layout.strides[-2] == 1 and out.layout.shape[-2] > 1:
        a, b, out = (Place(p.position, _transposed(p.layout)) for p in (b, a, out))
    if b.layout.strides[-1] != 1 and out.layout.shape[-2] >= ROWS_OF_A_LANE:
        copied = steps.place(b.layout.dtype, b.layout.shape)
        steps.copy(b, copied)
        b = copied
    batch = out.layout.shape[:-2]
    a, b = (Place(p.position, p.layout.expand((*batch, *p.layout.shape[-2:]))) for p in (a, b))
    (_in_pieces if target.limits.reproducible else _at_once)(steps, a, b, out, target)


def _at_once(steps: Steps, a: Place, b: Place, out: Place, target: Target) -> None:
    """Appends one reduction."""
    step = product_by_reduction.plan((a.layout, b.layout), (out.layout,), {}, target).steps[0]
    steps.add(step, (a.position, b.position, out.position))


def _in_pieces(steps: Steps, a: Place, b: Place, out: Place, target: Target) -> None:
    """Appends reductions of as many terms as one lane adds up, and of as many rows as lanes take several of."""
    k, m = a.layout.shape[-1], out.layout.shape[-2]
    if k > TERMS_OF_A_LANE:
        terms = slice_length(k, -(-k // TERMS_OF_A_LANE))  # as rows are cut: split_rows, of the compiler
        whole, rest = divmod(k, terms)
        parts = steps.place(out.layout.dtype, (whole + (rest > 0), *out.layout.shape))
        for first, count, length in ((0, whole, terms), (whole, 1, rest)):
            if length:
                left, right = (
                    Place(p.position, _slices(p.layout, axis, first * terms, count, length))
                    for p, axis in ((a, -1), (b, -2))
                )
                result = Place(parts.position, parts.layout.narrow(0, first, count))
                _in_pieces(steps, left, right, result, target)
        add_up = {"axis": 0, "keepdims": False, "dtype": out.layout.dtype}
        plan = sum_.plan((parts.layout,), (out.layout,), add_up, target)
        steps.extend(plan, (parts.position, out.position))
        return
    cut = m - m % ROWS_OF_A_LANE
    for start, length in ((0, cut), (cut, m - cut)):
        if length:
            left, result = (
                Place(p.position, p.layout.narrow(p.layout.ndim - 2, start, length)) for p in (a, out)
            )
            _at_once(steps, left, b, result, target)


def _slices(layout: Layout, axis: int, start: int, count: int, length: int) -> Layout:
    """`count` slices of an axis, each `length` long, as a new first axis."""
    axis += layout.ndim
    part = layout.narrow(axis, start, count * length)
    shape, strides = list(part.shape), list(part.strides)
    shape[axis] = length
    return Layout(part.dtype, (count, *shape), (length * strides[axis], *strides), part.offset)


def _product_window(a, b):
    return (a.shape[-1],)


def _product_shape(a, b):
    if min(a.ndim, b.ndim) < 2 or (*a.shape[:-2], a.shape[-1]) != b.shape[:-1]:
        wanted = "a (..., m, k) and b (..., k, n) are needed"
        raise ShapeError(f"product_by_reduction: {wanted}, got {a.shape} and {b.shape}")
    return Layout.contiguous(types.promoted((a.dtype, b.dtype)), (*a.shape[:-1], b.shape[-1]))


def _reduced(a: Any, b: Any) -> Any:
    return product_by_reduction(a, b)


@indexed(shape_of=_product_shape, window=_product_window, dtypes=NUMBERS, reference=np.matmul,
         samples=cases(((3, 4), (4, 5), {}), ((2, 7, 1), (2, 1, 3), {}), ((2, 3, 2, 5), (2, 3, 5, 1), {}),
                       low=-3, high=3),
         ulp=4, absolute=64.0, beyond=1024.0, methods=False, gradient={
             "a": lambda cotangent, b: _reduced(cotangent, b.mT),
             "b": lambda cotangent, a: _reduced(a.mT, cotangent),
         })  # fmt: skip
def product_by_reduction(at, window, a, b):
    """The matrix product of operands with equal batch axes, written as the sum it is."""
    *batch, i, j = at
    dtype = types.promoted((a.computed, b.computed))
    return reduce_add(a.at(*batch, i, *window).to(dtype) * b.at(*batch, *window, j).to(dtype))
