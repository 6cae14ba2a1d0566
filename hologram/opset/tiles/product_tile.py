"""The tile kernels of matrix products: which there are, and which one a device takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hologram.foundation.dtypes import DType, f32
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Target
from hologram.opset.tiles.product_bulk import BULK
from hologram.opset.tiles.product_kernel import (
    ENOUGH_GROUPS,
    Constants,
    Product,
    ProductKernel,
    Sizes,
    line_axis,
)
from hologram.opset.tiles.product_library import LIBRARY

KERNEL = "matmul"  # of a Problem
SKINNY = 4  # rows or columns up to which a product is a handful of dot products
DOTS = Candidate("product_by_reduction", (), (0, 0))  # the way of those, which has no tile

# The loops of a software adapter's thread may take 65,000 turns together; its kernels take four elements a turn.
SOFTWARE_DEPTH = 4 * 64_000
LEAST_DEPTH = 256  # elements of a part of k: below, adding parts up costs more than idle cores
MOST_PARTS = 16
LARGE = 1 << 20  # results from which on workgroups of `matmul` have 16 x 16 threads, else 8 x 8
FAR_BYTES, MUCH_USED = 2048, 512  # see `scattered`
ROWS = (32, 16, 8)  # of a subgroup's tile
# Of `matmul`: workgroup x and y, quads of a thread along m and n, TILE_K.
WORKGROUPS = (
    (16, 16, 2, 2, 16), (16, 16, 2, 2, 8), (16, 16, 2, 2, 32),
    (16, 8, 2, 2, 16), (8, 16, 2, 2, 16), (8, 8, 2, 2, 16), (8, 8, 2, 2, 32),
    (16, 16, 1, 1, 16), (8, 8, 1, 1, 16), (8, 8, 1, 1, 32), (16, 16, 1, 2, 16), (16, 16, 2, 1, 16),
    (64, 1, 1, 1, 16), (1, 64, 1, 1, 16),
)  # fmt: skip
# Of `matmul_units`: TILE_M, TILE_N, TILE_K (of 16 bits; half of it of f32), subgroups along m and n, STAGES. All take
# 48 KiB of workgroup memory at most, which every device with matrix units has; the first of a size may be the default.
UNIT_TILES = (
    (128, 128, 32, 2, 2, 3), (128, 128, 32, 2, 4, 3), (256, 128, 32, 4, 2, 2), (128, 256, 32, 2, 4, 2),
    (128, 64, 32, 2, 2, 4), (64, 128, 32, 2, 2, 4), (64, 64, 32, 2, 2, 4), (64, 64, 64, 2, 2, 3),
    (16, 64, 64, 1, 4, 4), (64, 16, 64, 4, 1, 4),
)  # fmt: skip
# Of `matmul_ahead`: TILE_M, TILE_N, TILE_K, STAGES; a thread has 8 x 8 results. The first of a size may be the default.
AHEAD_TILES = ((128, 128, 8, 4), (128, 64, 8, 4), (64, 128, 8, 4), (64, 64, 8, 4), (128, 128, 16, 2))
UNIT_SIDE = 16  # rows and columns of a subgroup's least part of such a tile
UNIT_BYTES = 16  # that this kernel loads at once
UNIT_LINE = 8  # elements, of any dtype: a multiple of as many


def choice(sizes: Sizes, asked: Problem, target: Target) -> Candidate:
    """The tuned way where there is one that the device can go, else the default."""
    ways = list(candidates(sizes, asked.dtype, target.limits))
    tuned = target.choices(asked) if len(ways) > 1 else None
    return tuned if tuned is not None and tuned in ways else _default(ways, sizes, target.limits)


def default(sizes: Sizes, dtype: DType, limits: Limits) -> Candidate:
    """A sane way without tuning: that of the first kernel that has one."""
    return _default(candidates(sizes, dtype, limits), sizes, limits)


def _default(ways: Iterable[Candidate], sizes: Sizes, limits: Limits) -> Candidate:
    own: dict[str, list[Candidate]] = {}
    for way in ways:
        own.setdefault(way.stem, []).append(way)
    defaults = (k.default(own[stem], sizes, limits) for stem, k in KERNELS.items() if stem in own)
    return next(way for way in defaults if way is not None)


def candidates(sizes: Sizes, dtype: DType, limits: Limits) -> Iterator[Candidate]:
    """Every way the device can go, those of one tile with more and more parts."""
    batch, _, k, _ = sizes
    least = -(-k // SOFTWARE_DEPTH) if limits.software else 1
    most = min(MOST_PARTS, k // LEAST_DEPTH) if batch == 1 and not limits.own_products else 1
    cuts = [least, *(p for p in (2, 4, 8, 16) if least < p <= most)]
    for kernel in KERNELS.values():
        # Parts are kept, and added up, in the dtype of sums.
        counts = cuts if kernel.widens or dtype.computed == dtype else cuts[:1]
        for tile in kernel.tiles(dtype, limits):
            if kernel.undivided:
                yield tile
                continue
            for parts in counts:
                yield replace(tile, parts=parts)
    if dtype in limits.matrix_dtypes and min(sizes[1], sizes[3]) <= SKINNY:
        yield DOTS


def of(candidate: Candidate) -> ProductKernel:
    """The kernel of a way that has one."""
    return KERNELS[candidate.stem]


def scattered(kernel: ProductKernel, view: Layout, inner: int, uses: int) -> bool:
    """Whether a copy that lies along k pays: lines across k are far apart, and each is needed by many tiles.

    Caches and their prefetching then fail a software adapter; `inner` is the axis along k.
    """
    apart = view.strides[inner] * view.dtype.itemsize >= FAR_BYTES and view.shape[inner] > 1
    return kernel.prefetched and apart and uses >= MUCH_USED


def _lying(product: Product) -> Constants:
    """How operands lie: whether lines are along k, and pieces of 16 bytes can be loaded whole."""
    for name, view, inner in (("A", product.a, 2), ("B", product.b, 1)):
        axis = line_axis(view, UNIT_BYTES // view.dtype.itemsize)
        neighbours = axis or next((k for k in (inner, 3 - inner) if view.strides[k] == 1), inner)
        yield f"{name}_ALONG_K", neighbours == inner
        yield f"{name}_WHOLE", axis is not None


# By matrix units.


def _unit_tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    for m, n, halves, rows, columns, most in UNIT_TILES if dtype in limits.matrix_dtypes else ():
        depth, stages = 2 * halves // dtype.itemsize, most if limits.copies_ahead else 1
        threads = rows * columns * limits.subgroup
        needed = stages * (m + n) * depth * dtype.itemsize
        if threads <= limits.max_workgroup_threads and needed <= limits.shared_bytes:
            names = ("TILE_M", "TILE_N", "TILE_K", "SUBGROUPS_M", "SUBGROUPS_N", "STAGES")
            constants = zip(names, (m, n, depth, rows, columns, stages), strict=True)
            yield Candidate(UNITS.stem, tuple(constants), (threads, 1))


def _unit_default(ways: Sequence[Candidate], sizes: Sizes, limits: Limits) -> Candidate:
    """The larger square tile where it leaves no compute unit idle, else the smaller; a flat one for few rows."""
    _, m, _, n = sizes
    enough = limits.parallelism or ENOUGH_GROUPS
    first = {UNITS.extent(c): c for c in reversed(ways) if c.parts == 1}  # of each size
    if min(m, n) <= UNIT_SIDE:
        chosen = first[16, 64] if m <= n else first[64, 16]
    else:
        large, small = first[128, 128], first[64, 64]
        large = large if limits.copies_ahead else small  # 32 x 32 a subgroup are registers enough
        chosen = large if UNITS.groups(large, sizes) >= enough else small
    return UNITS.in_parts(chosen, ways, sizes, enough)


UNITS = ProductKernel(
    "matmul_units",
    _unit_tiles,
    _unit_default,
    lying=lambda p: (*_lying(p), ("OUT_PAIRS", line_axis(p.out, 2) == 2)),
    widens=True,
)


# By what is brought ahead of use.


def _ahead_tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    for m, n, depth, stages in AHEAD_TILES if limits.copies_ahead and dtype is f32 else ():
        needed = stages * depth * (m + n + 8) * f32.itemsize  # lines are padded by four elements
        if m * n // 64 <= limits.max_workgroup_threads and needed <= limits.shared_bytes:
            constants = (("TILE_M", m), ("TILE_N", n), ("TILE_K", depth), ("STAGES", stages))
            yield Candidate(AHEAD.stem, constants, (m * n // 64, 1))


def _ahead_default(ways: Sequence[Candidate], sizes: Sizes, limits: Limits) -> Candidate | None:
    """The larger square tile where it leaves no compute unit idle, else the smaller; none for few columns."""
    _, m, _, n = sizes
    if n <= 8 and n < m:
        return None
    first = {AHEAD.extent(c): c for c in reversed(ways) if c.parts == ways[0].parts}
    large, small = first[128, 128], first[64, 64]
    much = m > 8 and AHEAD.groups(large, sizes) >= (limits.parallelism or ENOUGH_GROUPS)
    return AHEAD.in_parts(large if much else small, ways, sizes)


AHEAD = ProductKernel(
    "matmul_ahead",
    _ahead_tiles,
    _ahead_default,
    lying=lambda p: (*_lying(p), ("OUT_QUADS", line_axis(p.out, 4) == 2)),
)


# Through workgroup memory, or by a library of the backend's own.


def _matmul_tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    if limits.own_products:  # which chooses its own
        yield Candidate(MATMUL.stem, _quads(2, 2, 16), (8, 8))
        return
    for x, y, m, n, depth in () if limits.software else WORKGROUPS:
        needed = depth * 4 * (m * y + 1 + n * x + 1) * dtype.computed.itemsize
        if x * y <= limits.max_workgroup_threads and needed <= limits.shared_bytes:
            yield Candidate(MATMUL.stem, _quads(m, n, depth), (x, y))


def _quads(m: int, n: int, depth: int) -> tuple[tuple[str, int], ...]:
    return (("QUADS_M", m), ("QUADS_N", n), ("TILE_K", depth))


def _matmul_default(ways: Sequence[Candidate], sizes: Sizes, limits: Limits) -> Candidate:
    """Larger workgroups reuse more of workgroup memory, smaller ones leave no compute unit idle."""
    batch, m, _, n = sizes
    if limits.own_products:
        return ways[0]
    whole = [c for c in ways if c.parts == ways[0].parts]
    side = (16, 16) if batch * m * n >= LARGE else (8, 8)
    flat = ((64, 1) if m <= n else (1, 64)) if min(m, n) <= 8 else None
    least = min(whole, key=lambda c: math.prod(c.threads))
    chosen = next((c for threads in (flat, side) for c in whole if c.threads == threads), least)
    return MATMUL.in_parts(chosen, ways, sizes)


MATMUL = ProductKernel(
    "matmul",
    _matmul_tiles,
    _matmul_default,
    extent=lambda c: (4 * c.constant("QUADS_M") * c.threads[1], 4 * c.constant("QUADS_N") * c.threads[0]),
)


# Where a CPU emulates the adapter: loads are dear and workgroup memory saves none.


def _subgroup_tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    """Subgroups share what they load."""
    if limits.software and not limits.own_products and limits.subgroup >= 4:
        for rows in ROWS:
            if rows <= 4 * limits.subgroup:
                constants = (("ROWS", rows), ("SUBGROUP", limits.subgroup))
                yield Candidate(SUBGROUP.stem, constants, (limits.subgroup, 1))


def _register_tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    if limits.software and not limits.own_products and limits.subgroup < 4:
        for threads in ((8, 8), (16, 4), (4, 4), (2, 2)):
            yield Candidate(REGISTER.stem, (), threads)


def _software_default(ways: Sequence[Candidate], sizes: Sizes, limits: Limits) -> Candidate:
    """As many rows as leave no core idle."""
    kernel, enough = of(ways[0]), 2 * limits.parallelism
    whole = [c for c in ways if c.parts == ways[0].parts]  # largest tiles first

    def fits(c: Candidate) -> bool:
        rows, _ = kernel.extent(c)
        return rows <= 8 or (rows < 2 * sizes[1] and kernel.groups(c, sizes) >= enough)

    return kernel.in_parts(next(filter(fits, whole), whole[-1]), ways, sizes, enough)


def _subgroup_lying(product: Product) -> Constants:
    yield "A_ALONG_K", line_axis(product.a) == 2
    yield "B_ALONG_K", line_axis(product.b) == 1
    yield "RAGGED", bool(product.sizes[2] % 4)


SUBGROUP = ProductKernel(
    "matmul_subgroup",
    _subgroup_tiles,
    _software_default,
    extent=lambda c: (c.constant("ROWS"), 4 * c.threads[0]),
    reads=lambda view: line_axis(view) is not None,
    lying=_subgroup_lying,
    prefetched=True,
)
REGISTER = ProductKernel(
    "matmul_register",
    _register_tiles,
    _software_default,
    extent=lambda c: (8 * c.threads[1], 8 * c.threads[0]),
    reads=lambda view: line_axis(view) == 2,
)

# By stem; of those that have a default for a product, the first is taken.
KERNELS = {k.stem: k for k in (BULK, UNITS, AHEAD, MATMUL, SUBGROUP, REGISTER, LIBRARY)}
