"""Reverse mode through loops and choices, beside differences in double precision and beside unrolled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.control import references
from tests.frontend.control.references import near

RNG = np.random.default_rng(12)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def differences(
    function: Callable[..., float], arguments: list[np.ndarray], step: float = 1e-3
) -> list[np.ndarray]:
    """Central differences of the fourth order, in double precision."""
    found = []
    for k, x in enumerate(arguments):
        slopes = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            values = []
            for turns in (-2, -1, 1, 2):
                moved = [a.copy() for a in arguments]
                moved[k][place] += turns * step
                values.append(function(*moved))
            slopes[place] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        found.append(slopes)
    return found


def recurrent(np_: Any, scan: Any, w: Any, h: Any, xs: Any) -> Any:
    """A loss of what is carried, of what is stacked and of what is closed over."""

    def f(state: Any, x: Any) -> Any:
        h = np_.tanh(state[0] @ w + x)
        return (h, state[1] + 1), (np_.sum(h * x), state[1])

    (h, _), (ys, _) = scan(f, (h, 0), xs)
    return np_.sum(h * h) + np_.sum(np_.sin(ys))


@pytest.mark.parametrize("transform", [lambda f: f, hg.jit], ids=["eager", "jit"])
def test_scan_beside_differences(executor: hg.Executor, transform: Any) -> None:
    given = [normal(3, 3) * 0.5, normal(3), normal(6, 3)]
    expected = differences(
        lambda w, h, xs: recurrent(np, references.scan, w, h, xs), [x.astype(np.float64) for x in given]
    )
    gradient = transform(hg.grad(lambda w, h, xs: recurrent(hg, hg.scan, w, h, xs), argnums=(0, 1, 2)))
    near(gradient(*map(executor.tensor, given)), expected, 1e-4)


def test_reversed_and_nested(executor: hg.Executor) -> None:
    x = normal(4, 3)

    def loss(np_: Any, scan: Any, fori: Any, x: Any) -> Any:
        def f(c: Any, row: Any) -> Any:
            inner = fori(0, 2, lambda i, v: np_.sin(v) + row * 0.5, c)
            return inner, inner * row

        c, ys = scan(f, x[0] * 0.1, x, reverse=True)
        return np_.sum(c) + np_.sum(ys * ys)

    def loop(first: int, last: int, body: Any, value: Any) -> Any:
        for i in range(first, last):
            value = body(i, value)
        return value

    (expected,) = differences(lambda x: loss(np, references.scan, loop, x), [x.astype(np.float64)])
    near(hg.grad(lambda x: loss(hg, hg.scan, hg.fori_loop, x))(executor.tensor(x)), expected, 1e-4)


def test_second_derivatives(executor: hg.Executor) -> None:
    w, h, xs = (executor.tensor(x) for x in (normal(3, 3) * 0.5, normal(3), normal(5, 3)))

    def norm(scan: Any) -> Any:
        inner = hg.grad(lambda h: recurrent(hg, scan, w, h, xs))
        return hg.grad(lambda h: hg.sum(inner(h) ** 2))(h)

    near(norm(hg.scan), norm(references.scan), 1e-4)


def test_of_a_number(executor: hg.Executor) -> None:
    """x^5 + x^3 + 2 x^2 + 3 x + 4, by Horner."""
    near(hg.grad(lambda x: hg.fori_loop(0, 5, lambda i, v: v * x + i, 1.0))(2.0), 5 * 16 + 3 * 4 + 4 * 2 + 3)


def test_a_branch_that_is_not_taken_has_no_say(executor: hg.Executor) -> None:
    """Its derivative may be infinite or no number."""
    for transform in (lambda f: f, hg.jit):
        slope = transform(
            hg.grad(lambda x: hg.cond(x > 1, lambda x: hg.sqrt(x - 1), lambda x: x * x * 3.0, x))
        )
        near(slope(executor.tensor(np.float32(0.5))), 3.0)
        near(slope(executor.tensor(np.float32(2.0))), 0.5)
        power = transform(
            hg.grad(lambda x, k: hg.switch(k, [lambda x: x, lambda x: x * x, lambda x: x**3], x))
        )
        for k, expected in ((0, 1.0), (1, 4.0), (2, 12.0)):
            near(power(executor.tensor(np.float32(2.0)), hg.asarray(k, dtype="i32")), expected)


def test_checkpoint(executor: hg.Executor) -> None:
    x, w = executor.tensor(normal(5)), executor.tensor(normal(5))
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return {"y": hg.sin(x * w) * x}

    for transform in (lambda f: f, hg.jit):
        plain, other = (
            transform(hg.grad(lambda x, g=g: hg.sum(g(x)["y"]) + hg.sum(x)))(x) for g in (f, hg.checkpoint(f))
        )
        near(plain, other)
    near(hg.checkpoint(f)(x)["y"], f(x)["y"])


def test_through_a_state_with_integers_alone(executor: hg.Executor) -> None:
    x = executor.tensor(normal(4))
    gradient = hg.grad(lambda x: hg.sum(x) * hg.scan(lambda n, r: (n + (r > 0), None), 0, x)[0])(x)
    near(gradient, np.full(4, (x.to_numpy() > 0).sum()))


def test_no_turns(executor: hg.Executor) -> None:
    x = executor.tensor(normal(3))
    near(hg.grad(lambda x: hg.sum(hg.fori_loop(0, 0, lambda i, v: v * 2, x)))(x), np.ones(3))


def test_while_loops_are_refused(executor: hg.Executor) -> None:
    x = executor.ones(())
    with pytest.raises(hg.GradientError, match="fori_loop with bounds that are Python's"):
        hg.grad(lambda x: hg.while_loop(lambda v: v < 10, lambda v: v * 2 + x, x))(x)
    kept = hg.grad(lambda x: x * hg.while_loop(lambda v: v < 10, lambda v: v * 2, hg.stop_gradient(x)))(x)
    near(kept, 16.0)
