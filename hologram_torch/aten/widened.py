"""Operators that PyTorch takes apart into sums and quotients: of floats of 16 bits they are taken apart in f32.

So a sum within may be beyond the largest of them, and results, derivatives too, are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from hologram_torch.kernels.operators import operator
from hologram_torch.kernels.registry import library
from hologram_torch.tensors.dtypes import NARROW

NAMES = ("nanmean", "cov", "corrcoef", "trapezoid.x", "trapezoid.dx", "trapz.x", "trapz.dx")


def _widened(overload: OpOverload) -> Callable[..., Any]:
    def widened(x: Any) -> Any:
        return x.float() if isinstance(x, torch.Tensor) and x.dtype in NARROW else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        kind = torch.result_type(tensors[0], tensors[-1])
        if kind not in NARROW:
            return overload.decompose(*args, **kwargs)
        dtype = kwargs.pop("dtype", None)
        args, kwargs = pytree.tree_map(widened, (args, kwargs))
        return overload.decompose(*args, **kwargs).to(kind if dtype is None else dtype)

    return kernel


for _name in NAMES:
    for _key in ("PrivateUse1", "AutogradPrivateUse1"):
        library.impl(_name, _widened(operator(_name)), _key)
