"""Python floats among a jitted function's arguments: numbers of each call where nobody asks for their value."""

from __future__ import annotations

import gc
import math
import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.compiled.device import SPARED_KERNELS
from hologram.frontend.jit.jitted import Jitted
from tests.frontend.jit.traces import jit, traces

VALUES = (0.1, 3.0, -0.0, math.nan, -math.inf, 1e30)


@pytest.fixture
def x(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(np.random.default_rng(7).standard_normal((6, 8)).astype(np.float32) * 3)


def bits(tensor: hg.Tensor) -> tuple[Any, bytes]:
    return tensor.dtype, tensor.to_numpy().tobytes()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
def test_other_values_are_neither_traced_nor_compiled_and_count_as_they_do_eagerly(
    executor: hg.Executor, x: hg.Tensor, dtype: str
) -> None:
    traced = []

    def step(t, options):
        traced.append(t)
        rate, (slope,) = options["rate"], options["more"]
        return t - rate * (t * 0.5), hg.leaky_relu(t - slope, slope), hg.where(t > rate, t, rate)

    t, jitted = x.astype(dtype), hg.jit(step)
    for value in VALUES:
        options = {"rate": value, "more": [0.25 * value]}
        for found, wanted in zip(jitted(t, options), step(t, options), strict=True):
            if math.isnan(value):
                np.testing.assert_array_equal(found.astype("f32").to_numpy(), wanted.astype("f32").to_numpy())
            else:
                assert bits(found) == bits(wanted)
    assert len(traced) == 1 + len(VALUES)


def test_a_wide_number_keeps_its_digits(executor: hg.Executor) -> None:
    if hg.dtypes.f64 not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType):
            executor.tensor(np.ones(3)) * 0.1
        return
    scaled = hg.jit(lambda t, s: t * s)
    for s in (0.1, 1 / 3):
        np.testing.assert_array_equal(scaled(executor.tensor(np.ones(3)), s).to_numpy(), np.full(3, s))


