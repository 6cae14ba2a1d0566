"""NumPy's functions that are called otherwise than those of `hg` with the same name."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.opset import padding


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """hg.pad, with the widths as NumPy broadcasts them: a number, a pair, or a pair for each axis."""
    if not array.ndim:
        return array.clone()
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return padding.pad(array, padding=tuple(map(tuple, widths)), mode=mode, value=constant_values)
