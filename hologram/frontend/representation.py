"""How a tensor shows itself: as NumPy prints arrays, fetching only the elements that are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hologram.foundation.errors import HologramError
from hologram.machine.layout import Layout
from hologram.runtime.memory.view import View

AXES = 64  # more, a NumPy array cannot have


def text(tensor: View, device: str, read: Callable[[Layout], np.ndarray]) -> str:
    """The elements under NumPy's print options, dtype and device, and the shape where the elements do not show it.

    `read` fetches the elements of the tensor's buffer that a layout names.

    Nothing is raised for what a device does: a debugger that lists variables must not fail on one of them.
    """
    facts = f"shape={tensor.shape}, dtype={tensor.dtype}"
    if tensor.buffer.freed:
        return f"Tensor(freed, {facts})"
    options = np.get_printoptions()
    edge = max(options["edgeitems"], 1)
    cut = tensor.size > options["threshold"]
    fetched = _edges(tensor.layout, edge) if cut else tensor.layout
    if fetched.ndim > AXES:
        return f"Tensor(..., {facts}, device={device})"
    try:
        elements = read(fetched)
    except HologramError as error:
        return f"Tensor(unreadable, {facts}, device={device}: {error})"
    shown = np.array2string(
        _gapped(elements, tensor.shape, edge) if cut else elements,
        threshold=0 if cut else None,
        edgeitems=edge,
        prefix="Tensor(",
    )
    evident = not cut and (tensor.size or tensor.ndim == 1)
    return f"Tensor({shown}, {f'dtype={tensor.dtype}' if evident else facts}, device={device})"


def _edges(layout: Layout, edge: int) -> Layout:
    """The first and the last `edge` positions of every axis that is cut, as two axes: which end, and where there."""
    shape, strides = [], []
    for n, stride in zip(layout.shape, layout.strides, strict=True):
        long = n > 2 * edge
        shape += [2, edge] if long else [n]
        strides += [(n - edge) * stride, stride] if long else [stride]
    return replace(layout, shape=tuple(shape), strides=tuple(strides))


def _gapped(edges: np.ndarray, shape: tuple[int, ...], edge: int) -> np.ndarray:
    """The edges with one more position in the middle of each axis that is cut: there NumPy writes its dots."""
    joined = edges.reshape([min(n, 2 * edge) for n in shape])
    for axis, n in enumerate(shape):
        if n > 2 * edge:
            joined = np.insert(joined, edge, 0, axis=axis)
    return joined
