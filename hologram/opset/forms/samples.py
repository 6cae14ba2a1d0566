"""Test arguments: arrays of every dtype with awkward shapes and special values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.opset.forms.operation import Sample

Samples = Callable[["np.random.Generator", DType], Iterable[Sample]]  # numpy.random loads when it is named

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (33, 5), (3, 1, 4), (1031,), (2, 0, 3))
PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((0,), (1,)),
    ((7,), (7,)),
    ((5, 1), (1, 6)),
    ((3, 4, 5), (4, 1)),
    ((1031,), ()),
)


def array(
    rng: np.random.Generator,
    dtype: DType,
    shape: Sequence[int],
    low: float = -8.0,
    high: float = 8.0,
    special: bool = False,
) -> np.ndarray:
    """Random elements in [low, high]; with `special`, some are NaN, infinite, signed zeros, denormal or extreme."""
    shape = tuple(shape)
    if dtype.is_complex:
        z = np.empty(shape, dtype.numpy)
        z.real, z.imag = (array(rng, dtype.part, shape, low, high, special) for _ in range(2))
        return z
    if dtype.kind == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        first, last = max(int(np.ceil(low)), dtype.lowest), min(int(high), dtype.highest)
        values = np.asarray(rng.integers(first, last, shape, endpoint=True)).astype(dtype.numpy)
        extremes: list[Any] = [dtype.lowest, dtype.highest, 0, 1]
    else:
        values = np.asarray(rng.uniform(low, high, shape)).astype(dtype.numpy)
        extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, dtype.largest, -dtype.largest, dtype.smallest]
    if special and values.size > 1:
        places = rng.permutation(values.size)[: max(1, min(values.size // 4, 3 * len(extremes)))]
        with np.errstate(over="ignore", invalid="ignore"):
            chosen = np.array([extremes[k % len(extremes)] for k in range(len(places))]).astype(dtype.numpy)
        values.reshape(-1)[places] = chosen
    return values


def unary(low: float = -8.0, high: float = 8.0, special: bool = True, **attributes: Any) -> Samples:
    """One operand of every shape."""

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape in SHAPES:
            yield Sample((array(rng, dtype, shape, low, high, special),), attributes)

    return make


def binary(
    low: float = -8.0,
    high: float = 8.0,
    special: bool = True,
    number: float | None = 3,
    second: tuple[float, float] | None = None,
) -> Samples:
    """Two operands whose shapes broadcast; then a tensor with a Python number."""
    low2, high2 = second or (low, high)

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for a, b in PAIRS:
            yield Sample(
                (array(rng, dtype, a, low, high, special), array(rng, dtype, b, low2, high2, special))
            )
        if number is not None and dtype.kind != "bool":
            yield Sample((array(rng, dtype, (9, 3), low, high, special), number))

    return make


def ternary(low: float = -8.0, high: float = 8.0, special: bool = True) -> Samples:
    """Three operands whose shapes broadcast."""

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for a, b, c in (((7,), (7,), (7,)), ((4, 5), (5,), (4, 1)), ((0,), (1,), ())):
            yield Sample(tuple(array(rng, dtype, s, low, high, special) for s in (a, b, c)))

    return make


def reduction(
    low: float = -8.0, high: float = 8.0, special: bool = False, empty: bool = True, **fixed: Any
) -> Samples:
    """Arrays with every kind of axis: last, first, middle, several, all, negative; with and without keepdims."""

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        cases: list[tuple[tuple[int, ...], Any, bool]] = [
            ((7,), None, False),
            ((1,), 0, False),
            ((5, 300), 1, False),
            ((300, 5), 0, True),
            ((4, 5, 6), (0, 2), False),
            ((4, 5, 6), 1, True),
            ((3, 4, 5), None, True),
            ((2, 3, 2, 3), (1, -1), False),
            ((70_001,), None, False),
            ((), None, False),
        ]
        cases += [((0, 3), 0, False)] if empty else [((0, 3), 1, False)]
        for shape, axis, keepdims in cases:
            x = array(rng, dtype, shape, low, high, special and len(shape) > 1)
            yield Sample((x,), {"axis": axis, "keepdims": keepdims, **fixed})

    return make


def cases(*given: tuple[Any, ...], low: float = -8.0, high: float = 8.0, special: bool = False) -> Samples:
    """Samples of arrays: of each the operands' shapes, and behind them the attributes."""

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for *shapes, attributes in given:
            yield Sample(tuple(array(rng, dtype, s, low, high, special) for s in shapes), attributes)

    return make


def normalizing(name: str, low: float = -8.0, high: float = 8.0, **fixed: Any) -> Samples:
    """Arrays for operations that keep the shape, along each of their axes; `name` is the axis attribute."""

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape, axis in (
            ((7,), 0),
            ((5, 1000), -1),
            ((300, 5), 0),
            ((3, 4, 5), 1),
            ((), -1),
            ((0, 4), -1),
        ):
            yield Sample((array(rng, dtype, shape, low, high),), {name: axis, **fixed})

    return make
