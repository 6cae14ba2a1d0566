"""torchvision's operators."""

from __future__ import annotations

import torch

from hologram_torch.kernels.foreign import Foreign

implements = Foreign("torchvision").implements


def refuse_but_floats(name: str, **given: torch.Tensor) -> None:
    """Refuses operands of other dtypes than floats."""
    for operand, x in given.items():
        if not x.is_floating_point():
            raise RuntimeError(f"hologram, {name}: {operand} must be floats, got {x.dtype}")
