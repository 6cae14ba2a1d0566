"""What a hand-written kernel of matrix products is: a record of what it reads, writes and leaves to itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType, u32
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.choices import Candidate
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Tile, reading, told, writing
from hologram.opset.forms.epilogue import epilogue_reads

SCALARS = told(
    u32, "m", "k", "n",
    "a_offset", "a_batch", "a_row", "a_column",
    "b_offset", "b_batch", "b_row", "b_column",
    "out_offset", "out_batch", "out_row", "out_column",
)  # fmt: skip
ENOUGH_GROUPS = 64  # workgroups that keep a GPU busy whose size we do not know

Sizes = tuple[int, int, int, int]  # batch, m, k, n
Range = tuple[int, int]  # the first, and how many
Constants = Iterable[tuple[str, int | bool]]


@frozen
class Product:
    """A batch of matrix products, as the tile kernels see it: every operand with three strides."""

    a: Layout  # (batch, m, k)
    b: Layout  # (batch, k, n)
    out: Layout  # (batch, m, n)

    @property
    def sizes(self) -> Sizes:
        """Batch, m, k, n."""
        return (*self.a.shape, self.b.shape[2])  # type: ignore[return-value]

    @property
    def scalars(self) -> tuple[int, ...]:
        """Launch scalars, in the order of SCALARS."""
        described = list(self.sizes[1:])
        for layout in (self.a, self.b, self.out):
            described += [layout.offset, *layout.strides]
        return tuple(described)

    def cut(self, matrices: Range, rows: Range, columns: Range) -> Product:
        """Some of the results: the first of each, and how many."""
        a = self.a.narrow(0, *matrices).narrow(1, *rows)
        b = self.b.narrow(0, *matrices).narrow(2, *columns)
        return Product(a, b, self.out.narrow(0, *matrices).narrow(1, *rows).narrow(2, *columns))

    def along_k(self, start: int, length: int, batch: int = 1) -> Product:
        """`batch` products of `length` steps along k each, one after the other from `start` on; of a single product.

        Their results lie one behind the other.
        """
        _, m, _, n = self.sizes

        def part(view: Layout, inner: int, shape: tuple[int, int]) -> Layout:
            step = view.strides[inner]
            strides = (length * step, *view.strides[1:])
            return replace(view, shape=(batch, *shape), strides=strides, offset=view.offset + start * step)

        out = Layout(self.out.dtype, (batch, m, n), (m * n, n, 1))
        return Product(part(self.a, 2, (m, length)), part(self.b, 1, (length, n)), out)


@frozen(eq=False)
class ProductKernel:
    """A hand-written kernel that multiplies matrices (batch, rows, columns), whose strides are not negative."""

    stem: str
    # The tiles that a device has room for, those that may be the default first; none where it lacks the kernel.
    tiles: Callable[[DType, Limits], Iterable[Candidate]]
    # Of its ways for a product, the one to take without tuning; None: another kernel's is better.
    default: Callable[[Sequence[Candidate], Sizes, Limits], Candidate | None]
    # Rows and columns of results of a workgroup.
    extent: Callable[[Candidate], tuple[int, int]] = lambda c: (c.constant("TILE_M"), c.constant("TILE_N"))
    reads: Callable[[Layout], bool] = lambda view: True  # an operand as it lies
    writes: Callable[[Layout], bool] = lambda view: True  # results there
    lying: Callable[[Product], Constants] = lambda product: ()  # what its prelude says of how operands lie
    widens: bool = False  # writes sums as they are too, in another dtype than it reads
    undivided: bool = False  # takes all rows and columns of a launch, and all of k, as a library does
    adds_parts: bool = False  # one launch takes all parts of k
    prefetched: bool = False  # a CPU's caches are to know what it reads next: lines far apart are not
    # The tile, and its scalars, where these are not those of SCALARS.
    own_tile: Callable[[Candidate, Product, Program | None], tuple[Tile, tuple[int, ...]]] | None = None

    def readable(self, view: Layout) -> bool:
        """Whether it can read an operand as it lies."""
        return min(view.strides) >= 0 and self.reads(view)

    def writable(self, view: Layout) -> bool:
        """Whether it can write results there."""
        return min(view.strides) >= 0 and self.writes(view)

    def grid(self, candidate: Candidate, sizes: Sizes) -> tuple[int, int, int]:
        """Workgroups along n, m and the batch."""
        batch, m, _, n = sizes
        if self.undivided:
            return (min(n, 1), min(m, 1), batch)
        rows, columns = self.extent(candidate)
        return (-(-n // columns), -(-m // rows), batch)

    def groups(self, candidate: Candidate, sizes: Sizes) -> int:
        """Workgroups in all."""
        return math.prod(self.grid(candidate, sizes))

    def slices(self, candidate: Candidate, sizes: Sizes, most: int) -> list[tuple[Range, Range, Range]]:
        """Matrices, rows and columns of launches of at most so many workgroups along an axis."""
        batch, m, _, n = sizes
        if self.undivided:  # not all of a library's kernels take more matrices
            return [(matrices, (0, m), (0, n)) for matrices in _spans(batch, most)]
        rows, columns = self.extent(candidate)
        return list(itertools.product(_spans(batch, most), _spans(m, rows * most), _spans(n, columns * most)))

    def tile(
        self, candidate: Candidate, product: Product, epilogue: Program | None
    ) -> tuple[Tile, tuple[int, ...]]:
        """The kernel for a product, and its scalars."""
        if self.own_tile is not None:
            return self.own_tile(candidate, product, epilogue)
        dtype, written = product.a.dtype, product.out.dtype
        types = (("T", dtype), ("ACC", dtype.computed))
        made = Tile(
            stem=self.stem,
            buffers=(*reading(dtype, "a", "b"), *writing(written, "out"), *epilogue_reads(epilogue)),
            scalars=SCALARS,
            types=(*types, ("OUT", written)) if self.widens else types,
            constants=(*candidate.constants, *self.lying(product)),
            workgroup=(*candidate.threads, 1),
            epilogue=epilogue,
        )
        return made, product.scalars

    def in_parts(
        self, chosen: Candidate, ways: Iterable[Candidate], sizes: Sizes, enough: int = ENOUGH_GROUPS
    ) -> Candidate:
        """A tile with as few parts as give enough workgroups, or as many as there may be."""
        parts = [c for c in ways if replace(c, parts=chosen.parts) == chosen]
        return next((c for c in parts if self.groups(c, sizes) * c.parts >= enough), parts[-1])


def _spans(length: int, step: int) -> list[Range]:
    return [(first, min(length - first, step)) for first in fixed_range(0, length, step)] or [(0, 0)]


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
