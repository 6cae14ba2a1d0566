"""Pairs of tensors, here and on the device, their comparison, and the calls after which a structure is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

Quick = Callable[..., Callable[..., Any]]
KNOWN = 4  # calls after which a structure is known


def pair(*shape: int, dtype: Any = None) -> tuple[Any, Any]:
    host = torch.randn(shape).to(dtype or torch.float32)
    return host, host.to("hologram")


def same(found: Any, expected: Any) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(found.cpu(), expected, equal_nan=True)
