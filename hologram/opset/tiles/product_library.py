"""Products by a library of the device's vendor: one way more for the tuner, where the library is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hologram.foundation.dtypes import DType
from hologram.machine.choices import Candidate
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.opset.tiles.product_kernel import ProductKernel


def tiles(dtype: DType, limits: Limits) -> Iterator[Candidate]:
    """The one way, where the device has it."""
    if dtype in limits.library_products:
        rounded = dtype in limits.rounded_dtypes & limits.matrix_dtypes
        yield Candidate(LIBRARY.stem, (("ROUNDED", int(rounded)),), (0, 0))


def line(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """The axis (0 or 1) along which a matrix's lines lie, and the elements from one to the next; None: it has none.

    A library sees lines of neighbours that do not overlap. Along an axis of one element any stride is none.
    """
    for axis in (1, 0):
        count, others = shape[axis], shape[1 - axis]
        apart = strides[1 - axis] if others > 1 else count
        if (strides[axis] == 1 or count == 1) and apart >= count:
            return axis, apart
    return None


def _writable(view: Layout) -> bool:
    """Whether the library writes results (batch, rows, columns) there: row by row, matrices apart."""
    found = line(view.shape[1:], view.strides[1:])
    apart = view.shape[0] == 1 or view.strides[0] >= view.shape[1] * view.shape[2]
    return found is not None and found[0] == 1 and apart


LIBRARY = ProductKernel(
    "matmul_library",  # of which there is no file
    tiles,
    lambda ways, sizes, limits: None,  # it is taken where it was measured to be faster
    reads=lambda view: line(view.shape[1:], view.strides[1:]) is not None,
    writes=_writable,
    widens=True,
    undivided=True,
)
