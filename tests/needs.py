"""What a test needs of a device, and the skip where the device lacks it."""

from __future__ import annotations

from typing import Any

import pytest

from hologram.foundation import dtypes
from hologram.foundation.config import config

# The words of HOLOGRAM_WITHOUT that take f64 away: its functions take bits apart, as integers of 64 bits.
DOUBLES = frozenset({"float64", "int64"})


class Lacking(pytest.skip.Exception):
    """A skip for want of something; `told`: one of these words of HOLOGRAM_WITHOUT took it, so that no fault did."""

    def __init__(self, executor: Any, missing: str, words: frozenset[str]) -> None:
        info = executor.device.info
        super().__init__(f"{info.name} has no {missing}", _use_item_location=True)
        self.told = info.backend == "webgpu" and not words.isdisjoint(config.without)


def has(executor: Any, dtype: Any) -> bool:
    """Whether the executor's device has a dtype, given by any of its names."""
    return dtypes.dtype(dtype) in executor.limits.dtypes


def needs(executor: Any, *given: Any) -> None:
    """Skips the test that asks, where the executor's device lacks one of the dtypes."""
    for dtype in given:
        if not has(executor, dtype):
            missing = dtypes.dtype(dtype)
            raise Lacking(executor, missing.name, DOUBLES if missing.part is dtypes.f64 else frozenset())


def needs_buffers(executor: Any, count: int) -> None:
    """Skips the test that asks, where a kernel of the executor's device sees fewer buffers."""
    if executor.limits.max_bindings < count:
        raise Lacking(executor, f"room for {count} buffers", frozenset({"limits"}))