COMPUTED: list[Callable[[Any], Any]] = [
    lambda r: 2 * r + 1,
    lambda r: 1 - r,
    lambda r: 1.5 / r - r / 3,
    lambda r: r**2 + 2**r,
    lambda r: -abs(-r) + +r,
    lambda r: (7.5 // r) * (r % 0.3) + 7.5 % r,
    lambda r: r * r - r,
]


@pytest.mark.parametrize("compute", COMPUTED)
def test_what_python_computes_of_numbers_is_computed_at_every_call(
    executor: hg.Executor, x: hg.Tensor, compute: Callable[[Any], Any]
) -> None:
    jitted = jit(lambda t, r: t * compute(r))
    for r in (0.7, 2.25, 1e-3):
        assert bits(jitted(x, r)) == bits(x * compute(r))
    assert traces(jitted) == 1


ASKED: list[Callable[[Any, Any], Any]] = [
    lambda t, r: t * 2 if r > 1 else t,
    lambda t, r: t + 1 if r else t,
    lambda t, r: t * math.sqrt(r),
    lambda t, r: t * float(f"{r:.1f}"),
    lambda t, r: t.reshape(-1)[: int(r) + 1],
    lambda t, r: t * np.float32(r).item(),
    lambda t, r: t * float(np.exp(r)),
    lambda t, r: t * {1.5: 4.0}.get(r, 5.0),
    lambda t, r: t * r.hex().count("0"),
    lambda t, r: t * max(r, 1.0) * round(r),
    lambda t, r: t * (math.floor(r) + divmod(r, 2)[0]),
    lambda t, r: t * (1 + (r == 1.5)) * (2 + (r != 1.5)) + (r >= 1),
]


@pytest.mark.parametrize("function", ASKED)
def test_where_its_value_is_asked_for_it_is_a_python_number(
    executor: hg.Executor, x: hg.Tensor, function: Callable[[Any, Any], Any]
) -> None:
    jitted = jit(function)
    for r in (0.5, 1.5, 2.5, 0.5):
        assert bits(jitted(x, r)) == bits(function(x, r))
    assert 1 < traces(jitted) < 4


def test_only_what_was_asked_for_tells_calls_apart(executor: hg.Executor, x: hg.Tensor) -> None:
    traced = []

    @hg.jit
    def clipped(t, bound, scale):
        traced.append((bound, scale))
        return (hg.relu(t) if bound > 0 else t) * scale

    for bound in (1.0, -1.0):
        for scale in (2.0, 3.0, 4.0):
            wanted = (hg.relu(x) if bound > 0 else x) * scale
            np.testing.assert_array_equal(clipped(x, bound, scale).to_numpy(), wanted.to_numpy())
    assert len(traced) == 2


def test_a_number_is_a_float_to_who_looks(executor: hg.Executor, x: hg.Tensor) -> None:
    def function(t, r):
        if not isinstance(r, (int, float)) or isinstance(r, int):
            raise TypeError(r)
        return t + r

    jitted = jit(function)
    assert bits(jitted(x, 0.5)) == bits(x + 0.5)
    assert bits(jitted(x, 1.5)) == bits(x + 1.5)
    assert traces(jitted) == 1


def test_numbers_that_are_returned_are_those_of_the_call(executor: hg.Executor, x: hg.Tensor) -> None:
    decayed = hg.jit(lambda t, r: (t * r, {"rate": r * 0.5}))
    for r in (1.0, 0.25, 1.0):
        found, rest = decayed(x, r)
        assert (bits(found), rest, type(rest["rate"])) == (bits(x * r), {"rate": r * 0.5}, float)


def test_a_division_by_zero_raises_as_it_does_outside(executor: hg.Executor, x: hg.Tensor) -> None:
    inverse = hg.jit(lambda t, r: t * (1 / r))
    inverse(x, 2.0)
    with pytest.raises(ZeroDivisionError):
        inverse(x, 0.0)
    assert bits(inverse(x, 4.0)) == bits(x * 0.25)
    root = hg.jit(lambda t, r: t * operator.pow(r, 0.5).real)
    for r in (4.0, -4.0, 9.0):
        assert bits(root(x, r)) == bits(x * (r**0.5).real)


def test_a_training_step_takes_its_rate_into_the_product(executor: hg.Executor) -> None:
    rng = np.random.default_rng(1)
    w, t, d = (
        executor.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((64, 32), (48, 64), (48, 32))
    )
    step = hg.jit(lambda w, t, d, rate: w - rate * (t.mT @ d))
    assert step.dispatches(w, t, d, 0.5) == 1
    for rate in (0.5, 0.25, 0.0):
        wanted = w.to_numpy() - np.float32(rate) * (t.to_numpy().T @ d.to_numpy())
        np.testing.assert_allclose(step(w, t, d, rate).to_numpy(), wanted, rtol=1e-5, atol=1e-4)


def test_a_jitted_function_in_another_takes_the_number_along(executor: hg.Executor, x: hg.Tensor) -> None:
    inner = hg.jit(lambda t, r: hg.exp(t * r))
    outer = jit(lambda t, r: inner(t, r + 1.0) - r)
    for r in (0.25, -0.5):
        assert bits(outer(x, r)) == bits(hg.exp(x * (r + 1.0)) - r)
    assert traces(outer) == 1


@pytest.mark.filterwarnings("ignore:hg.jit")
def test_what_is_traced_for_a_number_goes_with_the_function(executor: hg.Executor, x: hg.Tensor) -> None:
    def traced_for(numbers: range) -> Jitted:
        jitted = jit(lambda t, n: hg.sum(t * (int(n) + 0.5) + hg.exp(t) / (n + 1), axis=0))
        for n in numbers:
            jitted(x, n)
        assert traces(jitted) == len(numbers)
        return jitted

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    traced_for(range(SPARED_KERNELS + 2))  # what a device spares is full, and all is imported
    before = objects()
    jitted = traced_for(range(100, 120))
    held = objects() - before
    del jitted
    # What is spared was there before, of another function; bind groups, where a device has them, go by their number.
    assert objects() - before < held * (0.1 if executor.limits.host_resident else 0.2)
    assert held > 20 * 100  # else there was nothing to give back


def test_threads_that_ask_for_different_numbers_get_their_own(executor: hg.Executor) -> None:
    """Both trace one signature at once, and each depends on a float that the other never asked for."""
    together = threading.Barrier(2, timeout=60)

    def branching(t, a, b, c):
        if a in (1.25, -1.25):  # the calls that meet
            together.wait()
        if a > 0:
            return t * (10.0 if b > 6 else 1.0)
        return t * (-10.0 if c > 6 else -1.0)

    x = executor.ones((2,))
    jitted = hg.jit(branching)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(jitted, x, a, 5.0, 5.0) for a in (1.25, -1.25)]:
            done.result(timeout=120)
    for a, b, c, wanted in [
        (1.5, 7.0, 5.0, 10),
        (-1.5, 5.0, 7.0, -10),
        (1.5, 5.0, 7.0, 1),
        (-1.5, 7.0, 5.0, -1),
    ]:
        np.testing.assert_array_equal(jitted(x, a, b, c).to_numpy(), [wanted] * 2)


