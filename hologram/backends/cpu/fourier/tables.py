"""What elements are turned by: roots of unity in the order in which code reads them."""

from __future__ import annotations

import math

import numpy as np

from hologram.backends.cpu.fourier.transforms import Kind
from hologram.foundation.bounded_caches import found_again
from hologram.foundation.dtypes import DType
from hologram.opset.fourier.passes import unity


@found_again
def pass_roots(radices: tuple[int, ...], part: DType) -> np.ndarray:
    """What the passes turn by, in their order."""
    n, s, found = math.prod(radices), 1, [np.zeros(1, np.complex128)]
    for r in radices:
        m = n // (s * r)
        if m > 1:
            found.append(unity(n, np.outer(np.arange(m), np.arange(1, r)).ravel() * s))
        s *= r
    return np.concatenate(found[1:] or found).view(np.float64).astype(part.numpy)


@found_again
def turns(kind: Kind) -> np.ndarray:
    """What elements are turned by between both transforms, by blocks of lanes, then elements."""
    starts = np.minimum(np.arange(kind.blocks) * kind.lanes, kind.n2 - kind.lanes)
    lanes = starts[:, None, None] + np.arange(kind.lanes)
    found = unity(kind.n1 * kind.n2, lanes * np.arange(kind.n1)[:, None])
    return np.stack([np.real(found), np.imag(found)], axis=2).astype(kind.part.numpy).ravel()
