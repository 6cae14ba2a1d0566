"""Memory of the host that is told as pinned, where PyTorch itself can pin none."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import numpy as np
import torch

from hologram_torch.device import pinned
from hologram_torch.kernels.registry import library

_PINNED: dict[int, int] = {}  # where memory begins that `pin_memory` gave and somebody holds, and its bytes


def _pin_memory(x: torch.Tensor, device: Any = None) -> torch.Tensor:
    """A copy in plain memory of the host, from which the device copies as quickly; `is_pinned` knows it again."""
    block = np.empty(max(x.numel() * x.element_size(), 1), np.uint8)
    memory = torch.from_numpy(block)
    place = memory.data_ptr()
    _PINNED[place] = block.size
    weakref.finalize(block, _PINNED.pop, place, None)  # the tensor's memory holds it
    return memory[: x.numel() * x.element_size()].view(x.dtype).reshape(x.shape).copy_(x)


def _is_pinned(x: torch.Tensor, device: Any = None) -> bool:
    storage = x.untyped_storage()
    return storage.data_ptr() in _PINNED or pinned.is_pinned(storage)


if not torch.cuda.is_available():  # whose pinned memory is worth having
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        library.impl("_pin_memory", _pin_memory, "CPU")
        library.impl("is_pinned", _is_pinned, "CPU")
