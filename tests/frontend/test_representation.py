"""How tensors show themselves: as NumPy shows the array, without fetching what is not shown."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import hologram as hg

SHAPES = [
    (),
    (1,),
    (0,),
    (0, 5),
    (2, 3),
    (1000,),
    (1001,),
    (7, 200),
    (6, 300),
    (300, 6),
    (40, 5, 7),
    (2, 1200, 1),
]
OPTIONS: list[dict[str, Any]] = [{}, {"edgeitems": 1, "threshold": 5}, {"threshold": 10**9}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_are_shown_as_numpy_shows_them(
    executor: hg.Executor, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    axes = tuple(reversed(range(array.ndim)))
    x = executor.tensor(array)
    with np.printoptions(**options):
        for tensor, wanted in ((x, array), (x.permute(axes), array.transpose(axes))):
            assert repr(tensor).startswith(f"Tensor({np.array2string(wanted, prefix='Tensor(')}, ")
            cut = wanted.size > np.get_printoptions()["threshold"] or (not wanted.size and wanted.ndim > 1)
            assert (f"shape={wanted.shape}" in repr(tensor)) == cut


@pytest.mark.parametrize("shape", [(2**28,), (2**70,), (2**40, 2**40)], ids=str)
def test_what_is_not_shown_is_not_fetched(executor: hg.Executor, shape: tuple[int, ...]) -> None:
    x = hg.broadcast_to(executor.ones((1,)), shape)
    repr(x)  # imports what printing needs
    tracemalloc.start()
    try:
        shown = repr(x)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20
    assert "[1. 1. 1. ... 1. 1. 1.]" in shown
    assert f"shape={shape}" in shown


@pytest.mark.parametrize("shape", [(1,) * 65, (7,) * 33], ids=lambda shape: f"{len(shape)} axes")
def test_more_axes_than_numpy_has_are_not_shown(executor: hg.Executor, shape: tuple[int, ...]) -> None:
    x = executor.ones((1,)).expand(shape)
    assert repr(x) == f"Tensor(..., shape={shape}, dtype=f32, device={x.device})"


def test_what_cannot_be_read_is_said_and_not_raised(
    executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = executor.ones((3,))

    def lose(*_: object, **__: object) -> None:
        raise hg.DeviceLost("gone")

    monkeypatch.setattr(hg.Buffer, "to_numpy", lose)
    assert repr(x) == f"Tensor(unreadable, shape=(3,), dtype=f32, device={x.device}: gone)"


def test_a_traced_tensor_shows_what_is_known_of_it(executor: hg.Executor) -> None:
    shown = []

    @hg.jit
    def f(x: hg.Tensor) -> hg.Tensor:
        shown.append(repr(x))
        return x + 1.0

    f(executor.ones((2, 3)))
    assert shown == ["Tensor(traced, shape=(2, 3), dtype=f32)"]
