"""Calls of jitted functions: signatures, trees, errors, donation, and what is closed over."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import hologram as hg


@pytest.fixture
def x(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(np.random.default_rng(3).standard_normal((6, 8)).astype(np.float32))


class Pair(NamedTuple):
    left: Any
    right: Any


def test_traces_once_for_each_signature(executor: hg.Executor, x: hg.Tensor) -> None:
    calls = []

    @hg.jit
    def scaled(t, factor):
        calls.append((t.shape, t.dtype.name, factor))
        return t * factor

    for _ in range(3):
        np.testing.assert_array_equal(scaled(x, 2.0).to_numpy(), x.to_numpy() * 2)
    assert len(calls) == 1
    scaled(x, 3.0)  # a number's value is no part of it, unless it is asked for
    scaled(x, 3)  # another type
    scaled(x, 4)
    scaled(x[:3], 3)  # another shape
    scaled(x.T, 3)  # other strides
    scaled(x.astype("f64"), 3)  # another dtype
    scaled(t=x, factor=3)  # another structure
    assert len(calls) == 6
    assert scaled(x, 2).dtype == x.dtype
    np.testing.assert_array_equal(scaled(x, -0.0).to_numpy(), x.to_numpy() * np.float32(-0.0))
    np.testing.assert_array_equal(scaled(x, 0.0).to_numpy(), x.to_numpy() * np.float32(0.0))


def test_trees_go_in_and_come_out(executor: hg.Executor, x: hg.Tensor) -> None:
    @hg.jit
    def shuffled(tree, *, scale):
        first, (second, name) = tree["first"], tree["second"]
        return {"sum": first + second * scale, "kept": [name, None, (first.T,)], "pair": Pair(second, 1)}

    found = shuffled({"second": (x, "name"), "first": x}, scale=2.0)
    assert list(found) == ["sum", "kept", "pair"]
    np.testing.assert_allclose(found["sum"].to_numpy(), x.to_numpy() * 3, rtol=1e-6)
    name, nothing, (transposed,) = found["kept"]
    assert (name, nothing, type(found["pair"]), found["pair"].right) == ("name", None, Pair, 1)
    np.testing.assert_array_equal(transposed.to_numpy(), x.to_numpy().T)


def test_results_do_not_share_memory_with_arguments(executor: hg.Executor, x: hg.Tensor) -> None:
    same, turned = hg.jit(lambda t: (t, t.T))(x)
    before = x.to_numpy()
    x.buffer.fill(0)
    np.testing.assert_array_equal(same.to_numpy(), before)
    np.testing.assert_array_equal(turned.to_numpy(), before.T)


def test_arrays_and_buffers_are_arguments_too(executor: hg.Executor, x: hg.Tensor) -> None:
    @hg.jit
    def added(a, b, c):
        return a + b + c

    array = np.ones((6, 8), np.float32)
    buffer = executor.allocate((6, 8)).from_numpy(array)
    for value in (1, 5):  # arrays are read at every call, they are no part of the signature
        result = added(x, array * value, buffer)
        np.testing.assert_allclose(result.to_numpy(), x.to_numpy() + value + 1, rtol=1e-6)
        np.testing.assert_array_equal(added(array, buffer, array * value).to_numpy(), array * (value + 2))
    with hg.use_executor(executor):  # arrays alone run on the default executor
        assert added(array, array, array).executor is executor


@pytest.mark.parametrize(
    "ask",
    [bool, int, float, list, lambda t: t.item(), lambda t: t.to_numpy(), np.asarray, lambda t: t.tolist(),
     lambda t: t if t.sum() > 0 else -t, lambda t: range(t.sum().astype("i32"))],
)  # fmt: skip
def test_asking_for_elements_is_refused(executor: hg.Executor, x: hg.Tensor, ask: Any) -> None:
    def careless(t):
        return ask(t) if ask is not list else [float(v) for row in t for v in row]

    with pytest.raises(hg.TraceError, match=r"careless: the .* of a traced tensor of shape"):
        hg.jit(careless)(x)


def test_without_tensors_it_runs_on_the_default_executor(executor: hg.Executor) -> None:
    made = hg.jit(lambda n, s: hg.full((3,), 2.0) * s + hg.arange(n))
    with hg.use_executor(executor):
        for scale in (1.0, 5.0):
            found = made(3, scale)
            assert found.executor is executor
            np.testing.assert_array_equal(found.to_numpy(), 2 * scale + np.arange(3))
        assert hg.jit(lambda: (hg.ones((2,)), "kept"))()[1] == "kept"
        assert hg.jit(lambda s: s + 1)(1) == 2


def test_what_cannot_be_traced_is_refused(executor: hg.Executor, x: hg.Tensor) -> None:
    with pytest.raises(hg.TraceError, match="hashable"):
        hg.jit(lambda t, s: t)(x, {1, 2})
    kept = []
    hg.jit(lambda t: kept.append(t) or t + 1)(x)
    with pytest.raises(hg.TraceError, match="kept and used after"):
        kept[0].sum()
    with hg.Executor(backend="cpu") as other, pytest.raises(hg.ShapeError, match="one executor"):
        hg.jit(lambda a, b: a + b)(x, other.ones((6, 8)))

    def written(t):
        t += 1
        return t

    with pytest.raises(hg.TraceError, match="an argument is written to"):
        hg.jit(written)(x)
    with pytest.raises(hg.ShapeError, match="broadcast"):
        hg.jit(lambda t: t + t[:, :3])(x)


def test_closed_over_tensors_count_with_what_they_hold(executor: hg.Executor, x: hg.Tensor) -> None:
    weight = executor.ones((8,))
    jitted = hg.jit(lambda t: t * weight + weight)
    np.testing.assert_allclose(jitted(x).to_numpy(), x.to_numpy() + 1, rtol=1e-6)
    weight.buffer.fill(2)
    np.testing.assert_allclose(jitted(x).to_numpy(), x.to_numpy() * 2 + 2, rtol=1e-6)
    weight.buffer.free()
    with pytest.raises(hg.BufferFreed, match="closes over"):
        jitted(x)


def test_an_eager_tensor_may_come_first(executor: hg.Executor, x: hg.Tensor) -> None:
    weight = executor.full((8,), 3.0)
    np.testing.assert_allclose(hg.jit(lambda t: weight - t)(x).to_numpy(), 3 - x.to_numpy(), rtol=1e-6)
    np.testing.assert_allclose(hg.jit(lambda t: np.float32(3) - t)(x).to_numpy(), 3 - x.to_numpy(), rtol=1e-6)


def test_donated_arguments_are_freed_and_their_memory_is_used(executor: hg.Executor) -> None:
    def step(p, g, m):
        m = m * 0.5 + g
        return p - m, m

    jitted = hg.jit(step, donate=(0, 2))
    tensors = [executor.full((1000,), value) for value in (1.0, 2.0, 4.0)]
    p, g, m = tensors
    blocks = {p.buffer.block, m.buffer.block}
    new_p, new_m = jitted(p, g, m)
    assert {new_p.buffer.block, new_m.buffer.block} == blocks
    np.testing.assert_array_equal(new_p.to_numpy(), np.full(1000, -3, np.float32))
    np.testing.assert_array_equal(new_m.to_numpy(), np.full(1000, 4, np.float32))
    with pytest.raises(hg.BufferFreed):
        p.to_numpy()
    with pytest.raises(hg.BufferFreed):
        jitted(p, g, new_m)
    assert g.to_numpy()[0] == 2


def test_a_donated_argument_that_others_see_is_copied(executor: hg.Executor) -> None:
    jitted = hg.jit(lambda p, g: p - g, donate=0)
    p, g = executor.full((1000,), 1.0), executor.full((1000,), 2.0)
    seen = np.from_dlpack(p) if executor.limits.host_resident else p.to_numpy()
    np.testing.assert_array_equal(jitted(p, g).to_numpy(), np.full(1000, -1, np.float32))
    np.testing.assert_array_equal(seen, np.ones(1000, np.float32))
    same = executor.full((1000,), 5.0)
    np.testing.assert_array_equal(jitted(same, same).to_numpy(), np.zeros(1000, np.float32))


def test_a_donated_argument_may_be_read_out_of_order(executor: hg.Executor) -> None:
    """No lane may find an element that another has overwritten."""
    array = np.arange(10_000, dtype=np.float32)
    jitted = hg.jit(lambda p: p + p[::-1] * 2, donate=0)
    np.testing.assert_array_equal(jitted(executor.tensor(array)).to_numpy(), array + array[::-1] * 2)
    square = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
    turned = hg.jit(lambda p: p.T - p.sum(axis=0, keepdims=True), donate=0)(executor.tensor(square))
    np.testing.assert_allclose(turned.to_numpy(), square.T - square.sum(axis=0), rtol=1e-4, atol=1e-4)


def test_calls_from_calls(executor: hg.Executor, x: hg.Tensor) -> None:
    """A jitted function inside another is traced into it."""
    inner = hg.jit(lambda t: hg.exp(t) + 1)
    outer = hg.jit(lambda t: inner(t) * 2)
    np.testing.assert_allclose(outer(x).to_numpy(), (np.exp(x.to_numpy()) + 1) * 2, rtol=1e-5)
    assert outer.dispatches(x) == 1


def test_what_is_not_a_number_stays_so(executor: hg.Executor) -> None:
    """A driver may not take t - t, t / t or t times 0 for a number, though fusion shows it all of them."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 3e38], np.float32)

    def degenerate(t):
        u = t * 1.0
        return u - t, t / u, t * 0.0, -0.0 * t, t * 0.0 + 1.0, (t + t) - (t + t)

    tensor = executor.tensor(values)
    with np.errstate(all="ignore"):
        wanted = [r.to_numpy() for r in degenerate(tensor)]
    for ours, eager in zip(hg.jit(degenerate)(tensor), wanted, strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), eager)
        known = ~np.isnan(eager)
        np.testing.assert_array_equal(np.signbit(ours.to_numpy())[known], np.signbit(eager)[known])


