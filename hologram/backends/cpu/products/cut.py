"""Matrix products as launches of the pool: how they are cut, and what BLAS is told about each piece (blas.ll)."""

from __future__ import annotations

import math

import numpy as np

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.products.blas import Routines, loaded_library, routines
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import whole

# Estimated on a Zen 4 core: of a multiply-add, of an element of a matrix that is multiplied by a vector, and of a call.
_MULTIPLY_NS = 0.021  # f32; twice that for f64
_VECTOR_NS = 0.05
_CALL_NS = 200
_SHORTEST_NS = 4_000  # no slice is made shorter
_STRIPS = 2  # for each thread, so that one that is held up leaves some of its work to the others,
_TALL = 512  # if they have so many rows: each packs all of b anew
_STRIP_MULTIPLE = 16  # rows; what BLAS multiplies at once
_ROWS, _COLUMNS, _AS_IT_LIES, _TRANSPOSED = 101, 102, 111, 112  # in cblas's words


@frozen
class Plane:
    """How a (batch, rows, columns) array lies: where, its dtype, sizes, and strides in bytes."""

    address: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray) -> Plane:
        return Plane(array.ctypes.data, array.dtype, array.shape, array.strides)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def transposed(self) -> Plane:
        """With rows for columns."""
        (batch, rows, columns), (step, row, column) = self.shape, self.strides
        return Plane(self.address, self.dtype, (batch, columns, rows), (step, column, row))

    @property
    def is_contiguous(self) -> bool:
        """Whether elements follow each other in row-major order without gaps."""
        expected = self.itemsize
        for n, step in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and step != expected:
                return not self.size
            expected = expected * n
        return True

    @property
    def span(self) -> tuple[int, int]:
        """The first byte that it reaches, and one past the last."""
        if not self.size:
            return (self.address, self.address)
        reach = [step * (n - 1) for n, step in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(r for r in reach if r < 0)
        return low, self.address + sum(r for r in reach if r > 0) + self.itemsize


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges of bytes, from the first to one past the last, have some in common."""
    return one[0] < other[1] and other[0] < one[1]


@frozen
class Matrices:
    """A batch of matrices that BLAS can read as they lie: one of two axes has stride 1. Strides in elements."""

    address: int
    itemsize: int
    by_rows: bool
    leading: int
    row: int
    batch: int

    @property
    def order(self) -> int:
        return _ROWS if self.by_rows else _COLUMNS


def matrices(view: Plane) -> Matrices | None:
    """The (batch, rows, columns) view as BLAS reads it, if it can."""
    batch, row, column = (s // view.itemsize for s in view.strides)
    _, rows, columns = view.shape
    at = (view.address, view.itemsize)
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return Matrices(*at, True, row if rows > 1 else columns, row, batch)
    if (row == 1 or rows == 1) and (column >= rows or columns == 1):
        return Matrices(*at, False, column if columns > 1 else rows, row, batch)
    return None


def vectors(view: Plane) -> Matrices | None:
    """The (batch, rows, 1) view as vectors whose elements lie `leading` apart, if BLAS can read them."""
    batch, step, _ = (s // view.itemsize for s in view.strides)
    apart = step if view.shape[1] > 1 else 1
    return Matrices(view.address, view.itemsize, True, apart, apart, batch) if apart > 0 else None


@frozen
class Cut:
    """How a batch of products is shared: strips of so many rows, so many a matrix, so many strips a slice."""

    height: int
    strips: int
    total: int
    slice: int


def cut(batch: int, m: int, each_ns: float, threads: int) -> Cut:
    """The cut of a batch of products with m rows that take so long each."""
    total_ns = batch * (each_ns + _CALL_NS)
    short = whole(total_ns / _SHORTEST_NS)
    wanted = min(short, threads * (_STRIPS if m >= _TALL * _STRIPS * threads else 1))
    if threads == 1 or wanted < 2:
        return Cut(m, 1, batch, batch)
    if batch >= 8 * threads or (batch >= wanted and (wanted < threads or not batch % threads)):
        return Cut(m, 1, batch, batch // min(batch, short, 8 * threads))
    fair = min(wanted, threads) if batch >= threads else wanted
    strips = fair // math.gcd(int(fair), int(batch))
    height = -(-m // (strips * _STRIP_MULTIPLE)) * _STRIP_MULTIPLE
    height = min(height, m)
    strips = -(-m // height)
    return Cut(height, strips, batch * strips, 1)


@frozen
class Product:
    """out = a @ b for a batch of matrices of one dtype."""

    a: Plane
    b: Plane
    out: Plane

    @staticmethod
    def of(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Product:
        """That of arrays of shape (batch, rows, columns)."""
        return Product(Plane.of(a), Plane.of(b), Plane.of(out))

    @property
    def transposed(self) -> Product:
        """The same as out.T = b.T @ a.T."""
        return Product(self.b.transposed, self.a.transposed, self.out.transposed)

    @property
    def sizes(self) -> tuple[int, int, int]:
        return (self.out.shape[1], self.out.shape[2], self.a.shape[2])

    @property
    def is_symmetric(self) -> bool:
        """Whether b is a transposed, for which NumPy has a call that does half the work."""
        return self.a.transposed == self.b and min(self.sizes) > 1


_ADDRESSES = (7, 11, 14)  # the words of a call that say where a, b and out lie; see blas.ll


@frozen
class Call:
    """What BLAS is called with for a product, or for its transposed where it is `turned`."""

    turned: bool

    rows: int  # that are cut
    function: int
    step: int
    numbers: tuple[int, ...]
    each_ns: float


def call_of(product: Product, using: Routines) -> Call | None:
    """The product as BLAS computes it, if it can: cut along the longer axis, since each strip packs all of b anew."""
    m, n, _ = product.sizes
    turned = product.transposed if n > m else product
    m, n, k = turned.sizes
    if not turned.out.size or not k or product.is_symmetric:
        return None
    by_vectors = n == 1
    a = matrices(turned.a)
    b, c = ((vectors if by_vectors else matrices)(x) for x in (turned.b, turned.out))
    if a is None or b is None or c is None:
        return None
    if max(m, n, k, a.leading, b.leading, c.leading) > using.largest:
        return None
    order = a.order if by_vectors else c.order
    takes = [_AS_IT_LIES if by_vectors or x.order == order else _TRANSPOSED for x in (a, b)]
    size = a.itemsize
    numbers = (
        *(order, *takes),
        *(m, n, k),
        *(a.address, a.leading, a.row * size, a.batch * size),
        *(b.address, b.leading, b.batch * size),
        *(c.address, c.leading, c.row * size, c.batch * size),
    )
    function, step = (using.gemv, using.vectors) if by_vectors else (using.gemm, using.matrices)
    each_ns = (m * _VECTOR_NS if by_vectors else m * n * _MULTIPLY_NS) * k * size / 4
    return Call(turned is not product, m, function, step, numbers, each_ns)


def product_pieces(product: Product, host: Host) -> list[Piece] | None:
    """A launch of the product; None where BLAS cannot be had for it so. `out` shares no memory with the operands.

    Its arguments 0, 1 and 2 are the addresses of a, b and out; the planes only show how they lie.
    """
    library = loaded_library()
    using = None if library is None else routines(host.engine(), library, product.out.dtype)
    call = None if using is None else call_of(product, using)
    if using is None or call is None:
        return None
    pieces = cut(product.out.shape[0], call.rows, call.each_ns, host.threads)
    words = (call.function, *call.numbers, pieces.height, pieces.strips)
    operands = (1, 0, 2) if call.turned else (0, 1, 2)
    patches = tuple(Patch(word, ADDRESS, k) for word, k in zip(_ADDRESSES, operands, strict=True))
    enter, leave = using.guard
    step = Step(call.step, pieces.total, pieces.slice)
    return [Piece((enter, step, leave), words, patches, owner=using)]
