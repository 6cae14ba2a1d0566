"""hg.linalg's products, norms and diagonals against NumPy's in double precision, on every backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.linear_algebra.cases import general, near

linalg = hg.linalg


@pytest.fixture(autouse=True)
def by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")


def f32(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return general(shape, seed).astype(np.float32)


@pytest.mark.parametrize("ord", [2, 1, 0, math.inf, -math.inf, 3, -1, 0.5])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5,), None), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), (0, 2)), ((3, 4), None), ((0, 3), 0)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("keepdims", [False, True])
def test_vector_norm(
    executor: hg.Executor, shape: tuple[int, ...], axis: Any, ord: float, keepdims: bool
) -> None:
    x = f32(shape)
    if not x.size and ord in (-math.inf, -1):
        return  # there is no value
    got = linalg.vector_norm(executor.tensor(x), axis=axis, ord=ord, keepdims=keepdims)
    if x.size:
        wanted = np.linalg.vector_norm(x.astype(np.float64), axis=axis, ord=ord, keepdims=keepdims)
    else:
        wanted = np.zeros((1, 3) if keepdims else (3,))
    np.testing.assert_allclose(got.to_numpy(), wanted, rtol=2e-5)


@pytest.mark.parametrize("ord", [2, 1, 0, math.inf, -math.inf, 3])
def test_norms_of_complex_numbers(executor: hg.Executor, ord: float) -> None:
    x = (f32((3, 4)) + 1j * f32((3, 4), 1)).astype(np.complex64)
    wide = x.astype(np.complex128)
    for axis in (None, 0, (0, 1)):
        got = linalg.vector_norm(executor.tensor(x), axis=axis, ord=ord)
        assert got.dtype == hg.f32
        np.testing.assert_allclose(got.to_numpy(), np.linalg.vector_norm(wide, axis=axis, ord=ord), rtol=2e-5)
    for name in ("fro", 1, -1, math.inf, -math.inf, None):
        got = linalg.norm(executor.tensor(x), ord=name)
        np.testing.assert_allclose(got.to_numpy(), np.linalg.norm(wide, ord=name), rtol=2e-5)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norm(executor: hg.Executor, shape: tuple[int, ...], ord: Any, keepdims: bool) -> None:
    x = f32(shape)
    got = linalg.matrix_norm(executor.tensor(x), ord=ord, keepdims=keepdims)
    wanted = np.linalg.matrix_norm(x.astype(np.float64), ord=ord, keepdims=keepdims)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.to_numpy(), wanted, rtol=2e-5)


@pytest.mark.parametrize(
    ("shape", "ord", "axis"),
    [
        ((3, 4), None, None), ((3, 4), 2, None), ((3, 4), "fro", None), ((5,), 1, None), ((2, 3, 4), None, None),
        ((2, 3, 4), 1, 1), ((2, 3, 4), None, -1), ((2, 3, 4), 1, (0, 2)), ((2, 3, 4), 1, (2, 0)),
        ((2, 3, 4), -2, (0, 1)), ((2, 3, 4), None, (0, 1)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("keepdims", [False, True])
def test_norm(executor: hg.Executor, shape: tuple[int, ...], ord: Any, axis: Any, keepdims: bool) -> None:
    x = f32(shape)
    got = linalg.norm(executor.tensor(x), ord, axis, keepdims)
    wanted = np.linalg.norm(x.astype(np.float64), ord, axis, keepdims)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.to_numpy(), wanted, rtol=2e-5)


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 7])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 4), (-2, -1)), ((2, 4, 3), (-2, -1)), ((2, 3, 4), (0, 2)), ((3, 3, 2), (1, 0)), ((0, 3), (0, 1))],
    ids=str,
)  # fmt: skip
def test_diagonal_and_trace(
    executor: hg.Executor, shape: tuple[int, ...], axes: tuple[int, int], offset: int
) -> None:
    x = f32(shape)
    for tensor, array in ((executor.tensor(x), x), (executor.tensor(x)[::-1], x[::-1])):
        got = linalg.diagonal(tensor, offset=offset, axis1=axes[0], axis2=axes[1])
        np.testing.assert_array_equal(got.to_numpy(), np.diagonal(array, offset, *axes))
        summed = linalg.trace(tensor, offset=offset, axis1=axes[0], axis2=axes[1])
        near(summed[..., None], np.trace(array.astype(np.float64), offset, *axes)[..., None], "f32")


def test_a_diagonal_is_a_view(executor: hg.Executor) -> None:
    x = executor.tensor(np.zeros((3, 4), np.float32))
    linalg.diagonal(x)[...] = executor.tensor(np.arange(1, 4, dtype=np.float32))
    np.testing.assert_array_equal(x.to_numpy(), np.eye(3, 4) * np.arange(1, 4)[:, None])


def test_trace_takes_a_dtype(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(9, dtype=np.int8).reshape(3, 3))
    assert linalg.trace(x).dtype == hg.i64
    assert linalg.trace(x, dtype=hg.i32).dtype == hg.i32
    assert int(linalg.trace(x)) == 12


@pytest.mark.parametrize(
    ("a", "b", "axis"),
    [
        ((3,), (3,), -1), ((4, 3), (3,), -1), ((3, 4), (3, 4), -2), ((3, 4), (3, 4), 0), ((2, 1, 3), (5, 3), -1),
        ((0, 3), (0, 3), -1),
    ],
    ids=str,
)  # fmt: skip
def test_cross(executor: hg.Executor, a: tuple[int, ...], b: tuple[int, ...], axis: int) -> None:
    x, y = f32(a), f32(b, 1)
    got = linalg.cross(executor.tensor(x), executor.tensor(y), axis=axis)
    near(got, np.cross(x.astype(np.float64), y.astype(np.float64), axis=axis), "f32")


def test_outer_vecdot_tensordot_matmul(executor: hg.Executor) -> None:
    x, y = f32((4,)), f32((3,), 1)
    near(linalg.outer(executor.tensor(x), y), np.outer(x, y), "f32")
    m = f32((2, 3), 2)
    near(linalg.vecdot(executor.tensor(m), executor.tensor(y)), np.linalg.vecdot(m, y), "f32")
    near(linalg.matmul(executor.tensor(m), y), m @ y, "f32")
    near(linalg.tensordot(executor.tensor(m), m, axes=((0,), (0,))), np.tensordot(m, m, ((0,), (0,))), "f32")
    assert linalg.matrix_transpose(executor.tensor(m)).shape == (3, 2)
    many = [f32(s, k) for k, s in enumerate(((10,), (10, 3), (3, 20), (20, 4), (4,)))]
    near(
        linalg.multi_dot([executor.tensor(t) for t in many])[None],
        np.linalg.multi_dot(many)[None],
        "f32",
        condition=64,
    )
    near(
        linalg.multi_dot([executor.tensor(t) for t in many[1:4]]),
        np.linalg.multi_dot(many[1:4]),
        "f32",
        condition=64,
    )


def test_cond(executor: hg.Executor) -> None:
    x = f32((2, 3, 3))
    for p in (None, 2, -2, 1, "fro"):
        np.testing.assert_allclose(
            linalg.cond(executor.tensor(x), p).to_numpy(), np.linalg.cond(x, p), rtol=1e-3
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda t: linalg.outer(t((2, 2)), t((2,))),
        lambda t: linalg.cross(t((4,)), t((4,))),
        lambda t: linalg.vecdot(t((3,)), t((4,))),
        lambda t: linalg.diagonal(t((3, 3)), axis1=1, axis2=-1),
        lambda t: linalg.matrix_norm(t((3, 3)), ord="max"),
        lambda t: linalg.norm(t((2, 3, 4)), 2),
        lambda t: linalg.norm(t((3,)), "fro"),
        lambda t: linalg.multi_dot([t((3, 3))]),
        lambda t: linalg.matrix_norm(t((3,))),
    ],
)
def test_refused(executor: hg.Executor, call: Any) -> None:
    with pytest.raises(ValueError, match=r"linalg\.\w+: .*"):
        call(lambda shape: executor.tensor(f32(shape)))
