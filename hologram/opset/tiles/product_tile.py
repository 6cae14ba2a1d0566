"""The tile kernels of matrix products: which there are, which one a device takes, and what each can read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType, f32, u32
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Target, Tile, reading, told, writing
from hologram.opset.forms.epilogue import epilogue_reads
from hologram.opset.tiles import product_bulk, product_library
from hologram.opset.tiles.product_bulk import BULK
from hologram.opset.tiles.product_library import LIBRARY

KERNEL = "matmul"  # of a Problem
UNITS = "matmul_units"  # the stem of the kernel for matrix units
# Stems of kernels that write sums as they are too, in another dtype than they read.
WIDENING = (UNITS, BULK, LIBRARY)
SKINNY = 4  # rows or columns up to which a product is a handful of dot products
DOTS = Candidate("product_by_reduction", (), (0, 0))  # the way of those, which has no tile
SCALARS = told(
    u32, "m", "k", "n",
    "a_offset", "a_batch", "a_row", "a_column",
    "b_offset", "b_batch", "b_row", "b_column",
    "out_offset", "out_batch", "out_row", "out_column",
)  # fmt: skip

# The loops of a software adapter's thread may take 65,000 turns together; its kernels take four elements a turn.
SOFTWARE_DEPTH = 4 * 64_000
LEAST_DEPTH = 256  # elements of a part of k: below, adding parts up costs more than idle cores
MOST_PARTS = 16
ENOUGH_GROUPS = 64  # workgroups that keep a GPU busy whose size we do not know
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
AHEAD = "matmul_ahead"  # the stem of the kernel that brings f32 ahead of use
AHEAD_TILES = ((128, 128, 8, 4), (128, 64, 8, 4), (64, 128, 8, 4), (64, 64, 8, 4), (128, 128, 16, 2))
UNIT_SIDE = 16  # rows and columns of a subgroup's least part of such a tile
UNIT_BYTES = 16  # that this kernel loads at once
UNIT_LINE = 8  # elements, of any dtype: a multiple of as many


@frozen
class Product:
    """A batch of matrix products, as the tile kernels see it: every operand with three strides."""

    a: Layout  # (batch, m, k)
    b: Layout  # (batch, k, n)
    out: Layout  # (batch, m, n)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, m, k, n."""
        return (*self.a.shape, self.b.shape[2])  # type: ignore[return-value]

    @property
    def scalars(self) -> tuple[int, ...]:
        """Launch scalars, in the order of SCALARS."""
        described = list(self.sizes[1:])
        for layout in (self.a, self.b, self.out):
            described += [layout.offset, *layout.strides]
        return tuple(described)

    def cut(self, matrices: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> Product:
        """Some of the results: the first of each, and how many."""
        a = self.a.narrow(0, *matrices).narrow(1, *rows)
        b = self.b.narrow(0, *matrices).narrow(2, *columns)
        return Product(a, b, self.out.narrow(0, *matrices).narrow(1, *rows).narrow(2, *columns))

    def along_k(self, start: int, length: int, batch: int = 1) -> Product:
        """`batch` products of `length` steps along k each, one after the other from `start` on; of a single product.

        Their results lie one behind the other.
        """
        _, m, _, n = self.sizes
        a_row, a_column = self.a.strides[1:]
        b_row, b_column = self.b.strides[1:]
        return Product(
            replace(
                self.a,
                shape=(batch, m, length),
                strides=(length * a_column, a_row, a_column),
                offset=self.a.offset + start * a_column,
            ),
            replace(
                self.b,
                shape=(batch, length, n),
                strides=(length * b_row, b_row, b_column),
                offset=self.b.offset + start * b_row,
            ),
            Layout(self.out.dtype, (batch, m, n), (m * n, n, 1)),
        )


def choice(sizes: tuple[int, int, int, int], asked: Problem, target: Target) -> Candidate:
    """The tuned way where there is one that the device can go, else the default."""
    found = set(candidates(sizes, asked.dtype, target.limits))
    tuned = target.choices(asked) if len(found) > 1 else None
    return tuned if tuned in found else default(sizes, asked.dtype, target.limits)


def default(sizes: tuple[int, int, int, int], dtype: DType, limits: Limits) -> Candidate:
    """A sane way without tuning.

    Real GPUs bring the operands through workgroup memory: larger workgroups reuse more of it, smaller ones leave no
    compute unit idle. Where a CPU emulates the adapter, loads are dear and workgroup memory saves none: subgroups share
    what they load, as many rows as leave no core idle. Few results of long sums are cut into parts along k.
    """
    found = tuple(c for c in candidates(sizes, dtype, limits) if c.stem != LIBRARY and c != DOTS)
    batch, m, _, n = sizes
    bulk = [c for c in found if c.stem == BULK and c.parts == 1 and min(m, n) > c.constant("TILE_M") // 2]
    large = [c for c in bulk if groups(c, sizes) >= (limits.parallelism or ENOUGH_GROUPS)]
    if large:
        return large[0]
    units = [c for c in found if c.stem == UNITS]
    if units:
        return _default_units(units, sizes, limits)
    whole = [c for c in found if c.parts == found[0].parts]
    chosen = whole[0]
    if limits.own_products:
        return chosen
    if limits.software:
        for candidate in whole:  # largest tiles first
            rows, _ = extent(candidate)
            chosen = candidate
            if rows <= 8 or (rows < 2 * m and groups(candidate, sizes) >= 2 * limits.parallelism):
                break
    elif limits.copies_ahead and dtype is f32 and min(m, n) > 8:
        ahead = {extent(c): c for c in reversed(whole) if c.stem == AHEAD}
        large, small = ahead[128, 128], ahead[64, 64]
        chosen = large if groups(large, sizes) >= (limits.parallelism or ENOUGH_GROUPS) else small
    else:
        side = (16, 16) if batch * m * n >= LARGE else (8, 8)
        square = [c for c in whole if c.threads == side]
        chosen = square[0] if square else min(whole, key=lambda c: math.prod(c.threads))
        if min(m, n) <= 8:
            flat = [c for c in whole if c.threads == ((64, 1) if m <= n else (1, 64))]
            chosen = flat[0] if flat else chosen
    enough = 2 * limits.parallelism if limits.software else ENOUGH_GROUPS
    parts = [c for c in found if replace(c, parts=chosen.parts) == chosen]
    return next((c for c in parts if groups(c, sizes) * c.parts >= enough), parts[-1])


def _default_units(units: list[Candidate], sizes: tuple[int, int, int, int], limits: Limits) -> Candidate:
    """The larger square tile where it leaves no compute unit idle, else the smaller; a flat one for few rows."""
    _, m, _, n = sizes
    enough = limits.parallelism or ENOUGH_GROUPS
    first = {extent(c): c for c in reversed(units) if c.parts == 1}  # of each size
    if min(m, n) <= UNIT_SIDE:
        chosen = first[16, 64] if m <= n else first[64, 16]
    else:
        large, small = first[128, 128], first[64, 64]
        large = large if limits.copies_ahead else small  # 32 x 32 a subgroup are registers enough
        chosen = large if groups(large, sizes) >= enough else small
    parts = [c for c in units if replace(c, parts=1) == chosen]
    return next((c for c in parts if groups(c, sizes) * c.parts >= enough), parts[-1])


def candidates(sizes: tuple[int, int, int, int], dtype: DType, limits: Limits) -> Iterator[Candidate]:
    """Every way the device can go, those of one tile with more and more parts."""
    batch, _, k, _ = sizes
    least = -(-k // SOFTWARE_DEPTH) if limits.software else 1
    most = min(MOST_PARTS, k // LEAST_DEPTH) if batch == 1 and not limits.own_products else 1
    for tile in _tiles(dtype, limits):
        # Parts are kept, and added up, in the dtype of sums; this kernel alone writes another than it reads.
        cut = tile.stem in WIDENING or dtype.computed == dtype
        counts = [least, *(p for p in (2, 4, 8, 16) if cut and least < p <= most)]
        for parts in counts:
            yield replace(tile, parts=parts)
    yield from product_library.tiles(dtype, limits)
    if dtype in limits.matrix_dtypes and min(sizes[1], sizes[3]) <= SKINNY:
        yield DOTS


def _tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    if limits.own_products:  # which chooses its own
        yield Candidate("matmul", _quads(2, 2, 16), (8, 8))
    elif not limits.software:
        if dtype in limits.matrix_dtypes:
            yield from product_bulk.tiles(dtype, limits)
            yield from _unit_tiles(dtype, limits)
        if limits.copies_ahead and dtype is f32:
            yield from _ahead_tiles(limits)
        itemsize = dtype.computed.itemsize
        for x, y, m, n, depth in WORKGROUPS:
            needed = depth * 4 * (m * y + 1 + n * x + 1) * itemsize
            if x * y <= limits.max_workgroup_threads and needed <= limits.shared_bytes:
                yield Candidate("matmul", _quads(m, n, depth), (x, y))
    elif limits.subgroup >= 4:
        for rows in ROWS:
            if rows <= 4 * limits.subgroup:
                constants = (("ROWS", rows), ("SUBGROUP", limits.subgroup))
                yield Candidate("matmul_subgroup", constants, (limits.subgroup, 1))
    else:
        for threads in ((8, 8), (16, 4), (4, 4), (2, 2)):
            yield Candidate("matmul_register", (), threads)


def _ahead_tiles(limits: Limits) -> Iterator[Candidate]:
    for m, n, depth, stages in AHEAD_TILES:
        needed = stages * depth * (m + n + 8) * f32.itemsize  # lines are padded by four elements
        if m * n // 64 <= limits.max_workgroup_threads and needed <= limits.shared_bytes:
            constants = (("TILE_M", m), ("TILE_N", n), ("TILE_K", depth), ("STAGES", stages))
            yield Candidate(AHEAD, constants, (m * n // 64, 1))


def _unit_tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    for m, n, halves, rows, columns, most in UNIT_TILES:
        depth, stages = 2 * halves // dtype.itemsize, most if limits.copies_ahead else 1
        threads = rows * columns * limits.subgroup
        needed = stages * (m + n) * depth * dtype.itemsize
        if threads <= limits.max_workgroup_threads and needed <= limits.shared_bytes:
            names = ("TILE_M", "TILE_N", "TILE_K", "SUBGROUPS_M", "SUBGROUPS_N", "STAGES")
            constants = zip(names, (m, n, depth, rows, columns, stages), strict=True)
            yield Candidate(UNITS, tuple(constants), (threads, 1))


def _quads(m: int, n: int, depth: int) -> tuple[tuple[str, int], ...]:
    return (("QUADS_M", m), ("QUADS_N", n), ("TILE_K", depth))


def extent(candidate: Candidate) -> tuple[int, int]:
    """Rows and columns of results of a workgroup."""
    x, y = candidate.threads
    if candidate.stem in (AHEAD, *WIDENING):
        return candidate.constant("TILE_M"), candidate.constant("TILE_N")
    if candidate.stem == "matmul":
        return 4 * candidate.constant("QUADS_M") * y, 4 * candidate.constant("QUADS_N") * x
    if candidate.stem == "matmul_subgroup":
        return candidate.constant("ROWS"), 4 * x
    return 8 * y, 8 * x


def grid(candidate: Candidate, sizes: tuple[int, int, int, int]) -> tuple[int, int, int]:
    """Workgroups along n, m and the batch."""
    batch, m, _, n = sizes
    if candidate.stem == LIBRARY:
        return (min(n, 1), min(m, 1), batch)
    rows, columns = extent(candidate)
    return (-(-n // columns), -(-m // rows), batch)


def slices(
    candidate: Candidate, sizes: tuple[int, int, int, int], most: int
) -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Matrices, rows and columns (the first, and how many) of launches of at most so many workgroups along an axis."""
    batch, m, _, n = sizes
    if candidate.stem == LIBRARY:
        # Rows and columns are its own matter; not all of its kernels take more matrices.
        return [(matrices, (0, m), (0, n)) for matrices in _spans(batch, most)]
    rows, columns = extent(candidate)
    return list(itertools.product(_spans(batch, most), _spans(m, rows * most), _spans(n, columns * most)))


def _spans(length: int, step: int) -> list[tuple[int, int]]:
    return [(first, min(length - first, step)) for first in fixed_range(0, length, step)] or [(0, 0)]


def groups(candidate: Candidate, sizes: tuple[int, int, int, int]) -> int:
    return math.prod(grid(candidate, sizes))


def tile(candidate: Candidate, product: Product, epilogue: Program | None) -> tuple[Tile, tuple[int, ...]]:
    """The kernel for a product, and its scalars."""
    if candidate.stem == BULK:
        return product_bulk.tile(candidate, product.a, product.b, product.out, product.sizes[2], epilogue)
    return _tile(candidate, product, epilogue), product.scalars


def _tile(candidate: Candidate, product: Product, epilogue: Program | None) -> Tile:
    dtype = product.a.dtype
    constants: tuple[tuple[str, int | bool], ...] = candidate.constants
    names = (("T", dtype), ("ACC", dtype.computed))
    if candidate.stem == LIBRARY:
        names = (*names, ("OUT", product.out.dtype))
    if candidate.stem == UNITS:
        constants = (*constants, *_lying(product), ("OUT_PAIRS", line_axis(product.out, 2) == 2))
        names = (*names, ("OUT", product.out.dtype))
    if candidate.stem == AHEAD:
        constants = (*constants, *_lying(product), ("OUT_QUADS", line_axis(product.out, 4) == 2))
    if candidate.stem == "matmul_subgroup":
        a, b = line_axis(product.a), line_axis(product.b)
        ragged = bool(product.sizes[2] % 4)
        constants = (*constants, ("A_ALONG_K", a == 2), ("B_ALONG_K", b == 1), ("RAGGED", ragged))
    return Tile(
        stem=candidate.stem,
        buffers=(*reading(dtype, "a", "b"), *writing(product.out.dtype, "out"), *epilogue_reads(epilogue)),
        scalars=SCALARS,
        types=names,
        constants=constants,
        workgroup=(*candidate.threads, 1),
        epilogue=epilogue,
    )


def _lying(product: Product) -> Iterator[tuple[str, bool]]:
    """How operands lie: whether lines are along k, and pieces of 16 bytes can be loaded whole."""
    for name, view, inner in (("A", product.a, 2), ("B", product.b, 1)):
        axis = line_axis(view, UNIT_BYTES // view.dtype.itemsize)
        neighbours = axis or next((k for k in (inner, 3 - inner) if view.strides[k] == 1), inner)
        yield f"{name}_ALONG_K", neighbours == inner
        yield f"{name}_WHOLE", axis is not None


def line_axis(view: Layout, together: int = 4) -> int | None:
    """The axis of a (batch, rows, columns) view along which so many elements can be read together, if there is one.

    They lie next to each other along it, and the offset and the strides across it are multiples of as many.
    """
    for axis in (2, 1):
        across = (
            s for k, (s, n) in enumerate(zip(view.strides, view.shape, strict=True)) if k != axis and n > 1
        )
        if view.strides[axis] == 1 and not any(s % together for s in (view.offset, *across)):
            return axis
    return None


def readable(stem: str, view: Layout) -> bool:
    """Whether a kernel can read an operand (batch, rows, columns) as it lies."""
    if min(view.strides) < 0:
        return False
    if stem == LIBRARY:
        return product_library.readable(view)
    if stem == "matmul_register":
        return line_axis(view) == 2
    return stem in ("matmul", AHEAD, *WIDENING) or line_axis(view) is not None


def writable(stem: str, view: Layout) -> bool:
    """Whether a kernel can write results (batch, rows, columns) there."""
    return min(view.strides) >= 0 and (stem != LIBRARY or product_library.writable(view))


def scattered(stem: str, view: Layout, inner: int, uses: int) -> bool:
    """Whether a copy that lies along k pays: lines across k are far apart, and each is needed by many tiles.

    Caches and their prefetching then fail a software adapter; `inner` is the axis along k.
    """
    apart = view.strides[inner] * view.dtype.itemsize >= FAR_BYTES and view.shape[inner] > 1
    return stem == "matmul_subgroup" and apart and uses >= MUCH_USED
