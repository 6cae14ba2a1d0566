"""Which elements along an axis a result reads, and by which weights: interpolation, means of windows, padding.

A table holds positions and weights (results, taps); -1 is no position. Rules are PyTorch's (ATen/native/UpSample.h,
AdaptiveAveragePooling.cpp, PadNd.cpp), computed in the precision that it computes them in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hologram.foundation.frozen import frozen

MAX_TABLES = 1024


def per_axis(values: Sequence[int], axes: int) -> tuple[int, ...]:
    """One for every axis, of which PyTorch lets one stand for all."""
    return tuple(values) if len(values) == axes else (values[0],) * axes


@frozen(eq=False)
class Table:
    """Positions (i32) and weights (f64) along an axis of `length` elements; without weights they are 1, a tap each."""

    positions: np.ndarray
    weights: np.ndarray | None
    length: int

    @cached_property
    def transposed(self) -> Table:
        """The table of the derivative: for each element, the results that read it."""
        weights = np.ones(self.positions.shape) if self.weights is None else self.weights
        results, taps = np.nonzero((self.positions >= 0) & (self.positions < self.length))
        sources = self.positions[results, taps]
        order = np.argsort(sources, kind="stable")
        counts = np.bincount(sources, minlength=self.length)
        width = max(int(counts.max(initial=0)), 1)
        column = np.arange(sources.size) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = np.full((self.length, width), -1, np.int32)
        factors = np.zeros((self.length, width))
        positions[sources[order], column] = results[order]
        factors[sources[order], column] = weights[results[order], taps[order]]
        return Table(positions, factors, len(self.positions))


Rule = Callable[..., Table]


def table(function: Callable[..., Table]) -> Callable[..., Table]:
    """Keeps the tables of a rule."""
    return lru_cache(maxsize=MAX_TABLES)(function)


def _one(positions: Any, length: int) -> Table:
    return Table(np.asarray(positions, np.int32).reshape(-1, 1), None, length)


# Interpolation. `real` is the type that PyTorch computes positions in: double for tensors of doubles.


def _ratio(length: int, results: int, scale: float | None, aligned: bool, real: Any) -> Any:
    if aligned:
        return real(length - 1) / real(results - 1) if results > 1 else real(0)
    return real(1.0 / scale) if scale is not None and scale > 0 else real(length) / real(results)


@table
def nearest(length: int, results: int, scale: float | None, aligned: bool, real: Any) -> Table:
    ratio = _ratio(length, results, scale, False, np.float32)
    places = np.arange(results, dtype=np.float32)
    if length == results:
        return _one(np.arange(results), length)
    if results == 2 * length:
        return _one(np.arange(results) // 2, length)
    return _one(np.minimum(np.floor(places * ratio), length - 1), length)


@table
def nearest_exact(length: int, results: int, scale: float | None, aligned: bool, real: Any) -> Table:
    ratio = _ratio(length, results, scale, False, np.float32)
    places = np.arange(results, dtype=np.float32)
    return _one(np.minimum(np.floor((places + np.float32(0.5)) * ratio), length - 1), length)


def _sources(length: int, results: int, scale: Any, aligned: bool, real: Any) -> np.ndarray:
    ratio = _ratio(length, results, scale, aligned, real)
    places = np.arange(results).astype(real)
    return ratio * places if aligned else ratio * (places + real(0.5)) - real(0.5)


@table
def linear(length: int, results: int, scale: float | None, aligned: bool, real: Any) -> Table:
    if length == results:
        return _one(np.arange(results), length)
    source = np.maximum(_sources(length, results, scale, aligned, real), real(0))
    first = np.minimum(source.astype(np.int64), length - 1)
    part = np.clip(source - first.astype(real), real(0), real(1)).astype(real)
    second = np.minimum(first + 1, length - 1)
    return Table(
        np.stack([first, second], 1).astype(np.int32),
        np.stack([real(1) - part, part], 1).astype(np.float64),
        length,
    )


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel of convolution (1981), for |x| <= 2."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


@table
def cubic(length: int, results: int, scale: float | None, aligned: bool, real: Any) -> Table:
    source = _sources(length, results, scale, aligned, real)
    first = np.floor(source).astype(np.int64)
    part = (source - first.astype(real)).astype(np.float64)
    taps = np.arange(-1, 3)
    positions = np.clip(first[:, None] + taps, 0, length - 1)
    return Table(positions.astype(np.int32), _cubic(part[:, None] - taps, -0.75), length)


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


def _smooth(support: float, kernel: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """Interpolation that averages what a result stands for, where it stands for more than an element."""

    @table
    def rule(length: int, results: int, scale: float | None, aligned: bool, real: Any) -> Table:
        ratio = float(_ratio(length, results, scale, aligned, real))
        wide = max(ratio, 1.0)
        centre = ratio * (np.arange(results) + 0.5)
        first = np.maximum((centre - support * wide + 0.5).astype(np.int64), 0)
        last = np.minimum((centre + support * wide + 0.5).astype(np.int64), length)
        taps = np.arange(max(int((last - first).max(initial=1)), 1))
        positions = first[:, None] + taps
        inside = positions < last[:, None]
        weights = np.where(inside, kernel((positions - centre[:, None] + 0.5) / wide), 0.0)
        total = weights.sum(axis=1, keepdims=True)
        weights = np.where(total != 0, weights / np.where(total == 0, 1.0, total), weights)
        return Table(np.where(inside, positions, -1).astype(np.int32), weights, length)

    return rule


linear_smooth = _smooth(1.0, _triangle)
cubic_smooth = _smooth(2.0, lambda x: _cubic(x, -0.5))
lanczos_smooth = _smooth(3.0, _lanczos)


# Means of windows.


def _windows(first: np.ndarray, last: np.ndarray, counts: np.ndarray, length: int) -> Table:
    taps = np.arange(max(int((last - first).max(initial=1)), 1))
    positions = first[:, None] + taps
    inside = positions < last[:, None]
    return Table(
        np.where(inside, positions, -1).astype(np.int32), np.where(inside, 1.0 / counts[:, None], 0.0), length
    )


@table
def adaptive(length: int, results: int) -> Table:
    """As many windows as results, which share the axis among them."""
    number = np.arange(results)
    first = number * length // max(results, 1)
    last = -(-((number + 1) * length) // max(results, 1))
    return _windows(first, last, np.maximum(last - first, 1), length)


@lru_cache(maxsize=MAX_TABLES)
def window_bounds(
    length: int, kernel: int, stride: int, padding: int, ceil: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Where windows begin and end, padding included."""
    over = length + 2 * padding - kernel
    results = (-(-over // stride) if ceil else over // stride) + 1
    if ceil and (results - 1) * stride >= length + padding:  # it would begin in the padding behind
        results -= 1
    first = np.arange(results) * stride - padding
    return first, np.minimum(first + kernel, length + padding)


@table
def means(
    length: int, kernel: int, stride: int, padding: int, ceil: bool, padded: bool, divisor: int | None
) -> Table:
    """Means of windows, which count padding or not; or sums of them over a divisor."""
    begin, end = window_bounds(length, kernel, stride, padding, ceil)
    first, last = np.maximum(begin, 0), np.minimum(end, length)
    counts = end - begin if padded else last - first
    if divisor is not None:
        counts = np.full_like(counts, divisor)
    return _windows(first, last, np.maximum(counts, 1) if divisor is None else counts, length)


# Padding.


@table
def reflected(length: int, before: int, after: int) -> Table:
    """Beyond an edge the axis goes back, without the edge's element once more."""
    places = np.arange(-before, length + after)
    places = np.abs(places)
    return _one(np.where(places >= length, 2 * (length - 1) - places, places), length)


@table
def replicated(length: int, before: int, after: int) -> Table:
    """Beyond an edge the edge's element goes on."""
    return _one(np.clip(np.arange(-before, length + after), 0, length - 1), length)


def whole(counts: list[np.ndarray]) -> np.ndarray:
    """The product of numbers by axis, as an array over all of them."""
    return math.prod(np.ix_(*counts)) if counts else np.ones(())  # type: ignore[arg-type]