def test_other_batches_prepare_nothing_anew(executor: hg.Executor) -> None:
    batches = [executor.ones((4, 6)) for _ in range(100)]
    step = hg.jit(lambda t: hg.exp(t) + 1.0)

    def epoch() -> None:
        for batch in batches:
            step(batch)

    step(batches[0])
    before = executor.preparation_stats()
    epoch()
    assert executor.preparation_stats() == before


def test_trees_met_before_are_told_apart(executor: hg.Executor) -> None:
    """Their structure, and which tensor stands where, count."""
    x, y = executor.tensor([1.0, 2.0]), executor.tensor([10.0, 20.0])
    f = hg.jit(lambda tree: {"sum": tree["b"] - tree["a"], "kept": [tree["a"] * 2.0]})
    for _ in range(2):
        assert f({"a": x, "b": y})["sum"].tolist() == [9.0, 18.0]
        assert f({"b": y, "a": x})["sum"].tolist() == [9.0, 18.0]
        assert f({"b": x, "a": y})["kept"][0].tolist() == [20.0, 40.0]
    with pytest.raises(KeyError):
        f({"a": x, "c": y})
    g = hg.jit(lambda pair, other: pair[0] - pair[1] * other)
    assert [g((x, y), y).tolist(), g([y, x], x).tolist()] == [[-99.0, -398.0], [9.0, 16.0]]
    before = executor.preparation_stats()
    assert f({"b": y, "a": x})["sum"].tolist() == [9.0, 18.0]
    assert g([x, y], x).tolist() == [-9.0, -38.0]
    assert executor.preparation_stats() == before
    y.buffer.free()
    with pytest.raises(hg.BufferFreed):
        f({"a": x, "b": y})
    with hg.Executor("cpu") as elsewhere, pytest.raises(hg.ShapeError, match="one executor"):
        f({"a": x, "b": elsewhere.tensor([1.0, 2.0])})
