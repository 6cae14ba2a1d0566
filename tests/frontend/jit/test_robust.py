"""Jitted functions that are long, wide, empty, or called in the middle of something else."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.compiler.fusion.fuse import MOST_OPERATIONS
from hologram.opset.reduce import dot_along


@pytest.fixture
def x(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(np.random.default_rng(3).uniform(0.5, 2, (6, 8)).astype(np.float32))


def test_a_thousand_operations_in_a_row_are_several_kernels(executor: hg.Executor, x: hg.Tensor) -> None:
    def long(t):
        for k in range(1000):
            t = hg.minimum(t, 3.0 + k) if k % 2 else -t
        return t

    jitted = hg.jit(long)
    np.testing.assert_array_equal(jitted(x).to_numpy(), long(x).to_numpy())
    found = jitted.compiled(x)
    assert found.dispatches == -(-1000 // MOST_OPERATIONS)
    assert all("operations already" in reason for g in found.assembly.groups[:-1] for reason in g.reasons)


def test_many_results_of_one_chain_respect_the_bindings(executor: hg.Executor, x: hg.Tensor) -> None:
    """Every kernel sees as many buffers as the device binds, and each result is right."""
    several = [executor.full((6, 8), float(k)) for k in range(60)]

    def sums(t, others):
        found = []
        for other in others:
            t = t + other
            found.append(t)
        return found

    jitted = hg.jit(sums)
    for ours, eager in zip(jitted(x, several), sums(x, several), strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), eager.to_numpy())
    steps = jitted.compiled(x, several).assembly.plan.steps
    assert max(len(step.operands) for step in steps) <= executor.limits.max_bindings


def test_functions_without_work_or_elements(executor: hg.Executor, x: hg.Tensor) -> None:
    empty = executor.zeros((0, 4))
    (copied, doubled), (flat, total) = hg.jit(lambda t, e: (([e, e * 2]), (e.reshape(-1) + 1, e.sum())))(
        x, empty
    )
    assert (copied.shape, doubled.shape, flat.shape, total.item()) == ((0, 4), (0, 4), (0,), 0.0)
    assert hg.jit(lambda t: (5, None))(x) == (5, None)
    chained = hg.jit(lambda e: (e * 2 @ executor.zeros((4, 0))).clone())(empty)
    assert chained.shape == (0, 0)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_linear_of_16_bit_floats_rounds_once(executor: hg.Executor, x: hg.Tensor, dtype: str) -> None:
    rng = np.random.default_rng(5)
    weight = executor.tensor(rng.standard_normal((5, 8)).astype(np.float32)).astype(dtype)
    layer = lambda t: hg.linear(t, weight, weight[:, 0], activation="tanh")  # noqa: E731
    ours, eager = hg.jit(layer)(x.astype(dtype)), layer(x.astype(dtype))
    np.testing.assert_array_equal(ours.astype("f32").to_numpy(), eager.astype("f32").to_numpy())


def test_a_call_with_a_freed_tensor_leaves_nothing_behind(executor: hg.Executor, x: hg.Tensor) -> None:
    inner = hg.jit(lambda t: t * 2)
    freed = executor.ones((6, 8))
    freed.buffer.free()
    with pytest.raises(hg.BufferFreed):
        inner(freed)
    np.testing.assert_array_equal(hg.jit(lambda t: inner(t) + 1)(x).to_numpy(), x.to_numpy() * 2 + 1)


def test_a_result_is_stored_by_a_kernel_that_computes_all_of_it(executor: hg.Executor, x: hg.Tensor) -> None:
    def parts(t):
        y = t.reshape(-1) * 2
        return y, y[:5] + 1, y[3:9:2] * 3

    for ours, eager in zip(hg.jit(parts)(x), parts(x), strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), eager.to_numpy())


def test_reductions_of_rows_that_differ_in_their_axes(executor: hg.Executor, x: hg.Tensor) -> None:
    """Rows of as many elements, which one kernel can follow along the axes of the one reduction but not the other."""
    deep = executor.tensor(np.arange(240, dtype=np.float32).reshape(4, 6, 10))
    flat = executor.tensor(np.arange(120, dtype=np.float32).reshape(4, 30))

    def sums(a, b):
        return a[:, ::2].sum(axis=(1, 2)) * b.sum(axis=1), b.max(axis=1) + a[:, ::2].transpose(1, 2).max(
            axis=(1, 2)
        )

    for ours, eager in zip(hg.jit(sums)(deep, flat), sums(deep, flat), strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), eager.to_numpy())


class Scaled:
    """An object with a jitted method."""

    def __init__(self, executor: hg.Executor, factor: float) -> None:
        self.weight = executor.full((8,), factor)

    @hg.jit
    def forward(self, t):
        """t, scaled."""
        return t * self.weight


def test_methods_are_bound(executor: hg.Executor, x: hg.Tensor) -> None:
    for factor in (2.0, 3.0):
        scaled = Scaled(executor, factor)
        np.testing.assert_array_equal(scaled.forward(x).to_numpy(), x.to_numpy() * np.float32(factor))
        np.testing.assert_array_equal(
            Scaled.forward(scaled, t=x).to_numpy(), x.to_numpy() * np.float32(factor)
        )
        assert scaled.forward.dispatches(x) == len(scaled.forward.compiled(x).assembly.groups) == 1
    assert (Scaled.forward.__name__, Scaled.forward.__doc__) == ("forward", "t, scaled.")  # type: ignore


@hg.jit
def doubled(t):
    return t * 2


def plain(t):
    return t * 3


def test_jitted_functions_are_pickled_without_what_they_compiled(x: hg.Tensor) -> None:
    for function, factor in ((doubled, 2), (hg.jit(plain, donate=()), 3)):
        function(x)
        for other in (pickle.loads(pickle.dumps(function)), copy.deepcopy(function)):
            np.testing.assert_array_equal(other(x).to_numpy(), x.to_numpy() * factor)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert pickle.loads(pickle.dumps(Scaled.forward)) is Scaled.forward


def test_only_functions_are_jitted() -> None:
    with pytest.raises(TypeError, match="a function is needed, got int"):
        hg.jit(3)  # type: ignore[call-overload]


def test_methods_see_what_is_written_into_their_tensors(executor: hg.Executor, x: hg.Tensor) -> None:
    scaled = Scaled(executor, 2.0)
    scaled.forward(x)
    scaled.weight[...] = 5.0
    np.testing.assert_array_equal(scaled.forward(x).to_numpy(), x.to_numpy() * np.float32(5))


def test_dicts_of_all_kinds_are_trees(executor: hg.Executor, x: hg.Tensor) -> None:
    given = OrderedDict([((2, "b"), x), (("a", 1), [x, 3])])
    found = hg.jit(lambda d: OrderedDict((key, d[2, "b"] + 1) for key in d))(given)
    assert type(found) is OrderedDict
    assert list(found) == list(given)
    np.testing.assert_array_equal(found["a", 1].to_numpy(), x.to_numpy() + 1)


class Held:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_tensors_are_not_returned_where_they_cannot_be_found(executor: hg.Executor, x: hg.Tensor) -> None:
    for hide in (Held, lambda t: {t}, lambda t: (t * k for k in range(2))):
        with pytest.raises(hg.TraceError, match="tensors are returned in tuples"):
            hg.jit(lambda t, hide=hide: hide(t + 1))(x)

    async def awaited(t: hg.Tensor) -> hg.Tensor:
        return t + 1

    with pytest.raises(hg.TraceError, match="got coroutine"):
        _ = hg.jit(awaited)(x)
    with pytest.raises(hg.TraceError, match="read only once"):
        hg.jit(lambda t, factors: t * sum(factors))(x, (k for k in (1.0, 2.0)))
    with pytest.raises(hg.TraceError, match="hashable, got Held"):
        hg.jit(lambda t, held: t * held.tensor)(x, Held(x))
    with pytest.raises(TypeError, match="donate must be numbers"):
        hg.jit(lambda t: t, donate="t")  # type: ignore


def test_numbers_that_are_unlike_themselves_are_one_signature(executor: hg.Executor, x: hg.Tensor) -> None:
    traced = []
    jitted = hg.jit(lambda t, n: traced.append(n) or t + n)
    for _ in range(3):
        assert np.isnan(jitted(x, float("nan")).to_numpy()).all()
        jitted(x, np.float32("nan"))
    assert len(traced) == 2
    scaled = hg.jit(lambda t, n: t * n)
    signs = [np.signbit(scaled(x, np.float32(n)).to_numpy()).all() for n in (0.0, -0.0)]
    assert not executor.limits.host_resident or signs == [False, True]


def test_what_fails_can_be_called_again(executor: hg.Executor, x: hg.Tensor) -> None:
    fails, kept = [True], []

    @hg.jit
    def careless(t):
        kept.append(t * 2)
        if fails:
            raise ValueError("not yet")
        return kept[-1]

    with pytest.raises(ValueError, match="not yet"):
        careless(x)
    with pytest.raises(hg.TraceError, match="kept and used after"):
        hg.exp(kept[0])
    fails.clear()
    np.testing.assert_array_equal(careless(x).to_numpy(), x.to_numpy() * 2)


def test_what_is_made_of_closed_over_tensors_counts_when_called(executor: hg.Executor, x: hg.Tensor) -> None:
    weight = executor.full((8,), 1.0)
    inner = hg.jit(lambda w: w * 2)
    inner(weight)

    @hg.jit
    def scaled(t):
        start = executor.zeros((6, 8))
        start[1:] = t[1:]
        return start * (weight + 1) + inner(weight) + executor.ones((8,)) + t.executor.full((), 3)

    for value in (1.0, 5.0):
        weight.buffer.fill(value)
        wanted = x.to_numpy().copy()
        wanted[0] = 0
        np.testing.assert_allclose(scaled(x).to_numpy(), wanted * (value + 1) + 2 * value + 4, rtol=1e-6)


def test_closed_over_tensors_are_not_written_to(executor: hg.Executor, x: hg.Tensor) -> None:
    weight = executor.full((6, 8), 1.0)

    def assigned(t):
        weight[...] = t

    for function, message in (
        (assigned, "closes over is written to"),
        (
            lambda t: hg.ops.vector_add(executor, weight, weight, weight),
            "add would happen once, while the function is traced",
        ),
        (lambda t: t.buffer.to_numpy(), "to_numpy is asked of the memory of a traced tensor"),
        (lambda t: float(weight.sum()), "the value of a traced tensor"),
    ):
        with pytest.raises(hg.TraceError, match=message):
            hg.jit(function)(x)
    np.testing.assert_array_equal(weight.to_numpy(), np.ones((6, 8), np.float32))
    weight += 1  # nothing is recorded any more
    assert weight.to_numpy()[0, 0] == 2


def test_gradients_of_a_product_of_two_vectors(executor: hg.Executor) -> None:
    """Several products of a row may become one, where what it is multiplied with are matrices."""
    a, b = (executor.tensor(np.arange(3, dtype=np.float32) + k) for k in (1, 2))
    gradient = hg.grad(lambda a, b: dot_along(a, b) ** 2, argnums=(0, 1))
    for found in (hg.jit(gradient)(a, b), gradient(a, b)):
        np.testing.assert_array_equal(found[1].to_numpy(), [40, 80, 120])
        np.testing.assert_array_equal(found[0].to_numpy(), [80, 120, 160])
