"""Tensors among Python's and NumPy's protocols: views of host memory, arrays, DLPack, numbers, iteration, repr."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.errors import InteropError, ShapeError
from hologram.machine.device import HOST_MEMORY

torch = pytest.importorskip("torch")

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_what_a_tensor_says_of_itself(executor: Any) -> None:
    x = executor.tensor(X)[:, 1:, ::2]
    assert (x.shape, x.strides, x.offset, x.dtype) == ((2, 2, 2), (12, 4, 2), 4, dtypes.f32)
    assert (x.ndim, x.size, x.nbytes, len(x)) == (3, 8, 32, 2)
    assert x.device == f"{executor.backend}:{executor.device.info.index}"
    assert not x.is_contiguous()
    assert x.contiguous().is_contiguous()
    assert x.clone().shape == x.shape
    assert repr(executor.tensor([1.0, 2.0])) == f"Tensor([1. 2.], dtype=f32, device={x.device})"
    assert repr(executor.zeros((0,))) == f"Tensor([], dtype=f32, device={x.device})"


def test_views_of_host_memory_or_a_refusal(executor: Any) -> None:
    x = executor.tensor(X)
    if executor.limits.unified_memory and executor.backend == "cpu":
        view = x[1, :, ::-1].to_numpy(copy=False)
        np.testing.assert_array_equal(view, X[1, :, ::-1])
        view[0, 0] = -7.0
        assert x[1, 0, 3].item() == -7.0
        x[1, 0, 3] = 5.0
        executor.synchronize()
        assert view[0, 0] == 5.0
        del x
        assert view[0, 0] == 5.0  # the view holds the memory
    else:
        with pytest.raises(InteropError, match="copy=False is impossible"):
            x.to_numpy(copy=False)
        with pytest.raises(InteropError):
            np.asarray(x, copy=False)


def test_an_array_that_is_there_takes_the_elements(executor: Any) -> None:
    x = executor.tensor(X)
    for view, wanted in (
        (x, X),
        (x.reshape((4, 6)), X.reshape(4, 6)),
        (x[1, :, ::-1], X[1, :, ::-1]),
        (x.permute(2, 0, 1), X.transpose(2, 0, 1)),
    ):
        for out in (np.empty(wanted.shape, X.dtype), np.empty(wanted.shape[::-1], X.dtype).T):
            assert view.to_numpy(out=out) is out
            np.testing.assert_array_equal(out, wanted)
    with pytest.raises(ShapeError, match="out must have shape"):
        x.to_numpy(out=np.empty(24, X.dtype))


def test_the_array_protocol(executor: Any) -> None:
    x = executor.tensor(X).permute(2, 0, 1)
    np.testing.assert_array_equal(np.asarray(x), X.transpose(2, 0, 1))
    assert np.asarray(x, dtype=np.int16).dtype == np.int16
    np.testing.assert_array_equal(
        np.add(np.ones((4, 2, 3), np.float32), np.asarray(x)), X.transpose(2, 0, 1) + 1
    )
    with pytest.raises(InteropError, match="copy"):
        x.__array__(np.float64, copy=False)
    copied = np.array(x)
    copied[...] = 0
    assert hg.max(x).item() == 23


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if not d.is_foreign], ids=repr)
def test_dlpack_with_numpy(dtype: dtypes.DType, executor: Any) -> None:
    if dtype not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType):
            executor.allocate(4, dtype)
        return
    values = (X % 2).astype(dtype.numpy)
    x = executor.tensor(values)[::-1, :, 1:]
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), values[::-1, :, 1:])
    back = executor.from_dlpack(values[:, ::2])
    assert back.dtype is dtype
    np.testing.assert_array_equal(back.to_numpy(), values[:, ::2])
    np.testing.assert_array_equal(hg.from_dlpack(values, executor, copy=True).to_numpy(), values)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool"])
def test_dlpack_with_torch(name: str, executor: Any) -> None:
    source = (torch.arange(12).reshape(3, 4) % 2).to(getattr(torch, name))
    x = executor.from_dlpack(source.T)
    assert x.dtype is dtypes.dtype(source.dtype)
    assert x.shape == (4, 3)
    assert x.astype("f32").tolist() == source.T.float().tolist()
    if executor.device.dlpack_device == HOST_MEMORY or torch.cuda.is_available():
        there = torch.from_dlpack(x[1:])
        assert there.dtype is source.dtype
        assert there.tolist() == source.T[1:].tolist()


def test_foreign_memory_is_shared_on_the_host_and_refused_elsewhere(executor: Any) -> None:
    source = np.arange(6, dtype=np.float32)
    if executor.backend == "cpu":
        x = executor.from_dlpack(source, copy=False)
        x += 1
        executor.synchronize()
        np.testing.assert_array_equal(source, np.arange(1, 7))
        source[0] = 100
        assert x[0].item() == 100
    else:
        with pytest.raises(InteropError, match="copy=False is impossible"):
            executor.from_dlpack(source, copy=False)
    frozen = np.arange(6, dtype=np.float32)
    frozen.flags.writeable = False
    y = executor.from_dlpack(frozen)
    y += 1
    np.testing.assert_array_equal(frozen, np.arange(6))


def test_numbers_and_lists(executor: Any) -> None:
    one = executor.tensor([[2.5]])
    assert (one.item(), float(one), int(one), bool(one)) == (2.5, 2.5, 2, True)
    assert executor.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert "abc"[executor.tensor(np.int32(1))] == "b"
    assert executor.tensor([1, 2]).dtype is dtypes.i64
    assert executor.tensor([1.0]).dtype is dtypes.f32
    assert executor.tensor(np.float64(1)).dtype is dtypes.f64
    assert executor.tensor([True]).dtype is dtypes.bool_
    assert [row.tolist() for row in executor.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert math.isnan(executor.tensor(np.nan).item())
    with pytest.raises(ShapeError, match="one element"):
        bool(executor.zeros((0,)))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda q: q + [q[0], q[1], q[2]], [2.0, 4.0, 6.0]),
        (lambda q: (q[1], 2, 1.0) * q, [2.0, 4.0, 3.0]),
        (lambda q: q - [[q[0], 1.0, q[1]], [1.0, 2.0, 3.0]], [[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),
        (lambda q: q + [q, [0, 0, 0]], [[2.0, 4.0, 6.0], [1.0, 2.0, 3.0]]),
    ],
)
def test_lists_of_tensors_beside_a_tensor(executor: Any, call: Any, wanted: Any) -> None:
    q = executor.tensor([1.0, 2.0, 3.0])
    assert call(q).tolist() == hg.jit(call)(q).tolist() == wanted
    assert hg.vmap(call)(hg.stack([q, q])).tolist() == [wanted] * 2
    assert hg.grad(lambda q: hg.sum(q * [q[0], 1.0, q[2]]))(q).tolist() == [2.0, 1.0, 6.0]


def test_arrays_of_every_form_come_in(executor: Any) -> None:
    swapped = X.astype(">f4")
    frozen = X.copy()
    frozen.flags.writeable = False
    raw = np.zeros(4 * 24 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(X.shape)
    misaligned[...] = X
    for array in (X[::-1], X.transpose(2, 0, 1), swapped, frozen, misaligned, np.asfortranarray(X), X[:, :0]):
        buffer = executor.allocate(array.shape).from_numpy(array)
        np.testing.assert_array_equal(buffer.to_numpy(), array)
    nan = np.full((3, 2), np.nan, np.float32)
    assert np.isnan((executor.tensor(nan) + 1).to_numpy()).all()
    for shape in ((0,), (3, 0), (0, 4, 2)):
        empty = executor.tensor(np.zeros(shape, np.float32))
        assert (empty + 1).shape == shape
        assert hg.sum(empty).item() == 0
        assert hg.sum(empty, axis=0).to_numpy().tolist() == np.zeros(shape).sum(axis=0).tolist()
    scalar = executor.tensor(np.float32(3))
    assert (scalar * scalar).shape == ()
    assert (scalar + executor.tensor(X)).shape == X.shape


def test_copies_and_pickles(executor: Any) -> None:
    x = executor.tensor(X)
    for made in (copy.copy(x[:, 1]), copy.deepcopy(x[:, 1]), copy.deepcopy({"a": [x[:, 1]]})["a"][0]):
        made += 1
        np.testing.assert_array_equal(x.to_numpy(), X)
        np.testing.assert_array_equal(made.to_numpy(), X[:, 1] + 1)
        assert made.is_contiguous()
    for dtype in dtypes.ALL:
        kept = x[..., ::-2].astype(dtype)
        with hg.use_executor(executor):
            found = pickle.loads(pickle.dumps(kept))
        assert (found.executor, found.dtype) == (executor, dtype)
        np.testing.assert_array_equal(found.to_numpy(), kept.to_numpy(), strict=True)
    with pytest.raises(TypeError, match="pickle its to_numpy"):
        pickle.dumps(x.buffer)
    np.testing.assert_array_equal(hg.jit(lambda t: copy.copy(t) + copy.deepcopy(t))(x).to_numpy(), 2 * X)
    with pytest.raises(hg.TraceError):
        hg.jit(lambda t: pickle.dumps(t))(x)


def test_in_place_forms_keep_the_tensor(executor: Any) -> None:
    x = executor.tensor(X)
    same, part = x, x[0]
    x += 1
    x *= 2.0
    part -= 2
    assert x is same
    want = (X + 1) * 2
    want[0] -= 2
    np.testing.assert_array_equal(x.to_numpy(), want)
    x[0, ..., 1] = x[1, ..., 2]
    want[0, ..., 1] = want[1, ..., 2]
    np.testing.assert_array_equal(x.to_numpy(), want)


def test_zero_strides_and_unit_axes_reshape(executor: Any) -> None:
    x = executor.tensor(np.arange(3, dtype=np.float32)).reshape(3, 1).expand(3, 4)
    np.testing.assert_array_equal(x.reshape(-1).to_numpy(), np.repeat(np.arange(3), 4))
    with pytest.raises(ShapeError, match="view_1d"):
        x.T.view_1d()
    assert executor.tensor(X).view_1d().shape == (24,)
    assert executor.tensor(X).flatten().shape == (24,)


def test_an_operator_in_place_keeps_the_dtype(executor: hg.Executor) -> None:
    whole = executor.tensor(np.arange(4, dtype=np.int32))
    with pytest.raises(hg.UnsupportedDType, match="keeps i32"):
        whole += 0.5
    half = executor.tensor(np.arange(4, dtype=np.float16))
    half += executor.tensor(np.full(4, 0.5, np.float32))
    np.testing.assert_array_equal(half.to_numpy(), np.arange(4, dtype=np.float16) + np.float16(0.5))


def test_one_number_is_formatted_as_one(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([1.5, 2.25], np.float32))
    assert f"{x[1]:.1f} {hg.sum(x):5.2f}" == "2.2  3.75"
    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match="format"):
        f"{x:.1f}"


@pytest.mark.parametrize(
    "value", [3.0, 3, 9.0, np.nan, np.float32(2), [0, 1, 2], [[1], [4]], np.arange(3.0), "a", None]
)
def test_in_asks_what_numpy_does(executor: hg.Executor, value: Any) -> None:
    own = np.array([[0, 1, 2], [3, 4, np.nan]], np.float32)
    for x in (own, own[:0], own[1, 0, ...], np.full(3, np.nan, np.float32), own.T[::-1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted: Any = value in x
            except ValueError:  # it does not broadcast
                continue
        assert (value in executor.tensor(x)) is wanted


def test_powers_of_integers_by_tensors_stay_defined(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([-1, 0, 1, 2], np.int32))
    assert (x ** executor.tensor(np.array([-3], np.int32))).tolist() == [-1, 0, 1, 0]
    assert (x**-1.0).tolist() == [-1.0, np.inf, 1.0, 0.5]
    assert (2 ** executor.tensor(np.array([3, -1], np.int32))).tolist() == [8, 0]


def test_what_repeats_nothing_is_written(executor: hg.Executor) -> None:
    x = executor.zeros((3, 4))
    x.expand(3, 4)[0] = 1
    x[None].expand(1, 3, 4)[0][1] = 2
    x.expand(2, 3, 4)[0].clone()[...] = 9
    assert x.tolist() == [[1] * 4, [2] * 4, [0] * 4]
