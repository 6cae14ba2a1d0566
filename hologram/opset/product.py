"""Plans of matrix products: which kernel computes one, and what is copied to where it can read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hologram.atlas.builder import reduce_add
from hologram.atlas.program import Program
from hologram.dtypes import DType, u32
from hologram.limits import Limits
from hologram.opset import types
from hologram.opset.epilogue import add_epilogue, epilogue_reads
from hologram.opset.form_map import indexed
from hologram.opset.layout import Layout
from hologram.opset.math import NUMBERS
from hologram.opset.operation import Sample
from hologram.opset.plan import Plan, Step, Tile
from hologram.opset.samples import array
from hologram.opset.steps import Place, Steps


@dataclass(frozen=True)
class Product:
    """A batch of matrix products, as the tile kernels see it: every operand with three strides."""

    batch: int
    m: int
    k: int
    n: int
    a: Layout  # (batch, m, k)
    b: Layout  # (batch, k, n)
    out: Layout  # (batch, m, n)

    @property
    def scalars(self) -> tuple[int, ...]:
        """Launch scalars, in the order of PRODUCT_SCALARS."""
        described = [self.m, self.k, self.n]
        for layout in (self.a, self.b, self.out):
            described += [layout.offset, *layout.strides]
        return tuple(described)


PRODUCT_SCALARS = (
    "m", "k", "n",
    "a_offset", "a_batch", "a_row", "a_column",
    "b_offset", "b_batch", "b_row", "b_column",
    "out_offset", "out_batch", "out_row", "out_column",
)  # fmt: skip


# The loops of a software adapter's thread may take 65,000 turns together; `matmul_register` takes four elements a turn.
SOFTWARE_DEPTH = 4 * 64_000
SKINNY = 4  # rows or columns up to which a product is a handful of dot products


TILE_K = 16  # columns of a and rows of b that a workgroup brings in at once


def product_tile(
    sizes: tuple[int, int, int, int], dtype: DType, limits: Limits, epilogue: Program | None = None
) -> tuple[Tile, tuple[int, int, int]]:
    """The tile kernel for products of sizes (batch, m, k, n) on a device, and its grid in workgroups.

    Every thread computes 8 x 8 results. Real GPUs bring the operands through workgroup memory: larger workgroups reuse
    more of it, smaller ones leave no compute unit idle. Adapters that a CPU plays have dear barriers and no use for
    workgroup memory: there every thread reads from global memory alone (`matmul_register`).
    """
    batch, m, _, n = sizes
    constants: tuple[tuple[str, int], ...] = ()
    if limits.software:
        stem, threads = "matmul_register", (8, 8)
    else:
        large = batch * m * n >= 1 << 20
        line = 8 * 16 + 4  # elements of a row of the tiles; the 4 keep rows on different banks
        roomy = 2 * TILE_K * line * types.computing(dtype).itemsize <= limits.shared_bytes
        roomy = roomy and limits.max_workgroup_threads >= 16 * 16
        stem, threads = "matmul", (16, 16) if large and roomy else (8, 8)
        constants = (("TILE_K", TILE_K),)
    tile = Tile(
        stem=stem,
        entry=f"atlas_{stem}",
        buffers=(
            ("a", dtype, "read"),
            ("b", dtype, "read"),
            ("out", dtype, "write"),
            *epilogue_reads(epilogue),
        ),
        scalars=tuple((name, u32) for name in PRODUCT_SCALARS),
        types=(("T", dtype), ("ACC", types.computing(dtype))),
        constants=constants,
        workgroup=(*threads, 1),
        epilogue=epilogue,
    )
    return tile, (-(-n // (8 * threads[0])), -(-m // (8 * threads[1])), batch)


def _is_skinny(a: Layout, b: Layout, out: Layout, limits: Limits) -> bool:
    """Whether dot products along memory beat tiles of 8 x 8 results: few rows or columns, both read along k.

    The CPU has BLAS for these too.
    """
    along_k = a.strides[-1] == 1 and b.strides[-2] == 1 and a.dtype == b.dtype == out.dtype
    return along_k and min(a.shape[-2], b.shape[-1]) <= SKINNY and not limits.spreads_rows


def _in_quads(layout: Layout) -> bool:
    """Whether `matmul_register` can read the rows of a (batch, rows, columns) layout by vec4."""
    batch, row, column = layout.strides
    return column == 1 and not (batch | row | layout.offset) % 4


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
    a: Layout, b: Layout, out: Layout, dtype: DType, limits: Limits, epilogue: Program | None = None
) -> Plan:
    """Steps for out = epilogue(a @ b), where operands 0 and 1 are a and b, then come what the epilogue reads, then out.

    What the tile kernels cannot read or write (other dtypes, batch axes without a common stride) goes through scratch;
    what they cannot compute (integers, no inner elements) is a reduction, with the epilogue as a program of its own, as
    it is where a kernel cannot see all it reads. `dtype` is that of the product, which `out` converts.
    """
    reads = tuple(range(2, 2 + len(epilogue_reads(epilogue))))
    steps = Steps(3 + len(reads))
    target = Place(2 + len(reads), out)
    fused = 3 + len(reads) <= limits.max_bindings
    if fused and _tiled(steps, a, b, target, dtype, limits, epilogue):
        return steps.plan()
    value = target if epilogue is None else steps.place(dtype, out.shape)
    if fused or not _tiled(steps, a, b, value, dtype, limits, None):
        steps.add(_naive_step(a, b, value.layout), (0, 1, value.position))
    if epilogue is not None:
        add_epilogue(steps, epilogue, value, reads, target, out.shape[-1])
    return steps.plan()


def _tiled(
    steps: Steps, a: Layout, b: Layout, target: Place, dtype: DType, limits: Limits, epilogue: Program | None
) -> bool:
    """Appends the product by a tile kernel; False, and nothing appended, where none applies."""
    used = dtype if dtype in limits.tile_dtypes else types.computing(dtype)
    out = target.layout
    deep = limits.software and a.shape[-1] > SOFTWARE_DEPTH
    if used not in limits.tile_dtypes or not a.shape[-1] or deep or _is_skinny(a, b, out, limits):
        return False
    batch = out.shape[:-2]
    direct = _batched(out, batch) if out.dtype == used else None
    view = direct or _batched(Layout.contiguous(used, out.shape), batch)
    assert view is not None
    sizes = (view.shape[0], out.shape[-2], a.shape[-1], out.shape[-1])
    tile, grid = product_tile(sizes, used, limits, epilogue)
    if max(grid) > limits.max_workgroups:
        return False
    left, right = (_readable(steps, Place(k, i), used, batch, limits) for k, i in enumerate((a, b)))
    result = target if direct else steps.place(used, out.shape)
    product = Product(*sizes, left.layout, right.layout, view)
    reads = range(2, 2 + len(epilogue_reads(epilogue)))
    positions = (left.position, right.position, result.position, *reads)
    steps.add(Step(tile, tuple(range(len(positions))), product.scalars, grid), positions)
    if result is not target:
        steps.copy(result, target)
    return True


def _readable(steps: Steps, source: Place, dtype: DType, batch: tuple[int, ...], limits: Limits) -> Place:
    """An operand as (batch, rows, columns) where the tile kernels can read it: as it lies, or copied."""
    layout = source.layout
    view = _batched(layout, batch) if layout.dtype == dtype else None
    if view is not None and (not limits.software or _in_quads(view)):
        return Place(source.position, view)
    if not _batched(Layout.contiguous(dtype, layout.shape), batch):
        layout = layout.expand((*batch, *layout.shape[-2:]))
    *lead, columns = layout.shape
    padded = steps.place(dtype, (*lead, -(-columns // 4) * 4))
    copied = Place(padded.position, padded.layout.narrow(len(lead), 0, columns))
    steps.copy(Place(source.position, layout), copied)
    view = _batched(copied.layout, batch)
    assert view is not None
    return Place(copied.position, view)


def _naive_step(a: Layout, b: Layout, out: Layout) -> Step:
    """The product as a reduction: for integers, which no tile kernel has."""
    batch = out.shape[:-2]
    inputs = (a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:])))
    limits: Any = None  # the form does not ask
    return product_by_reduction.plan(inputs, (out,), {}, limits).steps[0]


def _product_window(a, b):
    return (a.shape[-1],)


def _product_shape(a, b):
    return Layout.contiguous(types.promoted((a.dtype, b.dtype)), (*a.shape[:-1], b.shape[-1]))


def _product_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for batch, m, k, n in (((), 3, 4, 5), ((2,), 7, 1, 3), ((2, 3), 2, 5, 1)):
        yield Sample((array(rng, dtype, (*batch, m, k), -3, 3), array(rng, dtype, (*batch, k, n), -3, 3)))


@indexed(shape_of=_product_shape, window=_product_window, dtypes=NUMBERS, samples=_product_samples, reference=np.matmul,
         ulp=4, absolute=64.0, methods=False)  # fmt: skip
def product_by_reduction(at, window, a, b):
    """The matrix product of operands with equal batch axes, written as the sum it is."""
    *batch, i, j = at
    dtype = types.promoted((a.computed, b.computed))
    return reduce_add(a.at(*batch, i, *window).to(dtype) * b.at(*batch, *window, j).to(dtype))
