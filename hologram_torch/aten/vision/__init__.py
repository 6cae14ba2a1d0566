"""torchvision's operators. They are declared here and found once torchvision, which nothing here imports, is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.registry import KEY

F = TypeVar("F", bound=Callable[..., Any])

library = torch.library.Library("torchvision", "IMPL")


def implements(name: str) -> Callable[[F], F]:
    """Makes a function of PyTorch's tensors the device's kernel for an operator; errors become PyTorch's."""

    def declare(function: F) -> F:
        library.impl(name, Plain(name, function), KEY)
        return function

    return declare


def refuse_but_floats(name: str, **given: torch.Tensor) -> None:
    """Refuses operands of other dtypes than floats."""
    for operand, x in given.items():
        if not x.is_floating_point():
            raise RuntimeError(f"hologram, {name}: {operand} must be floats, got {x.dtype}")
