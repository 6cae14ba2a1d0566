"""Jitted functions that are long, wide, empty, or called in the middle of something else."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.compiler.fuse import MOST_OPERATIONS


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
