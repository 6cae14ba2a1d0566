"""A view handed to `run` or `launch` is a buffer of the view's elements, however they lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes

POISON = 7

# Where each view lies in an array of 12 x 20: aligned or not, whole rows, scattered, backwards, and nothing.
VIEWS = {
    "a part": np.s_[3:5],
    "from an odd place": np.s_[0, 3:9],
    "a column": np.s_[:, 2],
    "backwards": np.s_[::-1],
    "every third": np.s_[::3, 1::3],
    "one": np.s_[4:5, 7:8],
    "nothing": np.s_[5:5],
}


def axpy(dtype: dtypes.DType) -> Program:
    """y = a x + y, and a store past the end, which does nothing."""
    b = Builder(f"atlas_axpy_{dtype}", rank=1)
    x, y = b.buffer("x", dtype, Access.READ), b.buffer("y", dtype, Access.READ_WRITE)
    a = b.scalar("a", dtype)
    lane = b.position(Opcode.LANE)
    b.store(y, lane, a * b.load(x, lane) + b.load(y, lane))
    return b.build()


@pytest.mark.parametrize("dtype", ["f32", "i32", "u8", "f16"])
@pytest.mark.parametrize("where", VIEWS.values(), ids=VIEWS)
def test_it_reads_and_writes_the_elements_of_views(executor: hg.Executor, where: Any, dtype: str) -> None:
    element = dtypes.dtype(dtype)
    x = (np.arange(240).reshape(12, 20) % 11).astype(element.numpy)
    y = np.full((12, 20), POISON, element.numpy)
    given, result = executor.tensor(x), executor.tensor(y)
    lanes = int(x[where].size)
    executor.run(axpy(element), {"x": given[where], "y": result[where]}, lanes=lanes, a=2)
    y[where] += 2 * x[where]
    np.testing.assert_array_equal(result.to_numpy(), y)
    np.testing.assert_array_equal(given.to_numpy(), x)


def test_more_lanes_than_a_view_has_touch_nothing_beside_it(executor: hg.Executor) -> None:
    """What lies outside of a view is outside of the buffer: loads give any value, stores do nothing."""
    for where in (np.s_[3:9], np.s_[64:68], np.s_[::7]):
        for dtype in ("f32", "u8"):
            element = dtypes.dtype(dtype)
            result = executor.full((100,), POISON, element)
            wanted = np.full(100, POISON, element.numpy)
            wanted[where] += 2
            ones = executor.ones((100,), element)
            executor.run(axpy(element), {"x": ones[where], "y": result[where]}, lanes=100, a=2)
            np.testing.assert_array_equal(result.to_numpy(), wanted)


def test_a_view_given_twice_is_one_buffer(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(20, dtype=np.float32).reshape(4, 5))
    executor.run(axpy(hg.f32), {"x": x[:, 1], "y": x[:, 1]}, lanes=4, a=3)
    wanted = np.arange(20, dtype=np.float32).reshape(4, 5)
    wanted[:, 1] *= 4
    np.testing.assert_array_equal(x.to_numpy(), wanted)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (np.s_[::2], np.s_[:128]),
        (np.s_[:128], np.s_[64:192]),
        (np.s_[:3], np.s_[1:4]),
        (np.s_[9::-1], np.s_[:10]),
    ],
    ids=str,
)
def test_views_that_share_memory_otherwise_are_refused(
    executor: hg.Executor, read: Any, written: Any
) -> None:
    x = executor.tensor(np.arange(256, dtype=np.float32))
    with pytest.raises(hg.ShapeError, match="share memory only with the same elements"):
        executor.run(axpy(hg.f32), {"x": x[read], "y": x[written]}, lanes=x[written].size, a=1.0)
    np.testing.assert_array_equal(x.to_numpy(), np.arange(256, dtype=np.float32))


def test_the_same_elements_in_another_shape_are_one_buffer(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(12, dtype=np.float32))
    executor.run(axpy(hg.f32), {"x": x.reshape(3, 4), "y": x}, lanes=12, a=1.0)
    np.testing.assert_array_equal(x.to_numpy(), 2 * np.arange(12, dtype=np.float32))


def test_it_is_done_again_at_each_call(executor: hg.Executor) -> None:
    """No launch on copies is kept as if it were one on the views."""
    y = executor.zeros((6, 4))
    for k in range(1, 4):
        x = executor.full((6, 4), k)
        executor.run(axpy(hg.f32), {"x": x[:, 3], "y": y[:, 0]}, lanes=6, a=1.0)
    assert y.to_numpy()[:, 0].tolist() == [6.0] * 6
    assert not y.to_numpy()[:, 1:].any()
