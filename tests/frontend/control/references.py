"""What loops are held to: Python's, over NumPy's arrays or tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import hologram as hg
from hologram.frontend.tree import leaves, mapped


def rows(xs: Any, k: int) -> Any:
    """Row k of every leaf."""
    return mapped(xs, lambda x: x[k])


def scan(f: Any, carry: Any, xs: Any, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """As hg.scan, unrolled; of arrays or tensors."""
    count = leaves(xs)[0].shape[0] if length is None else length
    made = []
    for k in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, None if xs is None else rows(xs, k))
        made.append(y)
    made = made[::-1] if reverse else made

    def stacked(*each: Any) -> Any:
        return hg.stack(list(each)) if isinstance(each[0], hg.Tensor) else np.stack(each)

    flat = [stacked(*each) for each in zip(*(leaves(m) for m in made), strict=True)]
    rest = iter(flat)
    return carry, mapped(made[0], lambda _: next(rest)) if made else None


def near(found: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    """Holds every leaf to another, in double precision."""
    pairs = list(zip(leaves(found), leaves(wanted), strict=True))
    assert pairs
    for one, other in pairs:
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance
        )
