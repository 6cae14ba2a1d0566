"""Kernels that are functions of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.errors import HologramError, UnsupportedDType
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.kernel import NOTHING, Expected


class Plain:
    """A function that takes what the operator takes; errors become PyTorch's."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.function(*args, **kwargs)
        except UnsupportedDType:  # a TypeError already: no tensor of the device has this dtype
            raise
        except HologramError as error:
            raise self.refusal(error) from error

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Expected]:
        """A call's results; nothing was expected of it."""
        return self(*args, **kwargs), NOTHING

    def refusal(self, error: Exception) -> Exception:
        return refusal(self.name, error)
