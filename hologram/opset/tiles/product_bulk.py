"""The tile kernel of products whose operands the device copies to workgroup memory by itself, and multiplies there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType, u32
from hologram.machine.choices import Candidate
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import TensorMap, Tile, reading, told, writing
from hologram.opset.forms.epilogue import epilogue_reads
from hologram.opset.tiles.product_kernel import ENOUGH_GROUPS, Product, ProductKernel, Sizes

TILES = ((128, 256, 4), (128, 128, 6), (128, 128, 4))  # TILE_M, TILE_N, STAGES; the first is the default
LINE_BYTES = 128  # of a box's innermost axis: TILE_K, or as many rows or columns
ROWS = 64  # that four subgroups multiply together; one more subgroup asks for the copies
STEP_BYTES = 16  # that a copy's addresses and strides are multiples of
SLACK_BYTES = 1024  # to begin at a multiple of as many
BARRIER_BYTES = 16  # of a stage: two barriers
MOST = 1 << 31  # of rows, columns or matrices: coordinates are signed
OPERAND = ("offset", "elements", "lines", "batches", "line", "batch")
SCALARS = told(
    u32, "m", "k", "n", "depth", "parts",
    *(f"a_{name}" for name in OPERAND), *(f"b_{name}" for name in OPERAND),
    "out_offset", "out_batch", "out_row", "out_column",
)  # fmt: skip


def tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    """Every way the device can go."""
    depth = LINE_BYTES // dtype.itemsize
    for m, n, stages in TILES:
        threads = limits.subgroup * (m // 16 + 1)
        constants = (("TILE_M", m), ("TILE_N", n), ("TILE_K", depth), ("STAGES", stages))
        found = Candidate(BULK.stem, constants, (threads, 1))
        fits = threads <= limits.max_workgroup_threads and shared_bytes(found, dtype) <= limits.bulk_bytes
        if dtype.itemsize == 2 and dtype in limits.matrix_dtypes and fits:
            yield found


def _default(ways: Sequence[Candidate], sizes: Sizes, limits: Limits) -> Candidate | None:
    """The largest that leaves no compute unit idle, of products that fill it."""
    least, enough = min(sizes[1], sizes[3]), limits.parallelism or ENOUGH_GROUPS
    full = (c for c in ways if c.parts == 1 and least > c.constant("TILE_M") // 2)
    return next((c for c in full if BULK.groups(c, sizes) >= enough), None)


def shared_bytes(candidate: Candidate, dtype: DType) -> int:
    """Workgroup memory for the stages."""
    m, n, depth, stages = (candidate.constant(name) for name in ("TILE_M", "TILE_N", "TILE_K", "STAGES"))
    return stages * ((m + n) * depth * dtype.itemsize + BARRIER_BYTES) + SLACK_BYTES


def mapped(view: Layout, inner: int) -> tuple[bool, tuple[int, ...]] | None:
    """A (batch, rows, columns) view as a tensor with axes: whether its lines lie along `inner`, and OPERAND's scalars.

    None where it is none: elements of a line are neighbours; lines, and matrices behind them, follow one another
    without overlap at multiples of 16 bytes, matrices at multiples of what lines do. That is what the driver's
    documents ask of tensors. Matrices that are all the same are one.
    """
    batches, matrices = view.shape[0], view.strides[0]
    if not matrices:
        batches = 1
    for axis in (inner, 3 - inner):
        elements, lines, line = view.shape[axis], view.shape[3 - axis], view.strides[3 - axis]
        together = STEP_BYTES // view.dtype.itemsize
        if lines == 1:
            line = -(-elements // together) * together
        batch = matrices if batches > 1 else line * lines
        apart = view.strides[axis] == 1 and 0 < elements <= line and line * lines <= batch
        whole = apart and not (view.offset % together or line % together or batch % line)
        if whole and max(elements, lines, batches, batch // 2) < MOST:
            return axis == inner, (view.offset, elements, lines, batches, line, batch)
    return None


def tile(
    candidate: Candidate, product: Product, depth: int, epilogue: Program | None
) -> tuple[Tile, tuple[int, ...]]:
    """The kernel for a product, and its scalars.

    Where `depth` is less than k, a and b are one matrix each and out is (parts, m, n), of so much of k each.
    """
    dtype, out = product.a.dtype, product.out
    (m, n), (_, rows, k, columns) = BULK.extent(candidate), product.sizes
    maps, lying = [], []
    scalars = [rows, k, columns, depth, -(-k // depth)]
    for name, view, inner, extent in (("a", product.a, 2, m), ("b", product.b, 1, n)):
        found = mapped(view, inner)
        assert found is not None
        along, described = found
        lying.append((f"{name.upper()}_ALONG_K", along))
        line = LINE_BYTES // dtype.itemsize
        names = dict(zip(OPERAND, (f"{name}_{field}" for field in OPERAND), strict=True))
        maps.append(
            TensorMap(
                name,
                names["offset"],
                (names["elements"], names["lines"], names["batches"]),
                (names["line"], names["batch"]),
                (line, extent if along else candidate.constant("TILE_K"), 1),
            )
        )
        scalars += described
    pairs = out.strides[2] == 1 and not any(s % 2 for s in (out.offset, *out.strides[:2]))
    made = Tile(
        stem=BULK.stem,
        buffers=(*reading(dtype, "a", "b"), *writing(out.dtype, "out"), *epilogue_reads(epilogue)),
        scalars=SCALARS,
        types=(("T", dtype), ("ACC", dtype.computed), ("OUT", out.dtype)),
        constants=(*candidate.constants, *lying, ("OUT_PAIRS", pairs)),
        workgroup=(*candidate.threads, 1),
        epilogue=epilogue,
        maps=tuple(maps),
        shared_bytes=shared_bytes(candidate, dtype),
    )
    return made, (*scalars, out.offset, *out.strides)


BULK = ProductKernel(
    "matmul_bulk",
    tiles,
    _default,
    widens=True,
    adds_parts=True,
    own_tile=lambda candidate, product, epilogue: tile(candidate, product, product.sizes[2], epilogue),
)
