"""What graphs are taken apart into before they are compiled: what no kernel of the device's computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from hologram_torch.kernels.operators import name_of, present
from hologram_torch.kernels.registry import KERNELS
from hologram_torch.reach import reach

MORE = "native_layer_norm _softmax _log_softmax addmm gelu"


def _taken_apart() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions, get_decompositions

    table = {**core_aten_decompositions(), **get_decompositions([*present(MORE)])}
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
