"""What runs collectives on tensors of the device, as their kernels see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from hologram.foundation.frozen import frozen

# What an engine is given for a tensor, and what the tensor is copied from afterwards: None for its own memory.
Handed = tuple[torch.Tensor, "torch.Tensor | None"]


@frozen
class Engine:
    """How an engine is given tensors and asked for collectives.

    `hand` gives what it takes for a tensor. `turn` is a context for its calls. `queued`: a wait is the device's queue's
    and not the host's, and so is made at once. `means`: it has means.
    """

    hand: Callable[[torch.Tensor], Handed]
    turn: Callable[[Sequence[torch.Tensor]], AbstractContextManager[Any]] = lambda tensors: nullcontext()
    queued: bool = False
    means: bool = False
