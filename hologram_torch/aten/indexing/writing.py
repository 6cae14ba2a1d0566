"""Elements written at positions along an axis: into a copy, or into a tensor's own memory."""

from __future__ import annotations

from collections.abc import Callable

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram.opset.indexing import put
from hologram.runtime.dispatch import deferred
from hologram.runtime.memory.view import overlaps
from hologram_torch.aten.indexing.positions import at_least_1d
from hologram_torch.kernels.results import refused

Into = Callable[
    [Tensor, int, Tensor, Tensor], Tensor
]  # x, an axis, positions along it, and what is written there


def copied(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with the source's elements along an axis at index."""
    return hg.scatter(at_least_1d(x), index, source, dim=dim).reshape(x.shape)


def over(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """The same, in x's own memory where nothing else is there: then it is x."""
    whole = at_least_1d(x)
    axis = dim % whole.ndim
    spread = any(not step and n > 1 for n, step in zip(x.shape, x.layout.strides, strict=True))
    if deferred() or spread or overlaps(source, x) or overlaps(index, x):
        return copied(x, axis, index, source)
    order = (axis, *[k for k in range(whole.ndim) if k != axis])
    operands = index.permute(*order), source.permute(*order), refused()
    x.executor.execute(put, operands, (whole.permute(*order),), {})
    return x
