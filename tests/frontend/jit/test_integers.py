"""Integers, NumPy's numbers and seeds among a jitted function's arguments: data, where nobody asks for their value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram import opset
from tests.frontend.jit.traces import jit, traces
from tests.needs import needs

SCALARS = [np.float16, np.float32, np.float64, np.int8, np.uint16, np.int32, np.int64, np.uint64]


@pytest.fixture
def x(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(np.random.default_rng(7).standard_normal((6, 8)).astype(np.float32) * 3)


def bits(found: Any) -> Any:
    if isinstance(found, (tuple, list)):
        return [bits(each) for each in found]
    return found.dtype, found.to_numpy().tobytes()


def adam(x: Any, state: Any, t: Any, rate: Any) -> Any:
    m, v = state
    m, v = 0.9 * m + 0.1 * x, 0.999 * v + 0.001 * x * x
    step = rate * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t)
    return x - step * m / (hg.sqrt(v) + 1e-8), (m, v), t + 1


@pytest.mark.parametrize("first", [1, np.int64(1), np.int32(1), 1.0, np.float64(1)])
def test_a_counter_is_data_also_where_it_is_returned(executor: hg.Executor, x: hg.Tensor, first: Any) -> None:
    jitted = jit(adam)
    found: Any = (x, (x * 0, x * 0), first)
    wanted: Any = found
    for _ in range(12):
        found, wanted = jitted(*found, 0.01), adam(wanted[0], wanted[1], wanted[2], 0.01)
        assert (found[2], type(found[2])) == (wanted[2], type(wanted[2]))
        np.testing.assert_allclose(found[0].to_numpy(), wanted[0].to_numpy(), rtol=1e-6, atol=1e-7)
    assert traces(jitted) == 1


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "u8", "i64", "bool"])
@pytest.mark.parametrize(
    "function",
    [
        lambda t, n: t + n,
        lambda t, n: (t * (n // 2 + 1), n - t),
        lambda t, n: hg.where(t > n, t, n),
        lambda t, n: (t < n, t == n, n >= t),
        lambda t, n: t * (n & 3 | n << 1) + (n ^ 5) % 7 - (n >> 1),
        lambda t, n: t / n,
        lambda t, n: t.executor.full((3,), n) + t[0, :3],
    ],
)
def test_an_integer_has_the_dtype_and_the_bits_that_it_has_eagerly(
    executor: hg.Executor, dtype: str, function: Callable[[Any, Any], Any]
) -> None:
    needs(executor, dtype)
    t = executor.tensor(np.arange(12).reshape(3, 4) % 5).astype(dtype)
    jitted = jit(function)
    for n in (3, 1, 7, 2):
        assert bits(jitted(t, n)) == bits(function(t, n))
    assert traces(jitted) == 1


@pytest.mark.parametrize("kind", SCALARS)
def test_numpys_scalars_are_numbers(executor: hg.Executor, x: hg.Tensor, kind: Any) -> None:
    def function(t, r):
        return t * r + (r * kind(2) - 1), hg.where(t > r, t, r / 3), t - np.sqrt(r) * kind(3)

    jitted = jit(function)
    for value in (2, 7, 1):
        assert bits(jitted(x, kind(value))) == bits(function(x, kind(value)))
    assert traces(jitted) == 1


@pytest.mark.parametrize("kind", SCALARS)
def test_numpys_scalars_are_told_apart_where_they_are_asked_for(
    executor: hg.Executor, x: hg.Tensor, kind: Any
) -> None:
    def function(t, r):
        assert isinstance(r, kind)
        assert r.dtype == kind
        return t * 2 if r > 1 else t * float(r)

    jitted = hg.jit(function)
    for value in (2, 0, 1, 3):
        assert bits(jitted(x, kind(value))) == bits(function(x, kind(value)))


def test_numpys_truth_is_a_choice(executor: hg.Executor, x: hg.Tensor) -> None:
    jitted = hg.jit(lambda t, flag: -t if flag else t)
    for flag in (np.True_, True, np.False_, False):
        assert bits(jitted(x, flag)) == bits(-x if flag else x)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
def test_arrays_without_axes_are_tensors_of_each_call(
    executor: hg.Executor, x: hg.Tensor, dtype: Any
) -> None:
    def function(t, r):
        return t * r

    jitted = jit(function)
    for value in (1, 2, 3):
        assert bits(jitted(x, np.array(value, dtype))) == bits(function(x, np.array(value, dtype)))
    assert traces(jitted) == 1


ASKED: list[Callable[[Any, Any], Any]] = [
    lambda t, n: t[n],
    lambda t, n: t[n : n + 2] * n,
    lambda t, n: t.reshape(n + 1, -1) if 48 % (n + 1) == 0 else t,
    lambda t, n: hg.concat([t] * n, axis=0),
    lambda t, n: sum((t * k for k in range(n + 1)), t),
    lambda t, n: hg.sum(t, axis=n % 2),
    lambda t, n: hg.sum(t, axis=(n % 2,)),
    lambda t, n: hg.roll(t, n, axis=0),
    lambda t, n: t.executor.ones((n, 2)) * t[0, 0],
    lambda t, n: hg.arange(n, device=t.executor) * t[0, 0],
    lambda t, n: hg.expand_dims(t, n % 3).permute((0, n, 3 - n)),
    lambda t, n: t**n,
    lambda t, n: t * math.sqrt(n) if isinstance(n, int) and not isinstance(n, float) else t,
    lambda t, n: t * operator.index(n) + (1, 2, 3)[n],
    lambda t, n: t * {1: 4.0}.get(n, 5.0) * round(n) * divmod(n, 2)[1] * max(n, 1),
    lambda t, n: t * pow(n, 2) + int(f"{n}") + bool(n) + complex(n).real,
    lambda t, n: hg.tile(t, (n, 2)),
    lambda t, n: hg.random_uniform(t.executor, (n, 3), seed=n),
]


@pytest.mark.parametrize("function", ASKED)
def test_where_it_places_or_counts_it_is_a_python_integer(
    executor: hg.Executor, x: hg.Tensor, function: Callable[[Any, Any], Any]
) -> None:
    jitted = hg.jit(function)
    for n in (1, 2, 1):
        assert bits(jitted(x, n)) == bits(function(x, n))
        assert bits(jitted(x, np.int64(n))) == bits(function(x, np.int64(n)))


def _declared() -> list[Any]:
    found = []
    for name, operation in sorted(opset.OPERATIONS.items()):
        samples = list(operation.samples(np.random.default_rng(3), operation.dtypes[0]))
        for sample in samples[:2]:
            given = {k: v for k, v in sample.attributes.items() if type(v) in (int, float, tuple)}
            if given and any(isinstance(o, np.ndarray) for o in sample.operands):
                found.append(pytest.param(name, sample, id=name))
                break
    return found


@pytest.mark.parametrize(("name", "sample"), _declared())
def test_attributes_of_all_operations_may_be_arguments(executor: hg.Executor, name: str, sample: Any) -> None:
    """No traced number is left in a layout or in a plan: what is kept by them would be of this trace."""
    operation = opset.OPERATIONS[name]
    operands = [executor.tensor(o) if isinstance(o, np.ndarray) else o for o in sample.operands]

    def function(tensors, attributes):
        return operation(*tensors, **attributes)

    try:
        wanted = function(operands, sample.attributes)
    except hg.UnsupportedDType as error:
        pytest.skip(str(error))
    found = hg.jit(function)(operands, dict(sample.attributes))
    pairs = zip(*(t if isinstance(t, (tuple, list)) else (t,) for t in (found, wanted)), strict=True)
    for ours, eager in pairs:
        assert all(type(n) is int for n in (*ours.shape, *ours.strides, ours.offset))
        np.testing.assert_allclose(
            ours.to_numpy().astype(np.float64), eager.to_numpy().astype(np.float64), rtol=1e-3, atol=1e-3
        )


def test_a_number_that_the_dtype_cannot_hold_is_refused_or_infinite_as_it_is_eagerly(
    executor: hg.Executor,
) -> None:
    t = executor.tensor(np.arange(4, dtype=np.uint8))
    added, below = jit(lambda t, n: t + n), jit(lambda t, n: (t < n, t >= n))
    counts = []
    for _ in range(2):
        assert added(t, 7).tolist() == [7, 8, 9, 10]
        for n in (300, -1, 1000):
            with pytest.raises(hg.UnsupportedDType):
                added(t, n)
            assert bits(below(t, n)) == bits((t < n, t >= n))
        assert bits(below(t, 2)) == bits((t < 2, t >= 2))
        counts.append(traces(below))
    assert traces(added) == 1 + 6  # once, and in each call that is refused
    assert counts[0] == counts[1]  # each number is known the second time


def test_an_integer_of_any_size_is_a_number(executor: hg.Executor, x: hg.Tensor) -> None:
    scaled = jit(lambda t, n: t * (n // 3))
    for n in (3, 2**70, 2**70 + 3, 6, -(2**90)):
        assert bits(scaled(x, n)) == bits(x * (n // 3))
    assert traces(scaled) == 1


def test_a_formula_that_changes_its_kind_is_traced_for_that_call(executor: hg.Executor) -> None:
    t = executor.tensor(np.arange(5, dtype=np.int32))
    powers = jit(lambda t, n: t * 2**n)
    for n in (1, -1, 3, -2, 2, -1):
        assert bits(powers(t, n)) == bits(t * 2**n)
    assert traces(powers) == 3


def test_written_into_a_part_it_is_data(executor: hg.Executor, x: hg.Tensor) -> None:
    def function(t, n, r):
        y = t + 0
        y[1:3] = n
        y[0, 2] = r
        return y

    jitted = jit(function)
    for n, r in ((1, 0.5), (2, 0.25), (-7, 3.0)):
        assert bits(jitted(x, n, r)) == bits(function(x, n, r))
    assert traces(jitted) == 1


@pytest.mark.parametrize("value", [0.5, 300, -1])
def test_a_fill_that_the_dtype_cannot_hold_is_refused(
    executor: hg.Executor, x: hg.Tensor, value: float
) -> None:
    with pytest.raises(hg.UnsupportedDType, match="cannot hold"):
        hg.jit(lambda t: t.executor.full((3,), value, "u8"))(x)
    with pytest.raises(hg.UnsupportedDType, match="cannot hold"):
        hg.jit(lambda t, n: t.executor.full((3,), n, "u8"))(x, value)


@pytest.mark.parametrize("kind", [int, np.uint32, np.int64])
def test_a_seed_is_data(executor: hg.Executor, x: hg.Tensor, kind: Any) -> None:
    def noisy(t, seed):
        uniform = hg.random_uniform(t.executor, t.shape, low=-1.0, high=2.0, seed=seed)
        normal = hg.random_normal(t.executor, t.shape, seed=seed + 1, offset=seed * 3)
        return t + uniform, normal * 2.0, hg.dropout(t, p=0.25, seed=seed, offset=5)

    jitted = jit(noisy)
    for seed in (0, 7, 12345, 7):
        found, wanted = jitted(x, kind(seed)), noisy(x, seed)
        for ours, eager in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours.to_numpy(), eager.to_numpy(), rtol=1e-5, atol=1e-5)
    assert traces(jitted) == 1
    with pytest.raises(hg.UnsupportedDType):
        jitted(x, kind(0) - 1 if kind is not np.uint32 else -1)


@pytest.mark.parametrize("seed", [7, 2**64 - 1])
def test_an_offset_is_data_where_the_seed_is_not(executor: hg.Executor, x: hg.Tensor, seed: int) -> None:
    def noisy(t, offset):
        return t + hg.random_uniform(t.executor, t.shape, seed=seed, offset=offset)

    jitted = jit(noisy)
    for offset in (0, 5, 2**40, 5):
        assert bits(jitted(x, offset)) == bits(noisy(x, offset))
    assert traces(jitted) == 1
    with pytest.raises(hg.UnsupportedDType):
        jitted(x, -1)


def test_gradients_take_numbers_as_data(executor: hg.Executor, x: hg.Tensor) -> None:
    def loss(w, t, rate, seed):
        return hg.mean(hg.square(hg.dropout(w, p=0.5, seed=seed) * t - rate) / (1 + t))

    def step(w, t, rate, seed):
        value, (g, by_rate) = hg.value_and_grad(loss, argnums=(0, 2))(w, t, rate, seed)
        return w - 0.1 / t * g, value, by_rate, hg.grad(lambda w: hg.sum(w * w * t))(w)

    jitted = jit(step)
    for t in range(1, 6):
        for ours, eager in zip(jitted(x, t, 0.1 * t, t * 9), step(x, t, 0.1 * t, t * 9), strict=True):
            np.testing.assert_allclose(ours.to_numpy(), eager.to_numpy(), rtol=1e-5, atol=1e-6)
    assert traces(jitted) == 1
    inner = jit(loss)
    outer = hg.value_and_grad(inner)
    for t in range(1, 6):
        value, g = outer(x, t, 0.5, t)
        want, by_hand = hg.value_and_grad(loss)(x, t, 0.5, t)
        np.testing.assert_allclose(value.to_numpy(), want.to_numpy(), rtol=1e-5)
        np.testing.assert_allclose(g.to_numpy(), by_hand.to_numpy(), rtol=1e-5, atol=1e-6)
        assert traces(inner) == 2  # as it is, and backward
