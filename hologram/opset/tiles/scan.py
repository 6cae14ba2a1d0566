"""Running sums and products along an axis: fold chunks, scan what they give, then scan within the chunks.

No workgroup waits for another, as GPUs promise no progress to one that does (Merrill and Garland's look-back needs it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder
from hologram.atlas.functions import select
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, f32, u32
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import Step, Target, Tile, reading, told, writing
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.reduce import prod, sum_

# Of floats so many are added up from 0 before they join the sum of those before them, and so many of these before they
# join theirs: one by one they would be lost in a long sum.
BLOCK = 32
MOST_TURNS = 32_768  # of one lane's loop: half of what a software adapter allows


def along(layouts: Sequence[Layout], axis: int, who: str) -> tuple[Layout, ...]:
    """Layouts of one shape but for their size along `axis`, with that axis last and the others collapsed."""
    views = [layout if layout.ndim else layout.unsqueeze(0) for layout in layouts]
    axis = normalize_axis(axis, views[0].ndim, who)
    outer = collapse(
        [view.narrow(axis, 0, 1).squeeze(axis) if view.ndim > 1 else _point(view) for view in views]
    )
    return tuple(
        Layout(o.dtype, (*o.shape, v.shape[axis]), (*o.strides, v.strides[axis]), v.offset)
        for o, v in zip(outer, views, strict=True)
    )


def _point(view: Layout) -> Layout:
    return Layout(view.dtype, (1,), (0,), view.offset)


THREADS, ITEMS = 256, 8  # of a workgroup, and of a thread
SCAN = Tile(
    stem="scan",
    buffers=(*reading(f32, "x", "carry"), *writing(f32, "out")),
    scalars=told(
        u32, "n", "x_offset", "x_row", "x_column", "out_offset", "out_row", "out_column", "carry_row"
    ),
    types=(("T", f32),),
    constants=(("ITEMS", ITEMS),),
    workgroup=(THREADS, 1, 1),
)


def _tiled(x: Layout, out: Layout, computed: DType, limits: Limits) -> bool:
    """Whether the tile kernel can take (rows, n).

    It wants f32, rows of one stride, no strides backward, which it counts in unsigned words, and a length worth a
    workgroup.
    """
    kinds = {x.dtype, out.dtype, computed}
    fits = (
        x.ndim == 2
        and x.shape[0] <= limits.max_workgroups
        and x.shape[1] <= limits.max_workgroups * THREADS * ITEMS
    )
    return (
        limits.workgroup_memory
        and kinds == {f32}
        and f32 in limits.tile_dtypes
        and fits
        and min(*x.strides, *out.strides) >= 0
        and x.shape[1] >= THREADS
    )


def chunk_length(rows: int, n: int, limits: Limits) -> int:
    """Elements one lane takes: as many as leave every core or compute unit several lanes."""
    lanes = 65_536 if limits.workgroup_memory else 64 * (limits.parallelism or 4)  # a core takes them in turn
    return min(n, MOST_TURNS, max(64, -(-rows * n // lanes)))


def scan_steps(
    steps: Steps,
    x: Place,
    out: Place,
    computed: DType,
    target: Target,
    products: bool = False,
    *,
    of_sums: bool = False,
) -> None:
    """Appends out = the running sums (or products) of x along the last axis; both (outer..., n).

    `of_sums`: x are sums of many, of which the last digits matter.
    """
    *outer, n = out.layout.shape
    rows = math.prod(outer)
    tiled = not products and _tiled(x.layout, out.layout, computed, target.limits)
    length = THREADS * ITEMS if tiled else chunk_length(rows, n, target.limits)
    chunks = -(-n // length)
    carry = None
    if chunks > 1:
        # Sums of all chunks but the last, which nobody needs; their running sums are what the chunks start from.
        whole = x.layout.narrow(len(outer), 0, (chunks - 1) * length).reshape((*outer, chunks - 1, length))
        assert whole is not None  # splitting an axis needs no copy
        sums, carry = (steps.place(computed, (*outer, chunks - 1)) for _ in range(2))
        attributes = {"axis": len(outer) + 1, "keepdims": False, "dtype": computed}
        fold = prod if products else sum_
        steps.extend(fold.plan((whole,), (sums.layout,), attributes, target), (x.position, sums.position))
        scan_steps(steps, sums, carry, computed, target, products, of_sums=True)
    if tiled:
        carried = carry or x  # something to bind, which a row of one chunk does not read
        lines = [number for p in (x, out) for number in (p.layout.offset, *p.layout.strides)]
        step = Step(SCAN, (0, 1, 2), (n, *lines, chunks - 1), (chunks, rows, 1))
        steps.add(step, (x.position, carried.position, out.position))
        return
    places = [x, out] if carry is None else [x, carry, out]
    names = ("x", "out") if carry is None else ("x", "carry", "out")
    blocks = blocks_of(length, 1 if of_sums else 8) if computed.is_float and not products else 1
    program = _scan_program(tuple(Address.of(p.layout) for p in places), computed, products, blocks)
    numbers = numbers_of(names, [p.layout for p in places], {"n": n, "length": length})
    step = step_of(program, range(len(places)), numbers, (*outer, chunks))
    steps.add(step, [p.position for p in places])


def blocks_of(length: int, shortest: int) -> int:
    """The size of the largest blocks of so many; 1 where they are not worth it."""
    size = 1
    while size * BLOCK * shortest <= length:
        size *= BLOCK
    return size


@lru_cache(maxsize=1024)
def _scan_program(addresses: tuple[Address, ...], computed: DType, products: bool, blocks: int) -> Program:
    """A lane folds its chunk of `length` elements in blocks, from what the chunks before it fold to."""
    out_address = addresses[-1]
    name = "cumprod" if products else "cumsum"
    b = Builder(f"atlas_{name}_{out_address.dtype}", rank=len(out_address.steps))
    *outer, chunk = (b.coordinate(axis) for axis in range(b.rank))
    x = Operand(b, "x", addresses[0], Access.READ, computed)
    carry = Operand(b, "carry", addresses[1], Access.READ, computed) if len(addresses) == 3 else None
    out = Operand(b, "out", out_address, Access.WRITE, computed)
    length, n = b.scalar("length", dtypes.index), b.scalar("n", dtypes.index)
    start = chunk * length
    stop = select(start + length < n, start + length, n)
    neutral = total = b.constant(int(products), computed)
    if carry is not None:
        previous = carry
        (total,) = b.if_(chunk > 0, lambda: (previous.at(*outer, chunk - 1),), lambda: (neutral,))

    def folded(total, value):
        return total * value if products else total + value

    def sweep(size, first, last, before, total):
        """Folds blocks of a size, and each within by smaller ones; what comes before them joins what is stored."""

        def turn(i, own):
            if size == 1:
                own = folded(own, x.at(*outer, i))
                out.put(own if before is None else before + own, *outer, i)
                return (own,)
            end = select(i + size < last, i + size, last)
            ahead = own if before is None else before + own
            return (own + sweep(size // BLOCK, i, end, ahead, neutral),)

        return b.loop(first, last, turn, first=(total,), step=size)[0]

    if blocks > 1:
        sweep(blocks, start, stop, None if carry is None else total, neutral)
    else:
        sweep(1, start, stop, None, total)
    return b.build()
