"""Which code multiplies: our own (blocked.py), or the BLAS that NumPy has loaded (cut.py)."""

from __future__ import annotations

import sys

from hologram.backends.cpu.image import Piece
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.products.blas import loaded_library
from hologram.backends.cpu.products.blocked import blocked_pieces, reads_along_k
from hologram.backends.cpu.products.cut import Product, product_pieces
from hologram.foundation.dtypes import DType

_FEW, _LONG = 8, 64  # rows, and elements along k, from which on a dot product beats what BLAS packs


def is_own(product: Product, host: Host) -> bool:
    """Whether a product of f32 or f64 goes to our own code, which is the faster (docs/design/cpu.md).

    That is so for few rows of operands that lie along k, and for more rows where BLAS, which goes by names of
    processors, takes one for less than it is, or cannot be called in a launch. Accelerate has units for matrices.
    """
    if product.is_symmetric or sys.platform == "darwin":
        return False
    m, n, k = product.sizes
    if min(m, n) > _FEW:
        library = loaded_library()
        return library is None or library.vector_bits < host.engine().vector_bits
    return min(m, n) > 1 and k >= _LONG and reads_along_k(product)


def pieces_of(product: Product, dtype: DType, host: Host) -> list[Piece] | None:
    """A launch of the product of f32 or f64; None where neither can be had. `out` shares no memory with the operands.

    Its arguments 0, 1 and 2 are the addresses of a, b and out; the planes only show how they lie.
    """
    if is_own(product, host):
        return blocked_pieces(product, dtype, dtype, host)
    return product_pieces(product, host)
