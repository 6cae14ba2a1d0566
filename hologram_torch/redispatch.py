"""Calls of an operator's kernel for other keys of PyTorch's dispatcher than those of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from hologram_torch.reach import reach


def _boxed(overload: OpOverload) -> Callable[..., Any]:
    return overload._handle.redispatch_boxed


def _by_method(overload: OpOverload) -> Callable[..., Any]:
    return overload.redispatch


def _found() -> Callable[[OpOverload], Callable[..., Any]]:
    _boxed(torch.ops.aten.view.default)
    return _boxed


# The function that calls an operator's kernel for a key set, which is its first argument.
redispatched: Callable[[OpOverload], Callable[..., Any]] = reach(
    "redispatch",
    "OpOverload._handle.redispatch_boxed",
    "a call of PyTorch's own kernel takes one call of Python more",
    _found,
    _by_method,
)
