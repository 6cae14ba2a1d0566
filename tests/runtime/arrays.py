"""Arrays for the tests of the runtime."""

from __future__ import annotations

import numpy as np

from hologram.foundation import dtypes


def sample(dtype: dtypes.DType, shape: tuple[int, ...] = (3, 5)) -> np.ndarray:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    return (numbers % 2 if dtype is dtypes.bool_ else numbers).astype(dtype.numpy)
