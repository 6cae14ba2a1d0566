"""What a test needs of a device, and the skip where the device lacks it."""

from __future__ import annotations

from typing import Any

import pytest

from hologram.foundation import dtypes
from hologram.foundation.config import config

# The words of HOLOGRAM_WITHOUT that take f64 away: its functions take bits apart, as integers of 64 bits.
DOUBLES = {"float64", "int64"}


class Lacking(pytest.skip.Exception):
    """A skip for want of a dtype; `told`: HOLOGRAM_WITHOUT took it away, so that it is missed by no fault."""

    def __init__(self, who: str, backend: str, missing: dtypes.DType) -> None:
        super().__init__(f"{who} has no {missing}", _use_item_location=True)
        self.told = (
            backend == "webgpu" and missing.part is dtypes.f64 and not DOUBLES.isdisjoint(config.without)
        )


def has(executor: Any, dtype: Any) -> bool:
    """Whether the executor's device has a dtype, given by any of its names."""
    return dtypes.dtype(dtype) in executor.limits.dtypes


def needs(executor: Any, *given: Any) -> None:
    """Skips the test that asks, where the executor's device lacks one of the dtypes."""
    for dtype in given:
        if not has(executor, dtype):
            info = executor.device.info
            raise Lacking(info.name, info.backend, dtypes.dtype(dtype))
