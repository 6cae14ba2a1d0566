"""Tensors of torch.func's transforms (vmap, grad, jvp), which stand for others and have no memory of their own."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hologram_torch.reach import reach


def _of_functorch() -> Callable[[torch.Tensor], bool]:
    from torch._C._functorch import is_functorch_wrapped_tensor

    return is_functorch_wrapped_tensor


def has_no_storage(x: torch.Tensor) -> bool:
    """Whether a tensor refuses to give its storage, as those that PyTorch wraps do."""
    try:
        x.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return True
    return False


is_wrapped: Callable[[torch.Tensor], bool] = reach(
    "transforms",
    "torch._C._functorch.is_functorch_wrapped_tensor",
    "a tensor is asked for its storage instead",
    _of_functorch,
    has_no_storage,
)
