"""jvp, vmap, linearize, Jacobians and Hessians: arguments and results, nesting, loops, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.control.references import near

RNG = np.random.default_rng(21)
TRANSFORMS = {"eager": lambda f: f, "jit": hg.jit}


@pytest.fixture(params=TRANSFORMS)
def how(request: pytest.FixtureRequest) -> Any:
    """How a function is run."""
    return TRANSFORMS[request.param]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# Forward mode.


def test_jvp_of_trees(executor: hg.Executor, how: Any) -> None:
    x, y, n = normal(3), normal(3), np.array([1, 2, 3], np.int32)

    def f(p: Any, n: Any) -> Any:
        return {"sum": hg.sum(hg.sin(p["x"]) * p["y"]), "n": n * 2, "constant": p["x"] * 0 + 1}

    run = how(lambda x, y, n: hg.jvp(f, ({"x": x, "y": y}, n), ({"x": y, "y": None}, None)))
    made, slope = run(*map(executor.tensor, (x, y, n)))
    near(made["sum"], (np.sin(x) * y).sum())
    near(slope["sum"], (np.cos(x) * y * y).sum())
    near(made["n"], n * 2)
    near(slope["constant"], np.zeros(3))


def test_jvp_through_writes_and_views(executor: hg.Executor, how: Any) -> None:
    x = normal(4)

    def f(x: Any) -> Any:
        made = hg.zeros((2, 4))
        made[0] = x * x
        made[1, 1:3] = x[2:] * 3.0
        return made.permute(1, 0)[:3]

    _, slope = how(lambda x: hg.jvp(f, (x,), (hg.ones((4,)),)))(executor.tensor(x))
    expected = np.zeros((2, 4))
    expected[0], expected[1, 1:3] = 2 * x, 3
    near(slope, expected.T[:3])


def test_jvp_through_loops(executor: hg.Executor, how: Any) -> None:
    x, v = np.float32(1.5), np.float32(2)
    power = how(lambda x: hg.jvp(lambda x: hg.while_loop(lambda s: s < 100, lambda s: s * x, x), (x,), (v,)))
    near(power(executor.tensor(x)), (x**12, 12 * x**11 * v), 1e-4)
    horner = how(lambda x: hg.jvp(lambda x: hg.fori_loop(0, 5, lambda i, s: s * x + i, 1.0), (x,), (v,)))
    near(horner(executor.tensor(np.float32(2)))[1], 103 * v)
    rows = normal(5, 3)
    run = how(
        lambda r: hg.jvp(
            lambda r: hg.scan(lambda c, x: (hg.sin(c) + x, c * x), hg.zeros((3,)), r), (r,), (r,)
        )
    )
    (_, ys), (_, slopes) = run(executor.tensor(rows))
    c, d = np.zeros(3), np.zeros(3)
    for k, r in enumerate(rows.astype(np.float64)):
        near(ys[k], c * r, 1e-4)
        near(slopes[k], d * r + c * r, 1e-4)
        c, d = np.sin(c) + r, np.cos(c) * d + r
    chosen = how(
        lambda x: hg.jvp(lambda x: hg.cond(x > 1, lambda x: x * x, lambda x: x * 5, x), (x,), (v,))[1]
    )
    near(chosen(executor.tensor(x)), 2 * x * v)


def test_linearize(executor: hg.Executor) -> None:
    x = executor.tensor(normal(3))
    y, linear = hg.linearize(lambda x: x**3, x)
    near(y, x.to_numpy() ** 3)
    near(linear(x * 2.0), 6 * x.to_numpy() ** 3)


def test_jacobians(executor: hg.Executor, how: Any) -> None:
    w, x = normal(3, 4), normal(4)

    def f(w: Any, x: Any) -> Any:
        return {"y": hg.tanh(w @ x), "s": hg.sum(x * x)}

    for transform in (hg.jacfwd, hg.jacrev):
        found = how(lambda w, x, t=transform: t(f, argnums=(0, 1))(w, x))(*map(executor.tensor, (w, x)))
        slope = 1 - np.tanh(w.astype(np.float64) @ x) ** 2
        by_w = np.einsum("i,ij,k->ijk", slope, np.eye(3), x)
        near(found["y"], (by_w, slope[:, None] * w))
        near(found["s"], (np.zeros((3, 4)), 2 * x))


def test_hessian_of_rosenbrock(executor: hg.Executor, how: Any) -> None:
    def f(x: Any) -> Any:
        return hg.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = np.array([1.0, 2.0, -1.0], np.float32)
    found = how(hg.hessian(f))(executor.tensor(x))
    near(found, np.array([[402, -400, 0], [-400, 5402, -800], [0, -800, 200]]), 1e-3)


def test_has_aux(executor: hg.Executor) -> None:
    x = executor.tensor(normal(3))
    y, slope, aux = hg.jvp(lambda x: (x * x, {"twice": x * 2}), (x,), (x,), has_aux=True)
    near((y, slope, aux["twice"]), (x.to_numpy() ** 2, 2 * x.to_numpy() ** 2, 2 * x.to_numpy()))
    found, aux = hg.jacrev(lambda x: (x * x, x * 2), has_aux=True)(x)
    near((found, aux), (np.diag(2 * x.to_numpy()), 2 * x.to_numpy()))


# Batches.


def test_axes_in_and_out(executor: hg.Executor, how: Any) -> None:
    a, b, c = normal(5, 3), normal(2, 5), normal(4)

    def f(p: Any, c: Any, k: float) -> Any:
        return hg.concat([p["a"] * k, p["b"], c]), hg.sum(p["a"]) * k, k

    run = how(
        lambda a, b, c: hg.vmap(f, in_axes=({"a": 0, "b": 1}, None, None), out_axes=(1, 0, None))(
            {"a": a, "b": b}, c, 2.0
        )
    )
    wide, sums, k = run(*map(executor.tensor, (a, b, c)))
    near(wide, np.concatenate([a * 2, b.T, np.broadcast_to(c, (5, 4))], 1).T)
    near((sums, k), (a.sum(1) * 2, 2.0))


def test_nested_batches(executor: hg.Executor, how: Any) -> None:
    a, b = normal(3, 4), normal(5, 4)
    distance = lambda a, b: hg.sum((a - b) ** 2)  # noqa: E731
    run = how(hg.vmap(hg.vmap(distance, in_axes=(None, 0)), in_axes=(0, None)))
    near(run(*map(executor.tensor, (a, b))), ((a[:, None] - b[None]) ** 2).sum(-1), 1e-4)


def test_gradients_of_each_example(executor: hg.Executor, how: Any) -> None:
    w, x, y = normal(4, 3), normal(6, 4), RNG.integers(0, 3, 6).astype(np.int32)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return hg.cross_entropy_loss((hg.gelu(x @ w))[None], y[None])

    found = how(hg.vmap(hg.grad(loss), in_axes=(None, 0, 0)))(*map(executor.tensor, (w, x, y)))
    each = [hg.grad(loss)(*map(executor.tensor, (w, a, b))).to_numpy() for a, b in zip(x, y, strict=True)]
    near(found, np.stack(each), 1e-4)
    models = how(hg.vmap(hg.grad(loss), in_axes=(0, None, None)))
    many = np.stack([w, w * 0.5])
    found = models(*map(executor.tensor, (many, x[0], y[:1][0])))
    near(
        found[1],
        hg.grad(loss)(executor.tensor(w * 0.5), executor.tensor(x[0]), executor.tensor(y[:1][0])),
        1e-4,
    )


def test_batches_inside_of_gradients_and_jit(executor: hg.Executor) -> None:
    w, x = normal(4, 4), normal(5, 4)
    inner = hg.jit(lambda w, x: hg.tanh(x @ w))
    batched = hg.grad(lambda w, x: hg.sum(hg.vmap(inner, in_axes=(None, 0))(w, x)))
    plain = hg.grad(lambda w, x: hg.sum(hg.tanh(x @ w)))
    given = tuple(map(executor.tensor, (w, x)))
    near(batched(*given), plain(*given))
    near(hg.jit(batched)(*given), plain(*given))


def test_loops_in_a_batch(executor: hg.Executor, how: Any) -> None:
    x, n = np.abs(normal(4, 3)) + 0.1, np.array([0, 3, 1, 5], np.int32)

    def doubled(x: Any) -> Any:
        return hg.while_loop(lambda v: hg.sum(v) < 20, lambda v: v * 1.5 + 0.1, x)

    expected = []
    for row in x.astype(np.float64):
        while row.sum() < 20:
            row = row * 1.5 + 0.1
        expected.append(row)
    near(how(hg.vmap(doubled))(executor.tensor(x)), np.stack(expected), 1e-4)

    def counted(x: Any, n: Any) -> Any:
        return hg.fori_loop(hg.zeros((), dtype="i32"), n, lambda i, v: v + i, x)

    sums = np.array([sum(range(k)) for k in n])
    near(how(hg.vmap(counted))(executor.tensor(x), executor.tensor(n)), x + sums[:, None])

    def scanned(x: Any, start: Any) -> Any:
        return hg.scan(lambda c, r: (c + r, (c, start)), 0.0, x)

    carry, (ys, _) = how(hg.vmap(scanned, in_axes=(1, None)))(executor.tensor(x), 2.0)
    near(carry, x.sum(0))
    near(ys, (np.cumsum(x, 0) - x).T)


def test_choices_in_a_batch(executor: hg.Executor, how: Any) -> None:
    x, k = normal(5, 3), np.array([0, 2, 1, 7, -1], np.int32)
    chosen = hg.vmap(lambda x: hg.cond(hg.sum(x) > 0, lambda x: x, lambda x: -x, x))
    near(how(chosen)(executor.tensor(x)), np.where(x.sum(1, keepdims=True) > 0, x, -x))
    functions = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    switched = hg.vmap(lambda x, k: hg.switch(k, functions, x))
    near(how(switched)(*map(executor.tensor, (x, k))), x * (np.clip(k, 0, 2) + 1)[:, None])
    alike = hg.vmap(lambda x, k: hg.switch(k, functions, x), in_axes=(0, None))
    near(how(alike)(*map(executor.tensor, (x, k[1:2].reshape(())))), x * 3)


def test_writes_in_a_batch(executor: hg.Executor, how: Any) -> None:
    x, at = normal(4, 3), np.array([2, 0, 1, 1], np.int32)

    def f(x: Any, at: Any) -> Any:
        made = hg.zeros((3,))
        made[:2] = x[1:]
        made[at] = 9.0
        return made + x[at]

    expected = np.zeros((4, 3))
    expected[:, :2] = x[:, 1:]
    expected[np.arange(4), at] = 9
    expected += x[np.arange(4), at][:, None]
    near(how(hg.vmap(f))(*map(executor.tensor, (x, at))), expected)


def test_an_empty_batch_and_constants(executor: hg.Executor) -> None:
    assert hg.vmap(lambda x: x * 2)(executor.zeros((0, 3))).shape == (0, 3)
    near(hg.vmap(lambda x: 3.0)(executor.zeros((2, 3))), np.full(2, 3.0))
    near(hg.vmap(lambda: hg.ones((2,)), axis_size=3)(), np.ones((3, 2)))


# What is refused.


def test_batches_that_do_not_fit(executor: hg.Executor) -> None:
    a, b = executor.ones((3, 2)), executor.ones((4,))
    with pytest.raises(
        hg.ShapeError, match=r"one size, but axis 0 of argument 0\['x'\] has 3, axis 0 of argument 1 has 4"
    ):
        hg.vmap(lambda p, b: b)({"x": a}, b)
    with pytest.raises(hg.ShapeError, match=r"argument 0 has no axis 2 for the batch, got shape \(3, 2\)"):
        hg.vmap(lambda a: a, in_axes=2)(a)
    with pytest.raises(hg.ShapeError, match="an axis for each of 2 arguments"):
        hg.vmap(lambda a, b: a, in_axes=(0,))(a, b)
    with pytest.raises(hg.ShapeError, match="at least one argument must have a batch"):
        hg.vmap(lambda a: a, in_axes=None)(a)
    with pytest.raises(hg.ShapeError, match="the same for all examples"):
        hg.vmap(lambda a: a, out_axes=None)(a)
    with pytest.raises(hg.ShapeError, match="out_axes 3 is no axis"):
        hg.vmap(lambda a: a, out_axes=3)(a)
    with pytest.raises(hg.TraceError, match="another for each of 3 examples"):
        hg.vmap(lambda a: a * float(a[0]))(a)


def test_tangents_that_do_not_fit(executor: hg.Executor) -> None:
    x = executor.ones((3,))
    with pytest.raises(
        hg.GradientError, match=r"tangent of primals\[0\] must be f32 of shape \(3,\), got .*\(2,\)"
    ):
        hg.jvp(hg.sin, (x,), (executor.ones((2,)),))
    with pytest.raises(hg.GradientError, match="structure of the primals"):
        hg.jvp(lambda a, b: a, (x, x), (x,))
    with pytest.raises(TypeError, match="must be tuples or lists"):
        hg.jvp(hg.sin, x, x)  # type: ignore[arg-type]
    with pytest.raises(hg.GradientError, match="has no derivative"):
        hg.jvp(lambda x: x * float(hg.sum(x)), (x,), (x,))
    with pytest.raises(hg.GradientError, match="with respect to float tensors, got i32"):
        hg.jacfwd(lambda n: n * 1.0)(hg.asarray([1, 2], dtype="i32"))
