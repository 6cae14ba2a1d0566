"""Convolutions by NumPy, where programs are interpreted or results share memory with operands."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hologram.backends.cpu.products.convolution import Work


def _windows(work: Work, x: np.ndarray) -> np.ndarray:
    """Of (n, c, rows, columns), with zeros around: (n, groups, c, window rows and columns, places)."""
    window, sides = work.window, work.out_sides
    lengths = [(n - 1) * s + r for n, s, r in zip(sides, window.stride, window.reach, strict=True)]
    around = np.zeros((*x.shape[:2], *lengths), x.dtype)
    inside = [slice(p, min(p + n, m)) for p, n, m in zip(window.padding, x.shape[2:], lengths, strict=True)]
    part = around[:, :, inside[0], inside[1]]
    part[...] = x[:, :, : part.shape[2], : part.shape[3]]
    image, channel, row, column = around.strides
    (down, right), (below, beside) = window.dilation, window.stride
    shape = (x.shape[0], work.groups, work.x.channels, *window.size, *sides)
    return as_strided(
        around, shape,
        (image, channel * work.x.channels, channel, row * down, column * right, row * below, column * beside),
    )  # fmt: skip


def convolved(work: Work, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Results (n, channels, places) of weights (channels, taps)."""
    taps = weight.reshape(work.groups, work.channels, work.x.channels, *work.window.size)
    found = np.einsum("ngcijyx,gocij->ngoyx", _windows(work, x), taps, optimize=True)
    return found.reshape(x.shape[0], -1, work.area)


def weighed(work: Work, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums (parts, channels, taps) of products of windows with y (n, channels, places)."""
    windows = _windows(work, x)
    cotangents = y.reshape(x.shape[0], work.groups, work.channels, *work.out_sides)
    size = -(-x.shape[0] // work.parts)
    found = [
        np.einsum("ngcijyx,ngoyx->gocij", windows[k : k + size], cotangents[k : k + size], optimize=True)
        for k in range(0, x.shape[0], size)
    ]
    return np.reshape(found, (work.parts, work.groups * work.channels, work.taps))
