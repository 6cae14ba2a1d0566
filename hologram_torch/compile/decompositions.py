"""What graphs are taken apart into before they are compiled: what no kernel of the device's computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from hologram_torch.kernels.operators import name_of
from hologram_torch.kernels.registry import KERNELS
from hologram_torch.reach import reach

aten = torch.ops.aten
MORE = (aten.native_layer_norm, aten._softmax, aten._log_softmax, aten.addmm, aten.gelu)


def _taken_apart() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions, get_decompositions

    table = {**core_aten_decompositions(), **get_decompositions(MORE)}
    return {
        overload: function
        for overload, function in table.items()
        if not (isinstance(overload, OpOverload) and name_of(overload) in KERNELS)
    }


DECOMPOSITIONS = reach(
    "core-decompositions",
    "torch._decomp.core_aten_decompositions",
    "operators without a kernel run as PyTorch composes them, or are refused by name",
    _taken_apart,
    {},
)
