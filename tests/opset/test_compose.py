"""compose() against NumPy's strides: what it gives is right, and for views that nest regularly it gives something."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.merging import compose
from tests.test_random_programs import BOUNDED

SIDES = st.integers(1, 6)
SHAPES = st.lists(SIDES, max_size=4).map(tuple)


def positions(layout: Layout) -> np.ndarray:
    """The position of every element."""
    found = np.full(layout.shape, layout.offset)
    for axis, (n, stride) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        found += (np.arange(n) * stride).reshape([n if k == axis else 1 for k in range(layout.ndim)])
    return found


def seen_through(inner: Layout, outer: Layout) -> np.ndarray:
    """Where `inner` lies at the coordinates that `outer` numbers."""
    return positions(inner).reshape(-1)[positions(outer)]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout, overlapping ones among them."""
    shape = draw(SHAPES)
    strides = tuple(draw(st.integers(-40, 40)) for _ in shape)
    return Layout(dtypes.f32, shape, strides, draw(st.integers(0, 50)))


@st.composite
def views(draw: st.DrawFn, layout: Layout) -> Layout:
    """A view of a layout, several steps away."""
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["permute", "slice", "expand", "unsqueeze", "select", "reshape"]))
        if kind == "unsqueeze":
            layout = layout.unsqueeze(draw(st.integers(0, layout.ndim)))
        elif kind == "permute":
            layout = layout.permute(draw(st.permutations(range(layout.ndim))))
        elif kind == "expand":
            layout = layout.expand(
                (*draw(st.lists(SIDES, max_size=1)), *(3 if n == 1 else n for n in layout.shape))
            )
        elif kind == "reshape":
            parts = [p for n in layout.shape for p in divided(draw, n)]
            layout = layout.reshape(parts) or layout
        elif layout.ndim:
            axis = draw(st.integers(0, layout.ndim - 1))
            first, last = (draw(st.integers(0, layout.shape[axis] - 1)) for _ in range(2))
            step = draw(st.integers(1, 3)) * (1 if first <= last else -1)
            length = len(range(first, last + (1 if step > 0 else -1), step))
            layout = layout.narrow(axis, first, length, step)
            layout = layout.squeeze(axis) if kind == "select" and length == 1 else layout
        assume(layout.size < 3000 and layout.ndim < 8)
    return layout


def divided(draw: st.DrawFn, n: int) -> list[int]:
    part = draw(st.sampled_from([p for p in range(1, n + 1) if n % p == 0]))
    return [part, n // part]


@BOUNDED
@given(inner=layouts(), data=st.data())
def test_a_composed_layout_is_the_right_one(inner: Layout, data: st.DataObject) -> None:
    """Whatever numbers the elements, in whatever way."""
    shape = data.draw(SHAPES)
    strides = tuple(data.draw(st.integers(-2, inner.size)) for _ in shape)
    outer = Layout(dtypes.f32, shape, strides, data.draw(st.integers(0, max(inner.size - 1, 0))))
    low, high = outer.span
    assume(low >= 0 and high <= inner.size)
    found = compose(inner, outer)
    if found is not None:
        assert found.shape == outer.shape
        np.testing.assert_array_equal(positions(found), seen_through(inner, outer))


@BOUNDED
@given(inner=layouts(), data=st.data())
def test_views_along_the_axes_always_compose(inner: Layout, data: st.DataObject) -> None:
    """Permuted, sliced, flipped, expanded, split: none of that steps over the end of an axis."""
    outer = data.draw(views(Layout.contiguous(dtypes.f32, inner.shape)))
    found = compose(inner, outer)
    assert found is not None
    np.testing.assert_array_equal(positions(found), seen_through(inner, outer))


@BOUNDED
@given(shape=SHAPES, data=st.data())
def test_regular_axes_compose_however_they_are_merged_and_split(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    """A contiguous array, and one of another shape with as many elements, seen by any view of the other."""
    size = math.prod(shape)
    step = data.draw(st.sampled_from([1, 2, -1, -3, 0]))
    plain = Layout.contiguous(dtypes.f32, shape)
    inner = Layout(dtypes.f32, shape, tuple(step * s for s in plain.strides), 100)
    outer = data.draw(
        views(Layout.contiguous(dtypes.f32, data.draw(st.permutations(shape)) if size else shape))
    )
    found = compose(inner, outer)
    assert found is not None
    np.testing.assert_array_equal(positions(found), seen_through(inner, outer))
