"""Elements around a tensor: a number, or copies of those inside."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.atlas.functions import maximum as later
from hologram.atlas.functions import minimum as earlier
from hologram.atlas.functions import select
from hologram.foundation.dtypes import ALL, DType
from hologram.foundation.errors import ShapeError
from hologram.machine.layout import Layout
from hologram.opset.forms.map import indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.pieces import Piece, Pieces
from hologram.opset.forms.samples import array, cases
from hologram.opset.indexing import scatter_add

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def widths_of(ndim: int, padding: Any) -> tuple[tuple[int, int], ...]:
    """The elements before and after each axis, however `padding` says it."""
    given: Any = (padding, padding) if isinstance(padding, int) else padding
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(n, int) for n in given):
        given = (given,) * ndim  # as NumPy: the same for every axis
    pairs = isinstance(given, (tuple, list)) and all(isinstance(p, (tuple, list)) for p in given)
    widths: tuple[Any, ...] = tuple(map(tuple, given)) if pairs else ()
    if not pairs or len(widths) != ndim or any(len(w) != 2 or min(w) < 0 for w in widths):
        raise ShapeError(f"pad: {ndim} pairs (before, after) of sizes >= 0 are needed, got {padding}")
    return widths


def _padded_shape(x, *, padding, value, mode):
    if mode not in MODES:
        raise ValueError(f"pad: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if not x.ndim:
        raise ShapeError("pad: a tensor with an axis is needed, got shape ()")
    widths = widths_of(x.ndim, padding)
    if mode != "constant" and any(sum(w) and not n for n, w in zip(x.shape, widths, strict=True)):
        raise ShapeError(
            f"pad: an axis without elements can be padded by a constant only, got shape {x.shape}"
        )
    return Layout.contiguous(x.dtype, tuple(n + sum(w) for n, w in zip(x.shape, widths, strict=True)))


def _unpadded(cotangent, inputs, padding, mode):
    for axis, (before, after) in enumerate(widths_of(inputs[0].ndim, padding)):
        n = inputs[0].shape[axis]
        if mode == "constant":
            cotangent = cotangent.narrow(axis, before, n)
        elif before or after:  # the copies of an element are added up
            places = np.pad(np.arange(n), (before, after), mode=mode)
            shape = [-1 if k == axis else 1 for k in range(cotangent.ndim)]
            index = cotangent.executor.tensor(places.astype(np.int64)).reshape(shape).expand(cotangent.shape)
            inner = tuple(n if k == axis else size for k, size in enumerate(cotangent.shape))
            zeros = cotangent.executor.full((), 0, cotangent.dtype).expand(inner)
            cotangent = scatter_add(zeros, index, cotangent, dim=axis)
    return cotangent


def _copied(coordinate: Value, before: int, n: Value, mode: str) -> Value:
    """The position inside of which an element is a copy; positions stay above 0 on the way."""
    if mode == "edge":
        return earlier(later(coordinate, before), n + (before - 1)) - before
    turn = {"wrap": n, "symmetric": n * 2, "reflect": later(n * 2 - 2, 1)}[mode]
    shift = coordinate.builder.constant(before, coordinate.dtype) % turn
    place = (coordinate + (turn - shift)) % turn
    if mode == "wrap":
        return place
    return select(place < n, place, turn - place - (1 if mode == "symmetric" else 0))


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    yield from cases(
        ((5,), {"padding": ((2, 1),), "value": 1.0}),
        ((3, 4), {"padding": ((0, 2), (1, 0)), "value": 1.0}),
        ((2, 0), {"padding": ((1, 1), (0, 3)), "value": 1.0}),
        ((2, 3), {"padding": 2, "value": 1.0}),
        ((2, 3), {"padding": (1, 2), "value": 1.0}),
        special=True,
    )(rng, dtype)
    for mode in MODES[1:]:
        yield Sample((array(rng, dtype, (3, 4)),), {"padding": ((2, 1), (0, 3)), "mode": mode})
        yield Sample((array(rng, dtype, (2, 1)),), {"padding": ((7, 9), (2, 1)), "mode": mode})


def _pieces(inputs, attributes):
    (x,) = inputs
    if attributes["mode"] != "constant":
        return None
    start = tuple(before for before, _ in widths_of(x.ndim, attributes["padding"]))
    return Pieces((Piece(0, start, x),), "value")


def _reference(x, padding, value=0.0, mode: Any = "constant"):
    if mode == "constant":
        return np.pad(x, padding, constant_values=np.asarray(value, x.dtype))
    return np.pad(x, padding, mode=mode)


@indexed(
    shape_of=_padded_shape,
    dtypes=ALL,
    samples=_samples,
    reference=_reference,
    gradient={"x": _unpadded},
    pieces=_pieces,
)
def pad(at, x, *, padding, value: float = 0.0, mode="constant"):
    """x with `padding` elements around it: a number, (before, after), or for each axis such a pair.

    By `mode` they are `value` ("constant"), copies of the nearest ("edge"), or x goes on mirrored without its end
    ("reflect"), mirrored with it ("symmetric"), or from its other end ("wrap").
    """
    inside, source = [], []
    for axis, (coordinate, (before, after)) in enumerate(zip(at, widths_of(len(at), padding), strict=True)):
        if mode != "constant":
            copied = before or after
            source.append(_copied(coordinate, before, x.extent(axis), mode) if copied else coordinate)
            continue
        here = (coordinate >= before) & (coordinate < x.extent(axis) + before)
        inside.append(here)
        source.append(select(here, coordinate, before) - before)
    element = x.at(*source)
    return select(reduce(and_, inside), element, value) if inside else element
