"""The derivative of weights that are split into a direction and lengths: Salimans and Kingma (2016)."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements


@implements("_weight_norm_interface_backward")
@fused
def weight_norm_backward(cotangent: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> Any:
    """Of g v / |v|, |v| taken over all axes but `dim`, to v and g."""
    rest = tuple(k for k in range(v.ndim) if k != dim % v.ndim)
    kinds = v.dtype, g.dtype
    cotangent, v, g, norms = (x.astype(x.dtype.computed, copy=False) for x in (cotangent, v, g, norms))
    along = hg.sum(cotangent * v, axis=rest, keepdims=True) / norms
    found = (cotangent - v * along / norms) * (g / norms), along
    return tuple(x.astype(kind, copy=False) for x, kind in zip(found, kinds, strict=True))
