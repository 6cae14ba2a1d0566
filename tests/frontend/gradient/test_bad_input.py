"""What derivatives refuse, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg


def test_refused(executor: hg.Executor, x: hg.Tensor) -> None:
    whole = executor.tensor(np.arange(4))
    for function, arguments, message in (
        (lambda x: x, (x,), "the result must be one float"),
        (lambda x: hg.argmax(x), (x,), "the result must be one float"),
        (lambda x: (hg.sum(x), hg.sum(x)), (x,), "the result must be one float"),
        (lambda x: 1.0, (x,), "the result must be one float"),
        (lambda k: hg.sum(k), (whole,), "float tensors"),
        (lambda k: hg.sum(x), ("text",), "float tensors"),
        (lambda x: hg.sum(x) * x.to_numpy().sum(), (x,), "to_numpy"),
        (lambda x: hg.sum(x) * hg.sum(x).item(), (x,), "item"),
        (lambda x: hg.sum(x) * float(hg.sum(x)), (x,), "stop_gradient"),
        (lambda x: hg.sum(x) + float(np.sum(np.asarray(x))), (x,), "stop_gradient"),
    ):
        with pytest.raises(hg.GradientError, match=message):
            hg.grad(function)(*arguments)
    with pytest.raises(hg.GradientError, match="argnums"):
        hg.grad(hg.sum, argnums=2)(x)
    with pytest.raises(TypeError, match="a function is needed"):
        hg.grad(3)  # type: ignore[arg-type]


def test_writes_outside_are_refused(executor: hg.Executor, x: hg.Tensor) -> None:
    outside = executor.zeros((4, 6))

    def into_outside(x):
        outside[...] = x
        return hg.sum(x)

    def into_argument(x):
        x += 1.0
        return hg.sum(x)

    for function in (into_outside, into_argument):
        with pytest.raises(hg.GradientError, match="written to"):
            hg.grad(function)(x)
    with pytest.raises(hg.GradientError, match="no derivative"):
        hg.grad(lambda x: hg.ops.vector_add(executor, x, x, outside) or hg.sum(x))(x)
    assert not outside.to_numpy().any()


def test_another_executor_and_freed_tensors(executor: hg.Executor, x: hg.Tensor) -> None:
    with hg.Executor("cpu") as other, pytest.raises(hg.HologramError):
        hg.grad(lambda x: hg.sum(x * other.zeros((4, 6))))(x)
    gone = executor.tensor(np.ones(3, np.float32))
    gone.buffer.free()
    with pytest.raises(hg.BufferFreed):
        hg.grad(lambda x: hg.sum(x))(gone)


def test_kept_tensors_say_why_they_are_no_use(x: hg.Tensor) -> None:
    kept = []
    hg.grad(lambda x: kept.append(x * 2.0) or hg.sum(x))(x)
    with pytest.raises(hg.GradientError, match="kept and used after"):
        kept[0] + 1.0


def test_an_error_leaves_nothing_behind(x: hg.Tensor) -> None:
    def fails(x):
        raise KeyError("inside")

    with pytest.raises(KeyError):
        hg.grad(fails)(x)
    np.testing.assert_array_equal(hg.grad(lambda x: hg.sum(x))(x).to_numpy(), np.ones((4, 6)))
    x + 1.0


def test_pullbacks_check_their_cotangents(x: hg.Tensor, w: hg.Tensor) -> None:
    _, pullback = hg.vjp(lambda x: (x, x), x)
    with pytest.raises(hg.ShapeError, match="structure"):
        pullback(x)
    with pytest.raises(hg.ShapeError, match="must be"):
        pullback((x, w))
