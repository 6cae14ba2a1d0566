"""Programs that scientists write with loops, beside the same in NumPy's double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

import hologram as hg
from tests.frontend.control.references import near

RNG = np.random.default_rng(31)


def rk45(np_: Any, f: Any, t: Any, y: Any, h: Any) -> tuple[Any, Any]:
    """A step of Bogacki and Shampine: the third order, and its distance from the second."""
    k1 = f(t, y)
    k2 = f(t + h / 2, y + h / 2 * k1)
    k3 = f(t + 3 * h / 4, y + 3 * h / 4 * k2)
    third = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
    k4 = f(t + h, third)
    second = y + h * (7 * k1 + 6 * k2 + 8 * k3 + 3 * k4) / 24
    return third, np_.max(np_.abs(third - second))


def test_an_ode_with_steps_that_adapt(executor: hg.Executor) -> None:
    """A pendulum for 3 seconds; steps that were too long are taken again."""

    def field(t: Any, y: Any) -> Any:
        return hg.stack([y[1], -hg.sin(y[0])])

    @hg.jit
    def solve(y: Any, end: Any) -> Any:
        def going(state: Any) -> Any:
            return state[0] < end - 1e-6

        def step(state: Any) -> Any:
            t, y, h, taken = state
            h = hg.minimum(h, end - t)
            new, error = rk45(hg, field, t, y, h)
            good = error < 1e-5
            longer = h * hg.clip(0.9 * (1e-5 / (error + 1e-12)) ** (1 / 3), 0.2, 5.0)
            return hg.where(good, t + h, t), hg.where(good, new, y), longer, taken + 1

        return hg.while_loop(going, step, (end * 0, y, end * 0 + 0.1, 0))

    t, y, _, taken = solve(executor.tensor(np.array([1.0, 0.0], np.float32)), executor.tensor(np.float32(3)))
    exact, steps = np.array([1.0, 0.0]), 30_000
    for _ in range(steps):
        half = exact + 1.5 / steps * np.array([exact[1], -np.sin(exact[0])])
        exact = exact + 3.0 / steps * np.array([half[1], -np.sin(half[0])])
    near((t, y), (3.0, exact), 2e-3)
    assert 10 < int(taken) < 300


def test_viterbi(executor: hg.Executor) -> None:
    """The likeliest states: forward a scan of maxima, back a scan of what led to them."""
    states, length = 5, 20
    moves, seen = RNG.standard_normal((states, states)), RNG.standard_normal((length, states))

    @hg.jit
    def path(moves: Any, seen: Any) -> Any:
        def forward(best: Any, row: Any) -> Any:
            scores = best[:, None] + moves
            return hg.max(scores, axis=0) + row, hg.argmax(scores, axis=0)

        best, led = hg.scan(forward, seen[0], seen[1:])
        last = hg.argmax(best)

        def back(state: Any, row: Any) -> Any:
            before = row[state]
            return before, state

        first, rest = hg.scan(back, last, led, reverse=True)
        return hg.concat([first.reshape(1), rest])

    found = path(*(executor.tensor(x.astype(np.float32)) for x in (moves, seen))).to_numpy()
    best, led = seen[0], []
    for row in seen[1:]:
        scores = best[:, None] + moves
        led.append(scores.argmax(0))
        best = scores.max(0) + row
    wanted = [int(best.argmax())]
    for row in led[::-1]:
        wanted.append(int(row[wanted[-1]]))
    np.testing.assert_array_equal(found, wanted[::-1])


def test_hamiltonian_monte_carlo(executor: hg.Executor) -> None:
    """Chains in a batch, each of leapfrogs by gradients: the mean and spread of a normal distribution."""
    centre, spread = np.array([1.0, -2.0], np.float32), np.array([0.5, 2.0], np.float32)
    mean, scale = executor.tensor(centre), executor.tensor(spread)

    def energy(x: Any) -> Any:
        return hg.sum(((x - mean) / scale) ** 2) / 2

    slope = hg.grad(energy)

    def chain(key: Any) -> Any:
        def turn(x: Any, key: Any) -> Any:
            first, second = hg.random.split(key)
            p = hg.random.normal(first, (2,))

            def leap(_: Any, state: Any) -> Any:
                x, p = state
                p = p - 0.15 * slope(x)
                x = x + 0.3 * p
                return x, p - 0.15 * slope(x)

            y, q = hg.fori_loop(0, 8, leap, (x, p))
            change = energy(x) + hg.sum(p * p) / 2 - energy(y) - hg.sum(q * q) / 2
            x = hg.where(hg.random.uniform(second) < hg.exp(change), y, x)
            return x, x

        return hg.scan(turn, mean * 0.0, hg.random.split(key, 60))[1]

    drawn = hg.jit(hg.vmap(chain))(hg.random.split(hg.random.key(1, device=executor), 40)).to_numpy()
    kept = drawn[:, 20:].reshape(-1, 2)
    assert np.all(np.abs(kept.mean(0) - centre) < 0.25 * spread)
    assert np.all(np.abs(kept.std(0) - spread) < 0.2 * spread)


def test_heat_and_its_gradient(executor: hg.Executor) -> None:
    """A rod's heat after 40 steps, and which beginning a loss of its end asks for."""
    begin = RNG.standard_normal(16)

    def after(np_: Any, loop: Any, u: Any) -> Any:
        return loop(0, 40, lambda _, u: u + 0.2 * (np_.roll(u, 1) - 2 * u + np_.roll(u, -1)), u)

    def in_python(first: int, last: int, body: Any, value: Any) -> Any:
        for k in range(first, last):
            value = body(k, value)
        return value

    u = executor.tensor(begin.astype(np.float32))
    near(hg.jit(lambda u: after(hg, hg.fori_loop, u))(u), after(np, in_python, begin), 1e-4)
    matrix = np.stack([after(np, in_python, row) for row in np.eye(16)], 1)
    gradient = hg.jit(hg.grad(lambda u: hg.sum(after(hg, hg.fori_loop, u) ** 2)))(u)
    near(gradient, 2 * matrix.T @ matrix @ begin, 1e-4)
