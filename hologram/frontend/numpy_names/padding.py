"""hg.pad with NumPy's arguments: its modes beyond those of the operation, and numbers of their own for each side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.numpy_names.operands import exact, on_host
from hologram.frontend.numpy_names.quantiles import median
from hologram.frontend.tensor import Tensor
from hologram.opset import arithmetic, arrange, creation, movement, reduce, rounding
from hologram.opset import padding as operation

Pair = tuple[int, int]


def pad(array: Any, pad_width: Any = None, mode: str = "constant", *, constant_values: Any = None,
        end_values: Any = None, stat_length: Any = None, reflect_type: str | None = None,
        padding: Any = None, value: float = 0.0) -> Tensor:  # fmt: skip
    """With elements around it, `pad_width` of them: a number, (before, after), for each axis a pair, or a dict of axes.

    By `mode` they are `constant_values` ("constant", 0 by default), copies of the nearest ("edge"), or the tensor goes
    on mirrored without its end ("reflect"), with it ("symmetric"), or from its other end ("wrap"). With
    `reflect_type="odd"` mirrored elements are taken from twice the end. Or they fall to `end_values` ("linear_ramp", 0
    by default), or are the "maximum", "minimum", "mean" or "median" of the `stat_length` elements next to them (all by
    default). Numbers are one for all sides, (before, after), or for each axis a pair; axes are padded one by one.
    As an operation, and as the method, it has the arguments `padding`, `value` and the first five modes.
    """
    if pad_width is None or padding is not None:
        if pad_width is not None:
            raise TypeError("pad: either pad_width or padding is meant, got both")
        return operation.pad(array, padding=padding, value=value, mode=mode)
    x = asarray(array)
    widths = _widths(pad_width, x.ndim)
    given = {"constant_values": constant_values, "end_values": end_values, "stat_length": stat_length,
             "reflect_type": reflect_type}  # fmt: skip
    settings = {n: s for n, s in given.items() if s is not None}
    if not isinstance(mode, str) or mode not in ALLOWED:
        raise ValueError(f"pad: mode must be one of {', '.join(ALLOWED)}, got {mode!r}")
    if not settings.keys() <= {ALLOWED[mode]}:
        raise ValueError(
            f"pad: mode {mode!r} takes {ALLOWED[mode] or 'no setting'}, got {', '.join(settings)}"
        )
    setting = settings.get(ALLOWED[mode] or "")
    if not x.ndim:
        return x.clone()
    if mode != "constant" and any(sum(w) and not n for n, w in zip(x.shape, widths, strict=True)):
        raise ShapeError(
            f"pad: an axis without elements can be padded by a constant only, got shape {x.shape}"
        )
    if mode == "empty" or (mode == "constant" and setting is None):
        return operation.pad(x, padding=widths, value=0)
    if mode in STEPS or (ALLOWED[mode] == "reflect_type" and setting == "odd"):
        step = STEPS.get(mode, _odd)
        of_sides = _sides(setting, x.ndim) if mode in STEPS else [(mode, mode)] * x.ndim
        for axis, width in enumerate(widths):
            if any(width):
                x = step(x, axis, width, of_sides[axis], mode)
        return x
    if setting not in (None, "even"):
        raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {setting!r}")
    return operation.pad(x, padding=widths, mode=mode)


def _widths(given: Any, ndim: int) -> tuple[Pair, ...]:
    if isinstance(given, dict):
        filled: list[Any] = [(0, 0)] * ndim
        for axis, width in given.items():
            filled[axis] = (width, width) if isinstance(width, (int, np.integer)) else tuple(width)
        given = filled
    numbers = on_host(given, "pad: pad_width")
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"pad: pad_width must be integers, got {given}")
    if np.any(numbers < 0):
        raise ShapeError(f"pad: sizes >= 0 are needed, got {given}")
    return tuple((before, after) for before, after in _paired(numbers, ndim, "pad_width"))


def _paired(numbers: np.ndarray, ndim: int, who: str) -> Any:
    try:
        return np.broadcast_to(numbers, (ndim, 2)).tolist()
    except ValueError:
        raise ShapeError(
            f"pad: {who} must be a number, a pair or {ndim} pairs, got {numbers.tolist()}"
        ) from None


def _sides(setting: Any, ndim: int) -> list[tuple[Any, Any]]:
    """What is given for both sides of each axis; None where nothing is."""
    if setting is None:
        return [(None, None)] * ndim
    return _paired(on_host(setting, "pad: numbers"), ndim, "the numbers")


def _joined(before: Tensor | None, x: Tensor, after: Tensor | None, axis: int) -> Tensor:
    return movement.concat([part for part in (before, x, after) if part is not None], axis=axis)


def _edges(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    return x.slice(axis, 0, 1), x.slice(axis, -1, None)


def _repeated(x: Tensor, axis: int, size: int) -> Tensor:
    return x.expand(tuple(size if k == axis else n for k, n in enumerate(x.shape)))


def _constants(x: Tensor, axis: int, width: Pair, values: Any, mode: str) -> Tensor:
    def block(size: int, number: Any) -> Tensor | None:
        shape = tuple(size if k == axis else n for k, n in enumerate(x.shape))
        return x.executor.full(shape, x.dtype.python(number), x.dtype) if size else None

    return _joined(block(width[0], values[0]), x, block(width[1], values[1]), axis)


def _odd(x: Tensor, axis: int, width: Pair, sides: Any, mode: str) -> Tensor:
    """Mirrored at a point: twice the end less what lies on the other side of it; again where that is not enough."""
    before, after = width
    skipped = 0 if mode == "symmetric" else 1
    if x.shape[axis] <= skipped:
        sizes = tuple(width if k == axis else (0, 0) for k in range(x.ndim))
        return operation.pad(x, padding=sizes, mode="edge")
    while before or after:
        n = x.shape[axis]
        (first, last), length = _edges(x, axis), n - skipped
        left, right = min(before, length), min(after, length)
        behind = arrange.flip(x.slice(axis, skipped, skipped + left), axis=axis)
        ahead = arrange.flip(x.slice(axis, length - right, length), axis=axis)
        x = _joined(first * 2 - behind if left else None, x, last * 2 - ahead if right else None, axis)
        before, after = before - left, after - right
    return x


def _kind(x: Tensor) -> DType:
    """What means and ramps are computed in."""
    return x.dtype if x.dtype.is_inexact else exact(x)


def _ramp(x: Tensor, axis: int, width: Pair, ends: Any, mode: str) -> Tensor:
    """Equal steps from the end value, which is the outermost, to the edge; of integers rounded down."""
    kind = _kind(x)

    def side(size: int, edge: Tensor, end: Any) -> Tensor | None:
        if not size:
            return None
        end = 0 if end is None else end
        at = creation.arange(x.executor, size, dtype=kind.part.name)
        at = at.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        made = at * ((edge.astype(kind, copy=False) - end) / size) + end
        return (rounding.floor(made) if x.dtype.is_integer else made).astype(x.dtype, copy=False)

    first, last = _edges(x, axis)
    after = side(width[1], last, ends[1])
    after = None if after is None else arrange.flip(after, axis=axis)
    return _joined(side(width[0], first, ends[0]), x, after, axis)


def _statistic(x: Tensor, axis: int, width: Pair, lengths: Any, mode: str) -> Tensor:
    n = x.shape[axis]
    kind = _kind(x) if mode in ("mean", "median") else x.dtype

    def side(size: int, begin: int, end: int) -> Tensor | None:
        if not size:
            return None
        found = STATISTICS[mode](x.slice(axis, begin, end).astype(kind, copy=False), axis=axis, keepdims=True)
        if kind is not x.dtype:
            found = arithmetic.round_(found) if x.dtype.is_integer else found
        return _repeated(found.astype(x.dtype, copy=False), axis, size)

    before, after = (n if length is None else min(int(length), n) for length in lengths)
    if min(before, after) < 1:
        raise ValueError(f"pad: stat_length must be at least 1, got {lengths}")
    return _joined(side(width[0], 0, before), x, side(width[1], n - after, n), axis)


STATISTICS: dict[str, Callable[..., Tensor]] = {
    "maximum": reduce.max_, "minimum": reduce.min_, "mean": reduce.mean, "median": median,
}  # fmt: skip
# What pads axis by axis; the other modes are the operation's.
STEPS: dict[str, Callable[..., Tensor]] = {
    "constant": _constants, "linear_ramp": _ramp, **dict.fromkeys(STATISTICS, _statistic),
}  # fmt: skip
# The setting that a mode takes, if any.
ALLOWED: dict[str, str | None] = {
    "constant": "constant_values", "edge": None, "reflect": "reflect_type", "symmetric": "reflect_type", "wrap": None,
    "linear_ramp": "end_values", **dict.fromkeys(STATISTICS, "stat_length"), "empty": None,
}  # fmt: skip
