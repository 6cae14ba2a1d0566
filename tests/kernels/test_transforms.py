"""`hg.jvp` and `hg.vmap` through kernels: tangents beside gradients, all examples at once beside one by one."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.kernels.differentiable import CASES
from tests.kernels.differentiable.losses import arrays, gradients, weights
from tests.kernels.differentiable.refused import own_array, together

SHARED = 4


@pytest.fixture(scope="module")
def cpu():
    with hg.Executor(backend="cpu") as executor:
        yield executor


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_tangents_are_those_of_gradients(cpu: Any, case: Any) -> None:
    """w . (J v) is (J^T w) . v."""
    given = arrays(cpu, case, hg.f64)
    floats = [k for k, x in enumerate(given) if isinstance(x, float) or x.dtype is hg.f64]
    rng = np.random.default_rng(1)
    along = [rng.normal(size=np.shape(case.arguments()[k])) for k in floats]

    def result(*moving: Any) -> Any:
        arguments = [*given]
        for k, x in zip(floats, moving, strict=True):
            arguments[k] = x
        out = cpu.zeros(case.shape, hg.f64) + 0.5
        case.kernel(hg.f64)[case.grid](*arguments, out)
        return out

    moving = [cpu.tensor(np.asarray(given[k])) if isinstance(given[k], float) else given[k] for k in floats]
    _, tangent = hg.jvp(result, moving, [cpu.tensor(x) for x in along])
    forward = (tangent.to_numpy() * weights(case.shape)).sum()
    backward = sum((g * v).sum() for g, v in zip(gradients(cpu, case, hg.f64), along, strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-10)


@hg.kernel(workgroup=SHARED)
def smoothed(x: hg.Array[hg.f32], out: hg.Array[hg.f32], total: hg.Array[hg.f32], weight: hg.f32):
    i, t = hg.index(), hg.thread_index()
    own = hg.shared(SHARED, hg.f32)
    kept = hg.local(2, hg.f32)
    own[t] = x[i] * x[i]
    hg.barrier()
    mean = 0.0
    for k in range(SHARED):
        mean += own[k]
    kept[0] = weight * mean
    kept[1] = hg.sin(x[i])
    largest = hg.subgroup_max(kept[1], SHARED)
    out[i] = kept[0] + kept[1] * largest
    hg.atomic_add(total, 0, out[i])
    if t == 0:
        total[1 + hg.workgroup_index()] = own[0]


def _smoothed(x: Any, weight: Any) -> Any:
    out, total = hg.zeros_like(x), hg.zeros_like(x[:5])
    smoothed[x.shape](x, out, total, weight)
    return out, total


def test_what_has_no_gradient_may_have_tangents(executor: hg.Executor) -> None:
    x, v = np.random.default_rng(2).normal(size=(2, 10)).astype(np.float32)
    along = (executor.tensor(v), executor.tensor(np.float32(0.5)))
    for way in (lambda f: f, hg.jit):
        made = way(lambda x, w: hg.jvp(_smoothed, (x, w), along))(
            executor.tensor(x), executor.tensor(np.float32(0.25))
        )
        (out, total), (slope, total_slope) = made
        step = 1e-2
        up, down = (_smoothed(executor.tensor(x + s * v), 0.25 + s * 0.5) for s in (step, -step))
        for value, tangent, a, b in zip((out, total), (slope, total_slope), up, down, strict=True):
            difference = (a.to_numpy() - b.to_numpy()) / (2 * step)
            np.testing.assert_allclose(tangent.to_numpy(), difference, rtol=2e-2, atol=2e-2)
            assert value.shape == tangent.shape
    for kernel in (together, own_array):
        ones = executor.tensor(np.ones(8, np.float32))

        def one(x: Any, kernel: Any = kernel) -> Any:
            out = hg.zeros_like(x)
            kernel[8](x, out)
            return out

        assert hg.jvp(one, (ones,), (2 * ones,))[1].tolist() == [2.0] * 8


@hg.kernel
def counted(x: hg.Array[hg.f32], at: hg.Array[hg.i32], out: hg.Array[hg.f32], shift: hg.f32):
    i = hg.index()
    out[at[i]] = x[i] + shift  # some lie outside
    hg.atomic_add(out, 0, hg.f32(hg.grid_size()))


def test_all_examples_at_once(executor: hg.Executor) -> None:
    rng = np.random.default_rng(3)
    x = executor.tensor(rng.normal(size=(3, 10)).astype(np.float32))
    weights = executor.tensor(rng.random(3, np.float32))
    at = np.arange(12, 0, -1, dtype=np.int32)[:10]  # 12 to 10 are none of the array, nor another example's

    def scattered(x: Any, shift: Any) -> Any:
        out = hg.zeros_like(x)
        counted[10](x, executor.tensor(at), out, shift)
        return out

    for function in (_smoothed, scattered):
        for way in (lambda f: f, hg.jit):
            for axes, number in (((0, 0), weights), ((0, None), 0.5), ((None, 0), weights)):
                given = x if axes[0] == 0 else x[1]
                found = way(hg.vmap(function, in_axes=axes))(given, number)
                found = found if isinstance(found, tuple) else (found,)
                for k in range(3):
                    of = x[k] if axes[0] == 0 else x[1]
                    wanted = function(of, float(weights[k]) if axes[1] == 0 else 0.5)
                    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
                    for a, b in zip(found, wanted, strict=True):
                        np.testing.assert_allclose(a[k].to_numpy(), b.to_numpy(), rtol=1e-5, atol=1e-5)


@hg.kernel
def stepped(u: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], dt: hg.f32):
    i, j = hg.index()
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        out[i, j] = u[i, j] + dt * hg.sin(u[i - 1, j] * u[i + 1, j] - u[i, j - 1])


def _warmth(u: Any) -> Any:
    def step(u: Any, _: Any) -> Any:
        out = u * 1.0
        stepped[u.shape](u, out, 0.1)
        return out, None

    return hg.sum(hg.scan(step, u, None, length=3)[0] ** 2)


def test_transforms_go_over_one_another(executor: hg.Executor) -> None:
    u = np.random.default_rng(4).normal(size=(2, 4, 5)).astype(np.float32)
    there = executor.tensor(u)
    each = hg.vmap(hg.grad(_warmth))(there).to_numpy()
    for k in range(2):
        np.testing.assert_allclose(each[k], hg.grad(_warmth)(there[k]).to_numpy(), rtol=1e-5, atol=1e-5)
    one = there[0]
    curved = hg.hessian(_warmth)(one).to_numpy().reshape(20, 20)
    np.testing.assert_allclose(curved, curved.T, atol=1e-4)
    v = np.random.default_rng(5).normal(size=(4, 5)).astype(np.float32)
    slopes = [hg.grad(_warmth)(executor.tensor(u[0] + s * v)).to_numpy() for s in (1e-2, -1e-2)]
    np.testing.assert_allclose(
        (curved @ v.ravel()).reshape(4, 5), (slopes[0] - slopes[1]) / 2e-2, rtol=2e-2, atol=2e-2
    )
    units = executor.tensor(np.eye(20, dtype=np.float32).reshape(20, 4, 5))
    tangents = hg.vmap(lambda v: hg.jvp(_warmth, (one,), (v,))[1])(units)
    np.testing.assert_allclose(tangents.to_numpy(), each[0].ravel(), rtol=1e-4, atol=1e-4)


@hg.kernel
def found(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    out[hg.index()] = hg.atomic_add(x, 0, 1.0)


@hg.kernel
def met(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    out[hg.index() // 2] = x[hg.index()]


@hg.kernel
def own_rule(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    out[hg.index()] = hg.floor(x[hg.index()])


@own_rule.gradient
def straight(x: Any, out: Any, cotangent: Any) -> Any:
    return cotangent, None


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (found, "what an atomic finds"),
        (met, "two points may store"),
        (own_rule, "own_rule states a gradient, for reverse mode; there is no tangent"),
    ],
)
def test_refused(executor: hg.Executor, kernel: Any, words: str) -> None:
    def run(x: Any) -> Any:
        x, out = x * 1.0, hg.zeros_like(x)
        kernel[x.shape](x, out)
        return out

    x = executor.tensor(np.ones(4, np.float32))
    with pytest.raises(hg.GradientError, match=words):
        hg.jvp(run, (x,), (x,))
    assert hg.vmap(run)(hg.stack([x, x])).shape == (2, 4)


def test_what_a_batched_function_may_not_write(executor: hg.Executor) -> None:
    kept = executor.zeros(4)

    def run(x: Any) -> Any:
        met[4](x, kept)
        return x

    with pytest.raises(hg.GradientError, match="that it closes over is written to"):
        hg.vmap(run)(executor.tensor(np.ones((2, 4), np.float32)))
    assert not kept.to_numpy().any()
