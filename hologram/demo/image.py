"""The image pipeline: a separable Gaussian blur, Sobel edges, and colours quantised by k-means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram.demo.library import Library
from hologram.foundation.frozen import frozen

SIGMA = 4.0  # of the blur, in pixels
RADIUS = 12  # where a Gaussian of that width has ended
COLOURS = 12
STAGES = 3  # of the pipeline, each reported when done
ROUNDS = 20  # of k-means
LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green and blue, Rec. 709


@frozen
class Pictures:
    """Results as NumPy arrays: planes are (3, height, width) in 0..1, labels index the palette."""

    blurred: np.ndarray
    edges: np.ndarray  # (height, width) in 0..1
    labels: np.ndarray  # (height * width,)
    palette: np.ndarray  # (COLOURS, 3)


def process(photograph: np.ndarray, library: Library, report: Callable[[], None]) -> Pictures:
    """Runs the pipeline on a photograph of shape (height, width, 3), bytes."""
    planes = np.ascontiguousarray(photograph.transpose(2, 0, 1), dtype=np.float32) / 255
    # The border repeats, so that filters have what they read and results keep the photograph's size.
    padded = library.asarray(np.pad(planes, ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)), mode="edge"))
    blurred = np.asarray(blur(padded, gaussian(SIGMA, RADIUS)))
    report()
    edges = np.asarray(sobel(padded[:, RADIUS - 1 : 1 - RADIUS, RADIUS - 1 : 1 - RADIUS], library))
    report()
    pixels = library.asarray(planes).reshape((3, -1))
    labels, palette = k_means(pixels, library.asarray(first_palette(planes)), library)
    labels, palette = np.asarray(labels), np.asarray(palette)
    report()
    return Pictures(blurred, edges, labels, palette)


def gaussian(sigma: float, radius: int) -> tuple[float, ...]:
    """Weights of a Gaussian at whole pixels, summing to 1."""
    weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-radius, radius + 1)]
    return tuple(w / sum(weights) for w in weights)


def blur(padded: Any, weights: Sequence[float]) -> Any:
    """Along columns, then along rows: views of the padded planes, shifted, weighted and summed."""
    height, width = (n - len(weights) + 1 for n in padded.shape[1:])
    columns = sum_of(w * padded[:, k : k + height, :] for k, w in enumerate(weights))
    return sum_of(w * columns[:, :, k : k + width] for k, w in enumerate(weights))


def sobel(padded: Any, library: Library) -> Any:
    """Length of the luminance's gradient, in units of the largest; `padded` has one pixel more on every side."""
    grey = sum_of(w * padded[c] for c, w in enumerate(LUMINANCE))
    upper, middle, lower = grey[:-2, :], grey[1:-1, :], grey[2:, :]
    smooth = upper + 2.0 * middle + lower
    slope = lower - upper
    across = smooth[:, 2:] - smooth[:, :-2]
    down = slope[:, :-2] + 2.0 * slope[:, 1:-1] + slope[:, 2:]
    length = library.functions.sqrt(across * across + down * down)
    return length / library.functions.max(length)


def first_palette(planes: np.ndarray) -> np.ndarray:
    """Where k-means starts: the mean colour, then always the pixel farthest from all colours so far (Gonzalez 1985)."""
    # Every 61st is enough, and not a column of the picture.
    pixels = planes.reshape(3, -1).T[::61].astype(np.float64)
    palette = [pixels.mean(axis=0)]
    distance = np.full(len(pixels), np.inf)
    while len(palette) < COLOURS:
        distance = np.minimum(distance, ((pixels - palette[-1]) ** 2).sum(axis=1))
        palette.append(pixels[distance.argmax()])
    return np.asarray(palette, dtype=np.float32)


def k_means(pixels: Any, palette: Any, library: Library) -> tuple[Any, Any]:
    """Lloyd's algorithm on pixels of shape (3, n): each goes to its nearest colour, which becomes their mean."""
    xp = library.functions
    names = library.asarray(np.arange(COLOURS, dtype=np.int64).reshape(-1, 1))
    one, zero = library.asarray(np.ones(1, np.float32)), library.asarray(np.zeros(1, np.float32))
    labels = nearest(pixels, palette, library)
    for _ in range(ROUNDS):
        belongs = xp.where(names == labels, one, zero)  # (COLOURS, n)
        members = xp.sum(belongs, axis=1, keepdims=True)
        means = xp.matmul(belongs, pixels.T) / xp.maximum(members, one)
        palette = xp.where(members > zero, means, palette)
        labels = nearest(pixels, palette, library)
    return labels, palette


def nearest(pixels: Any, palette: Any, library: Library) -> Any:
    """Index of the nearest colour: |p - c|^2 without the |p|^2 that all colours share."""
    xp = library.functions
    squares = xp.sum(palette * palette, axis=1, keepdims=True)
    return xp.argmin(squares - 2.0 * xp.matmul(palette, pixels), axis=0)


def sum_of(terms: Any) -> Any:
    """The sum of arrays, the first of which is where it starts."""
    total, *others = terms
    for term in others:
        total = total + term
    return total
