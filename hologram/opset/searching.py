"""Searching in what is sorted, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.foundation.dtypes import COMPLEX, COMPUTED, DType, f32, i64, index, promote, u32
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.opset import indexing, logic, sort
from hologram.opset import math as arithmetic
from hologram.opset.forms.composite import composite
from hologram.opset.forms.map import Indexed
from hologram.opset.forms.operation import Sample, declared
from hologram.opset.forms.places import Arguments, together
from hologram.opset.forms.samples import array


def _searchsorted_shape(x1, x2, sorter, *, side, nan_last):
    fits = x1.ndim == 1 or (x1.ndim > 1 and x1.shape[:-1] == x2.shape[:-1])
    if not fits or (sorter is not None and sorter.shape != x1.shape):
        raise ShapeError(
            f"searchsorted: x1, and a sorter of its shape, must have one axis, or those of x2 but for the last size; "
            f"got {x1.shape} for {x2.shape}"
        )
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if promote(x1.dtype, x2.dtype).is_complex and not nan_last:  # refuses what cannot be compared
        raise UnsupportedDType("searchsorted: complex numbers are ordered with NaN last only")
    return Layout.contiguous(i64, x2.shape)


def _before(a: Value, b: Value) -> Value:
    """Whether a stands before b in sorted order: NaN is larger than everything; see sort of complex numbers."""
    if not a.dtype.is_complex:
        return (a < b) | ((b != b) & (a == a)) if a.dtype.is_float else a < b
    (x, up), (y, other) = ((complex_parts.real(z), complex_parts.imag(z)) for z in (a, b))
    known, only = up == up, (other != other) & (up == up)  # whether a alone has an imaginary part
    same = (x == y) | ((x != x) & (y != y))
    first = (x < y) & (known | (other != other))
    return first | ((x > y) & only) | (same & ((up < other) | only)) | ((y != y) & (x == x))


def _bits(n: Value) -> Value:
    """At least as many bits as a number has, and at most one more: the exponent that it has as f32."""
    return ((n.builder.emit(Opcode.BITCAST, u32, n.to(f32)) >> 23) - 126).to(index)


def _searchsorted_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for n, shape, side in ((0, (3,), "left"), (7, (4, 5), "left"), (130, (33,), "right"), (5, (), "right")):
        x, wanted = array(rng, dtype, (n,)), array(rng, dtype, shape)
        if dtype.is_inexact and n > 2:
            x[:2] = np.nan
            if wanted.ndim:
                wanted.reshape(-1)[0] = np.nan
        # NaN last, of bf16 too.
        order = np.argsort(x.astype(np.float64) if dtype.is_float else x, kind="stable")
        yield Sample((x[order], wanted, None), {"side": side})
        yield Sample((x, wanted, order), {"side": side})
        if not dtype.is_complex:
            yield Sample((x[order], wanted, None), {"side": side, "nan_last": False})


def _searchsorted_reference(x1, x2, sorter=None, side: Any = "left", nan_last: bool = True):
    if nan_last:
        return np.searchsorted(x1, x2, side=side, sorter=sorter)
    before = np.less if side == "left" else np.less_equal
    comes_first = np.vectorize(lambda a, b: before(a, b) or a != a or b != b, otypes=[bool])
    places = np.zeros(np.shape(x2), np.int64)
    for place in np.ndindex(places.shape):  # halves, by comparisons that NaN has come first
        low, high = 0, x1.shape[-1]
        while low < high:
            middle = (low + high) // 2
            if comes_first(x1[middle], x2[place]):
                low = middle + 1
            else:
                high = middle
        places[place] = low
    return places


@frozen(eq=False, repr=False)
class Search(Indexed):
    """Called as NumPy's too, whose third argument is the side."""

    @cached_property
    def by_place(self) -> int:
        return 2

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        if len(args) > 2 and isinstance(args[2], str):
            args, kwargs = args[:2], together("searchsorted", ("side", "sorter"), args[2:], kwargs)
        return super().by_name(args, kwargs)


@declared(Search, shape_of=_searchsorted_shape, dtypes=COMPUTED + COMPLEX, samples=_searchsorted_samples,
          reference=_searchsorted_reference)  # fmt: skip
def searchsorted(at, x1, x2, sorter=None, *, side="left", nan_last=True):
    """Where x2 belongs in the sorted x1 (in x1 in the order of `sorter`): before ("left") or behind what equals it.

    An x1 of several axes is searched along the last one, in the row that x2 has the place of. Complex numbers stand in
    the order of `sort`. NaN is the largest number; without `nan_last`, as in PyTorch, the search goes on behind what
    cannot be compared.
    """
    common = promote(x1.dtype, x2.dtype).computed
    common = u32 if common.kind == "bool" else common
    wanted = x2.at(*at).to(common)
    row = at[:-1] if x1.ndim > 1 else ()

    def behind(place: Value) -> Value:
        """Whether what is wanted belongs behind the element there."""
        place = place if sorter is None else sorter.at(*row, place).to(index)
        element = x1.at(*row, place).to(common)
        if nan_last:
            return _before(element, wanted) if side == "left" else ~_before(wanted, element)
        return ~(element >= wanted) if side == "left" else ~(element > wanted)

    def turn(counter: Value, low: Value, length: Value) -> tuple[Value, Value]:
        half = length // 2
        middle = low + half
        right = behind(select(length > 0, middle, 0)) & (length > 0)
        return select(right, middle + 1, low), select(right, length - half - 1, half)

    builder = wanted.builder
    none = builder.constant(0, index)
    low, _ = builder.if_(
        x1.extent(-1) > 0,
        lambda: builder.loop(0, _bits(x1.extent(-1)), turn, first=(none, x1.extent(-1))),
        lambda: (none, none),
    )
    return low.to(i64)


def _isin_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for a, b in (((4, 5), (3,)), ((7,), (0,)), ((), (2, 2)), ((0,), (3,))):
        for invert in (False, True):
            yield Sample((array(rng, dtype, a, special=True), array(rng, dtype, b)), {"invert": invert})


@composite(dtypes=COMPUTED + COMPLEX, samples=_isin_samples,
           reference=lambda x1, x2, invert=False: np.isin(x1, x2, invert=invert))  # fmt: skip
def isin(x1, x2, *, assume_unique=False, invert=False):
    """Whether each element of x1 is among those of x2 (or, with `invert`, is not); NaN never is.

    Nothing depends on `assume_unique`.
    """
    if not x2.size:
        none = logic.logical_and(x1, False)
        return logic.logical_not(none) if invert else none
    ordered = sort.sort(x2.reshape(x2.size))
    place = searchsorted(ordered, x1)
    last = arithmetic.minimum(place, x2.size - 1)
    nearest = indexing.index_select(ordered, last.reshape(last.size)).reshape(x1.shape)
    return logic.not_equal(nearest, x1) if invert else logic.equal(nearest, x1)
