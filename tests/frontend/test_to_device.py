"""Tensors on another executor: of the same device, of another one, of another backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes

DATA = np.random.default_rng(0).integers(-100, 100, (4, 6, 5))


@pytest.fixture
def other() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as opened:
        yield opened


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_elements_and_dtypes_stay(executor: hg.Executor, other: hg.Executor, dtype: Any) -> None:
    if dtype not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType, match=f"to_device: {executor.backend}.* has no {dtype}"):
            other.zeros(3, dtype).to(executor)
        return
    x = other.tensor(DATA).astype(dtype)
    there = x.to(executor)
    assert (there.executor, there.dtype) == (executor, dtype)
    back = there.to_device(other)
    np.testing.assert_array_equal(back.to_numpy(), x.to_numpy())
    there[...] = 0  # memory of its own
    np.testing.assert_array_equal(back.to_numpy(), x.to_numpy())


@pytest.mark.parametrize("view", [
    lambda x: x[1:3], lambda x: x[:, ::2, 1:], lambda x: x.permute((2, 0, 1)), lambda x: x[::-1], lambda x: x[2, 3, 4],
    lambda x: x[:0], lambda x: x[:, None].expand((4, 3, 6, 5)), lambda x: x.reshape(-1)[3:],
])  # fmt: skip
def test_views_come_contiguous(executor: hg.Executor, other: hg.Executor, view: Any) -> None:
    for first, then in ((executor, other), (other, executor)):
        x = first.tensor(DATA.astype(np.float32))
        moved = view(x).to(then)
        assert moved.is_contiguous()
        np.testing.assert_array_equal(moved.to_numpy(), view(x).to_numpy())


def test_what_is_there_is_itself(executor: hg.Executor) -> None:
    x = executor.tensor([1.0, 2.0])
    assert x.to(executor) is x.to_device(executor) is x
    assert x.clone().to(executor).executor is executor


def test_complex_and_packed(executor: hg.Executor, other: hg.Executor) -> None:
    z = DATA.astype(np.complex64) * (1 + 2j)
    np.testing.assert_array_equal(other.tensor(z)[:, 1].to(executor).to_numpy(), z[:, 1])
    weights = np.random.default_rng(1).normal(size=(8, 256)).astype(np.float32)
    packed = hg.Packed.quantize(weights, "int4", other)
    moved = packed.to(executor)
    assert moved.to(executor) is moved
    assert (moved.executor, moved.shape, moved.format) == (executor, packed.shape, packed.format)
    for name, plane in packed.planes.items():
        np.testing.assert_array_equal(moved.planes[name].to_numpy(), plane.to_numpy())


def test_the_host_copies_once(
    executor: hg.Executor, other: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    fresh = np.empty
    x = executor.tensor(np.arange(1 << 16, dtype=np.float32))
    (x.to(other), other.zeros(1 << 16).to(executor))  # what is made at the first use
    monkeypatch.setattr(np, "empty", lambda *shape, **more: made.append(shape) or fresh(*shape, **more))
    there = x.to(other)
    back = there.to(executor)
    assert not made  # nothing stands between
    monkeypatch.undo()
    np.testing.assert_array_equal(back.to_numpy(), x.to_numpy())


@pytest.mark.parametrize("followed", [hg.jit, hg.vmap, lambda f: hg.grad(lambda x: f(x).sum())])
def test_followed_tensors_stay(executor: hg.Executor, other: hg.Executor, followed: Any) -> None:
    x = executor.tensor(DATA.astype(np.float32))
    followed(lambda x: x.to(executor) * 2)(x)
    with pytest.raises((hg.TraceError, hg.GradientError), match="lambda"):
        followed(lambda x: x.to(other) * 2)(x)


def test_what_is_no_device_is_refused(executor: hg.Executor, other: hg.Executor) -> None:
    x, freed = executor.tensor([1.0]), executor.tensor([1.0])
    for wrong in (hg.f16, np.float32, 0, x):
        with pytest.raises(TypeError, match="device must be an Executor or a name"):
            x.to(wrong)
    with pytest.raises(hg.BackendUnavailable, match="f32"):
        x.to("f32")
    with pytest.raises(TypeError, match="stream=3"):
        x.to_device(other, stream=3)  # pyright: ignore[reportArgumentType]
    freed.buffer.free()
    with pytest.raises(hg.BufferFreed, match="to_device"):
        freed.to(other)
    there = x.to(other)
    other.close()
    with pytest.raises(hg.BufferFreed):
        x.to(other)
    with pytest.raises(hg.BufferFreed):
        there.to(executor)