@pytest.mark.parametrize(
    "function",
    [lambda t: t + 300, lambda t: hg.maximum(t, 300), lambda t: hg.where(t > 1, 300, t), lambda t: t & 0x1FF],
)
def test_numbers_that_the_dtype_cannot_hold_are_refused_as_outside(
    executor: hg.Executor, function: Any
) -> None:
    t = executor.tensor(np.arange(4, dtype=np.uint8))
    for f in (function, hg.jit(function)):
        with pytest.raises(hg.UnsupportedDType):
            f(t)
    assert hg.jit(lambda t: t < 300)(t).to_numpy().all()


def test_a_number_that_an_integer_cannot_hold_is_not_stored(executor: hg.Executor) -> None:
    def stored(t, r):
        y = t + 0
        y[1] = r
        return y

    t = executor.tensor(np.arange(3, dtype=np.int32))
    assert hg.jit(stored)(t, 7.0).tolist() == [0, 7, 2]
    with pytest.raises(hg.UnsupportedDType, match="cannot hold"):
        hg.jit(stored)(t, 0.1)


def test_beside_numpys_numbers_it_is_pythons(executor: hg.Executor) -> None:
    x = executor.ones((3,))
    for f in (lambda t, r: t * (np.float32(2) * r), lambda t, r: t * np.sqrt(r)):
        wanted, found = f(x, 0.25), hg.jit(f)(x, 0.25)
        assert found.dtype is wanted.dtype
        np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy())


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_the_larger_less_the_smaller_of_the_same_is_no_zero(executor: hg.Executor, dtype: str) -> None:
    t = executor.tensor(np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)).astype(dtype)
    for f in (lambda t: hg.maximum(t, t) - hg.minimum(t, t), lambda t: hg.maximum(t, t) - t):
        np.testing.assert_array_equal(hg.jit(f)(t).astype("f32").to_numpy(), [np.nan, np.nan, np.nan, 0.0])


def test_a_number_that_became_complex_makes_a_trace_of_its_own(executor: Any) -> None:
    """As outside of a trace: whether the trace was made with a number of that kind or another."""
    x = executor.tensor([1.0, 2.0])
    root = hg.jit(lambda x, a: x * a**0.5)
    size = hg.jit(lambda x, a: x * abs(a**0.5))
    assert root(x, 4.0).tolist() == [2.0, 4.0]
    assert size(x, 4.0).tolist() == size(x, -4.0).tolist() == [2.0, 4.0]
    for found in (root(x, -4.0), hg.jit(lambda x, a: x * a**0.5)(x, -4.0)):
        np.testing.assert_allclose(found.to_numpy(), [2j, 4j], atol=1e-6)
    assert root(x, 9.0).tolist() == [3.0, 6.0]
