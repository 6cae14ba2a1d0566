"""NumPy's ufuncs and functions on tensors, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)[:, ::-1] / 4
CALLS: dict[str, Callable[[Any], Any]] = {
    "ufunc": lambda x: np.exp(x),
    "ufunc of another name": lambda x: np.arctan2(x, np.abs(x)),
    "ufunc with an array": lambda x: np.subtract(np.ones((3, 4), np.float32), x),
    "operator of an array": lambda x: np.ones((3, 4), np.float32) - x,
    "operator of a NumPy number": lambda x: np.float32(2) * x,
    "reduce": lambda x: np.add.reduce(x),
    "reduce all": lambda x: np.maximum.reduce(x, axis=None, keepdims=True),
    "accumulate": lambda x: np.multiply.accumulate(x, 1),
    "outer": lambda x: np.add.outer(x[0], x[:, 1]),
    "sum": lambda x: np.sum(x),
    "sum by place": lambda x: np.sum(x, 1),
    "mean": lambda x: np.mean(x, axis=1, keepdims=True),
    "std": lambda x: np.std(x, axis=0, ddof=1),
    "var": lambda x: np.var(x, correction=1),
    "concatenate": lambda x: np.concatenate([x, np.ones((3, 1), np.float32)], axis=1),
    "concatenate flat": lambda x: np.concatenate([x, x], None),
    "stack": lambda x: np.stack([x, x], 1),
    "where": lambda x: np.where(x > 1, x, np.float32(0)),
    "clip by place": lambda x: np.clip(x, 1, 2),
    "clip by name": lambda x: np.clip(x, min=1),
    "take flat": lambda x: np.take(x, [1, 7]),
    "take": lambda x: np.take(x, [1, 2], axis=1),
    "cumsum flat": lambda x: np.cumsum(x),
    "transpose": lambda x: np.transpose(x),
    "reshape": lambda x: np.reshape(x, (4, -1)),
    "squeeze": lambda x: np.squeeze(x[None]),
    "sort": lambda x: np.sort(x, axis=0),
    "argsort": lambda x: np.argsort(x),
    "argmax": lambda x: np.argmax(x, axis=1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "repeat": lambda x: np.repeat(x, 2),
    "pad": lambda x: np.pad(x, ((1, 1), (0, 2))),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: np.tensordot(x, x, axes=((0, 1), (0, 1))),
    "matmul": lambda x: np.matmul(x, x.T),
    "zeros_like": lambda x: np.zeros_like(x),
    "full_like": lambda x: np.full_like(x, 3),
    "searchsorted": lambda x: np.searchsorted(x[0, ::-1], x[1], side="right"),
    "isin": lambda x: np.isin(x, [1, 2]),
    "any": lambda x: np.any(x > 2),
    "round": lambda x: np.round(x),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "ravel": lambda x: np.ravel(x),
    "swapaxes": lambda x: np.swapaxes(x[None], 0, -1),
    "diagonal": lambda x: np.diagonal(x, 1),
    "diagonal below": lambda x: np.diagonal(np.stack([x, x + 1]), -2, 1, 2),
    "diagonal beyond": lambda x: np.diagonal(x, 7),
    "diagonal of first and last": lambda x: np.diagonal(np.stack([x, x + 1]), axis1=2, axis2=0),
    "trace": lambda x: np.trace(x, -1),
    "hstack": lambda x: np.hstack([x, x[:, :1]]),
    "hstack of rows": lambda x: np.hstack([x[0], x[1, :2]]),
    "vstack": lambda x: np.vstack([x, x[0]]),
    "column_stack": lambda x: np.column_stack([x, x[:, 0]]),
    "split": lambda x: np.split(x, 2, axis=1)[1],
    "split at places": lambda x: np.split(x, [1, 3], -1)[1],
    "outer of flat arrays": lambda x: np.outer(x, x[0]),
    "inner": lambda x: np.inner(x, x),
    "dot": lambda x: np.dot(x, x.T),
    "dot of vectors": lambda x: np.dot(x[0], x[1]),
    "dot of stacks": lambda x: np.dot(np.stack([x, x]), np.stack([x.T, x.T])),
    "isclose": lambda x: np.isclose(x, x + np.float32(1e-7)),
    "isclose beside infinity": lambda x: np.isclose(
        np.where(x > 1, np.float32(np.inf), x), np.full((3, 4), np.inf, np.float32)
    ),
    "average": lambda x: np.average(x, axis=1),
    "average with weights": lambda x: np.average(x, 1, np.array([1, 2, 0, 1], np.float32)),
    "ptp": lambda x: np.ptp(x, axis=0),
    "nansum": lambda x: np.nansum(np.where(x > 2, np.float32(np.nan), x), axis=1),
    "nanmean": lambda x: np.nanmean(np.where(x > 2, np.float32(np.nan), x), axis=0),
}
OUTSIDE: dict[str, Callable[[Any], Any]] = {  # of a trace
    "nonzero": lambda x: np.nonzero(x > 1)[1],
    "unique_values": lambda x: np.unique_values(np.concatenate([x, x])),
}


@pytest.mark.parametrize("name", [*CALLS, *OUTSIDE])
def test_numpy_calls_hologram(name: str, executor: hg.Executor) -> None:
    call = (CALLS | OUTSIDE)[name]
    x = executor.tensor(X)
    found, want = call(x), call(X)
    assert isinstance(found, hg.Tensor)
    np.testing.assert_allclose(found.to_numpy(), want, rtol=2e-6)
    assert found.to_numpy().dtype == np.asarray(want).dtype
    if name in CALLS:
        np.testing.assert_allclose(hg.jit(call)(x).to_numpy(), want, rtol=2e-6)


def test_arrays_are_compared_as_a_whole(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    assert np.array_equal(x, X)
    assert not np.array_equal(x, X + 1)
    assert not np.array_equal(x, X[:1])
    assert np.allclose(x, x * (1 + 1e-6))
    assert not np.allclose(x, x * 1.1)
    tenths = executor.tensor(np.full(3, 0.1)) if hg.f64 in executor.limits.dtypes else None
    assert tenths is None or np.isclose(tenths, 0.1, rtol=0, atol=1e-12).all().item()
    nothing = executor.tensor([np.nan, 1.0])
    assert np.allclose(nothing, nothing, equal_nan=True)
    assert not np.allclose(nothing, nothing)


def test_parts_that_are_not_equal_are_refused(executor: hg.Executor) -> None:
    with pytest.raises(ValueError, match="4 elements cannot be split into 3 equal parts"):
        np.split(executor.tensor(X), 3, axis=1)
    with pytest.raises(hg.ShapeError, match=r"average: weights must have shape"):
        np.average(executor.tensor(X), axis=1, weights=np.ones(3, np.float32))


def test_memory_that_is_shared(executor: hg.Executor) -> None:
    x = executor.ones((4, 6))
    for a, b, shared in ((x, x[1:], True), (x[:2], x[2:], False), (x, x.clone(), False), (x, x.mT, True)):
        assert np.may_share_memory(a, b) is hg.may_share_memory(a, b) is shared
    told = []
    hg.jit(lambda y: told.append((hg.may_share_memory(y, y[1:]), hg.may_share_memory(y, y + 1))) or y)(x)
    assert told == [(True, False)]
    array = np.ones(64, np.float32)
    assert not np.may_share_memory(x, array)
    if executor.backend == "cpu":
        mine = hg.asarray(array, device=executor, copy=False)
        assert np.may_share_memory(array[5:], mine)
        assert not hg.may_share_memory(mine[:5], array[5:])


def test_facts_are_told_without_the_elements(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((3, 4), 2, 12)
    assert np.result_type(x, np.float64) is hg.f64
    assert hg.jit(lambda t: t + np.ndim(t))(x).tolist() == (X + 2).tolist()


def test_results_go_where_they_are_wanted(executor: hg.Executor) -> None:
    x: Any = executor.tensor(X)
    out: Any = executor.zeros((3, 8))
    assert np.add(x, 1, out=out[:, ::2]).buffer is out.buffer
    np.testing.assert_array_equal(out[:, ::2].to_numpy(), X + 1)
    np.sum(x, axis=0, out=out[0, :4])
    np.testing.assert_array_equal(out[0, :4].to_numpy(), X.sum(axis=0))
    array = np.ones((3, 4), np.float32)
    array += x
    np.testing.assert_array_equal(array, X + 1)
    with pytest.raises(hg.ShapeError, match=r"np.add: out must have shape \(3, 4\), got \(3, 8\)"):
        np.add(x, 1, out=out)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda x: np.polyfit(x[0], x[1], 1),
            "np.polyfit of a Tensor: hologram has no counterpart; np.asarray",
        ),
        (lambda x: np.roots(x[0]), "np.roots of a Tensor: hologram has no counterpart"),
        (lambda x: np.add.at(x, [0], 1), "np.add.at of a Tensor: hologram has no counterpart"),
        (lambda x: np.subtract.reduce(x), "np.subtract.reduce of a Tensor: hologram has no counterpart"),
        (
            lambda x: np.add(x, 1, where=x > 3),
            "add has no argument 'where': it has x, y; `where` needs an `out`",
        ),
        (lambda x: np.poly(x), "np.poly of a Tensor: hologram has no counterpart"),
        (lambda x: np.add(x, 0.5, out=x.astype("i32")), "out is i32, which cannot hold f32"),
    ],
)
def test_what_has_no_counterpart_is_refused(call: Any, match: str, executor: hg.Executor) -> None:
    with pytest.raises(TypeError, match=match):
        call(executor.tensor(X))
