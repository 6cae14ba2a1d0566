"""scan, fori_loop, while_loop, cond, switch and map, beside Python's loops in double precision."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.control import references
from tests.frontend.control.references import near

RNG = np.random.default_rng(11)
HOW = {"eager": lambda f: f, "jit": hg.jit}


@pytest.fixture(params=HOW)
def how(request: pytest.FixtureRequest) -> Any:
    """How a function with a loop is run."""
    return HOW[request.param]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# scan.


@pytest.mark.parametrize("length", [1, 2, 3, 17, 130])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_two_states(executor: hg.Executor, how: Any, length: int, reverse: bool) -> None:
    w, h, xs = normal(5, 5) * 0.3, normal(5), normal(length, 5)

    def f(np_: Any, w: Any, state: Any, x: Any) -> Any:
        h = np_.tanh(state["h"] @ w + x)
        return {"h": h, "n": state["n"] + 1}, (h * x, state["n"])

    run = how(lambda w, h, xs: hg.scan(lambda s, x: f(hg, w, s, x), {"h": h, "n": 0}, xs, reverse=reverse))
    carry, ys = run(*map(executor.tensor, (w, h, xs)))
    wide = [x.astype(np.float64) for x in (w, h, xs)]
    expected = references.scan(
        lambda s, x: f(np, wide[0], s, x), {"h": wide[1], "n": 0}, wide[2], reverse=reverse
    )
    near((carry, ys), expected, 1e-4)
    assert carry["n"].dtype is hg.i32


def test_rows_of_any_kind(executor: hg.Executor, how: Any) -> None:
    """Rows that are views, that lie apart, of several dtypes and of none at all."""
    a, b = normal(3, 7), RNG.integers(-100, 100, (7, 2, 3)).astype(np.int16)
    flags = RNG.integers(0, 2, (7,)).astype(bool)

    def f(total: Any, x: Any) -> Any:
        a, b, flag = x
        return total + a.sum() * 2.0, (a + total, b * 2, flag, b.reshape(3, 2)[:, 0])

    run = how(lambda a, b, c: hg.scan(f, 0.0, (hg.permute_dims(a, (1, 0)), b, c)))
    found = run(executor.tensor(a), executor.tensor(b), executor.tensor(flags))
    expected = references.scan(f, np.float64(0), (a.T.astype(np.float64), b, flags))
    near(found, expected, 1e-4)
    assert [y.dtype for y in found[1]] == [hg.f32, hg.i16, hg.bool_, hg.i16]


def test_no_turns_and_no_elements(executor: hg.Executor, how: Any) -> None:
    run = how(lambda x: hg.scan(lambda c, r: (c + r, (c * 2, r)), hg.ones((3,)), x))
    carry, (c, r) = run(executor.zeros((0, 3)))
    near(carry, np.ones(3))
    assert (c.shape, r.shape) == ((0, 3), (0, 3))
    carry, ys = how(lambda x: hg.scan(lambda c, r: (c, r * c), hg.ones((0,)), x))(executor.zeros((4, 0)))
    assert (carry.shape, ys.shape) == ((0,), (4, 0))
    near(how(lambda x: hg.fori_loop(3, 3, lambda i, v: v + i, x))(executor.ones((2,))), np.ones(2))
    near(
        how(lambda x: hg.while_loop(lambda v: v[0] < 0, lambda v: v + 1, x))(executor.ones((2,))), np.ones(2)
    )


def test_carried_unchanged_and_swapped(executor: hg.Executor, how: Any) -> None:
    a, b = normal(4), normal(4)
    run = how(lambda a, b, n: hg.scan(lambda s, _: ((s[1], s[0], s[2]), s[0]), (a, b, n), length=5))
    (x, y, n), ys = run(executor.tensor(a), executor.tensor(b), 7)
    near((x, y, n), (b, a, 7))
    near(ys, np.stack([a, b, a, b, a]))


def test_arguments_stay_as_they_are(executor: hg.Executor, how: Any) -> None:
    """What is carried is a loop's own: it may be written to, and the operand stays."""
    x = executor.zeros((6,))

    def body(i: Any, v: Any) -> Any:
        v[i] = i * 2.0
        return v

    near(how(lambda v: hg.fori_loop(0, 6, body, v))(x), np.arange(6) * 2.0)
    near(x, np.zeros(6))


def test_state_that_no_kernel_can_write_over(executor: hg.Executor, how: Any) -> None:
    """Turns that read their neighbours, an odd and an even number of them."""
    x = normal(9)
    for turns in (1, 2, 5, 8):
        run = how(lambda v, n=turns: hg.fori_loop(0, n, lambda i, v: hg.roll(v, 1) * 0.5 + v, v))
        expected = x.astype(np.float64)
        for _ in range(turns):
            expected = np.roll(expected, 1) * 0.5 + expected
        near(run(executor.tensor(x)), expected, 1e-4)


# Loops in loops, and what they close over.


def test_nested(executor: hg.Executor, how: Any) -> None:
    x, w = normal(4, 3), normal(3)

    def run(x: Any, w: Any) -> Any:
        def outer(total: Any, row: Any) -> Any:
            inner = hg.fori_loop(0, 3, lambda i, v: v * 0.5 + row * w + i, total)
            halves = hg.while_loop(lambda v: hg.sum(hg.abs(v)) > 1.0, lambda v: v * 0.5, inner)
            return inner, halves + total

        return hg.scan(outer, w * 0.0, x)

    total, ys, wide = np.zeros(3), [], w.astype(np.float64)
    for row in x.astype(np.float64):
        inner = total
        for i in range(3):
            inner = inner * 0.5 + row * wide + i
        halves = inner
        while np.abs(halves).sum() > 1:
            halves = halves * 0.5
        ys.append(halves + total)
        total = inner
    near(how(run)(executor.tensor(x), executor.tensor(w)), (total, np.stack(ys)), 1e-4)


def test_numbers_of_a_call(executor: hg.Executor) -> None:
    """Numbers are data of each call inside of loops, too: one trace serves all."""
    traces = []

    @hg.jit
    def run(x: Any, rate: float, start: int) -> Any:
        traces.append(1)
        return hg.scan(lambda c, r: (c * rate + r * (1 - rate), c), start * rate, x)

    x = normal(5)
    for rate, start in ((0.5, 1), (0.25, 3)):
        expected = references.scan(
            lambda c, r, rate=rate: (c * rate + r * (1 - rate), c), start * rate, x.astype(np.float64)
        )
        near(run(executor.tensor(x), rate, start), expected)
    assert len(traces) == 1


def test_a_body_is_traced_once(executor: hg.Executor) -> None:
    seen = []

    def body(c: Any, x: Any) -> Any:
        seen.append(1)
        return c + x, None

    hg.scan(body, executor.zeros((2,)), executor.ones((50, 2)))
    assert len(seen) == 1


def test_closed_over_tensors_count_with_what_they_hold(executor: hg.Executor) -> None:
    w = executor.ones((3,))
    run = hg.jit(lambda x: hg.fori_loop(0, 4, lambda i, v: v + w, x))
    near(run(executor.zeros((3,))), np.full(3, 4.0))
    w[...] = 2.0
    near(run(executor.zeros((3,))), np.full(3, 8.0))


def test_many_launches_of_one_call(executor: hg.Executor) -> None:
    """More turns than a first call takes: places go on from call to call."""
    x = normal(1000, 3)
    carry, ys = hg.jit(lambda x: hg.scan(lambda c, r: (c * 0.9 + r, c), hg.zeros((3,)), x))(
        executor.tensor(x)
    )
    near((carry, ys), references.scan(lambda c, r: (c * 0.9 + r, c), np.zeros(3), x.astype(np.float64)), 1e-4)


# Loops with a condition, choices.


def test_while_loop(executor: hg.Executor, how: Any) -> None:
    """Newton's method stops at the first element that is near enough, and not later."""

    def run(a: Any) -> Any:
        def near_enough(state: Any) -> Any:
            x, _ = state
            return hg.max(hg.abs(x * x - a)) > 1e-3

        return hg.while_loop(near_enough, lambda s: ((s[0] + a / s[0]) * 0.5, s[1] + 1), (a, 0))

    a = np.abs(normal(5)) + 0.5
    x, turns = a.astype(np.float64), 0
    while np.abs(x * x - a).max() > 1e-3:
        x, turns = (x + a / x) * 0.5, turns + 1
    near(how(run)(executor.tensor(a)), (x, turns), 1e-3)


def test_long_while_loop(executor: hg.Executor, how: Any) -> None:
    run = how(lambda n: hg.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + 2), (0, n * 0)))
    count, twice = run(hg.asarray(3001, dtype="i32"))
    assert (int(count), int(twice)) == (3001, 6002)


def test_fori_loop_whose_bounds_are_tensors(executor: hg.Executor, how: Any) -> None:
    run = how(lambda a, b, v: hg.fori_loop(a, b, lambda i, v: v + i, v))
    start, end = (hg.asarray(n, dtype="i32") for n in (3, 9))
    near(run(start, end, executor.zeros(())), sum(range(3, 9)))
    near(run(end, start, executor.zeros(())), 0)


@pytest.mark.parametrize("size", [3, 200_000])  # computed both, and one of them
def test_cond_and_switch(executor: hg.Executor, how: Any, size: int) -> None:
    x = np.abs(normal(size)) + 1
    chosen = how(lambda p, x: hg.cond(p, lambda x: hg.sqrt(x) + 1, lambda x: x * 2.0, x))
    for flag in (True, False):
        near(chosen(hg.asarray(flag), executor.tensor(x)), np.sqrt(x) + 1 if flag else x * 2)
    run = how(lambda k, x: hg.switch(k, [lambda x: x, lambda x: x * 2.0, lambda x: x - 1], x))
    for k, expected in ((-4, x), (0, x), (1, x * 2), (2, x - 1), (9, x - 1)):
        near(run(hg.asarray(k, dtype="i32"), executor.tensor(x)), expected)


def test_choices_inside_of_loops(executor: hg.Executor, how: Any) -> None:
    def body(i: Any, v: Any) -> Any:
        return hg.cond(i % 2 == 0, lambda v: v * 2.0, lambda v: v + 1.0, v)

    expected = np.float64(1)
    for i in range(7):
        expected = expected + 1 if i % 2 else expected * 2
    near(how(lambda v: hg.fori_loop(0, 7, body, v))(executor.ones(())), expected)


def test_map(executor: hg.Executor, how: Any) -> None:
    x, y = normal(6, 3), normal(6)
    run = how(lambda x, y: hg.map(lambda row: {"sum": hg.sum(row[0]) * row[1]}, (x, y)))
    near(run(executor.tensor(x), executor.tensor(y))["sum"], x.sum(1) * y)


# What users see.


def test_explained_with_the_body(executor: hg.Executor) -> None:
    run = hg.jit(lambda x: hg.sum(hg.scan(lambda c, r: (hg.tanh(c) + r, c), hg.zeros((3,)), x)[1]))
    x = executor.ones((4, 3))
    assert run.dispatches(x) >= 2
    assert "tanh" in str(run.explain(x))


def test_interrupted_within_a_second(executor: hg.Executor) -> None:
    def endless_from(start: int) -> Any:
        return hg.while_loop(lambda v: v >= 0, lambda v: (v + 1) % 1000, start)

    endless_from(-1)  # compiled, and ends at once
    sent = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    # Programs in the background of a shell start with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            endless_from(0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - sent[0] < 1.0
    near(executor.ones((2,)) + 1, np.full(2, 2.0))  # and goes on


def test_watched_loops_launch_turn_by_turn(executor: hg.Executor) -> None:
    run = hg.jit(lambda x: hg.scan(lambda c, r: (c + r, None), hg.zeros((3,)), x)[0])
    x = executor.ones((5, 3))
    near(run(x), np.full(3, 5.0))
    with executor.profile() as profile:
        near(run(x), np.full(3, 5.0))
    assert sum(row.count for row in profile.kernels) >= 5
    halved = hg.jit(
        lambda v: hg.while_loop(lambda s: hg.sum(s[0]) > 1, lambda s: (s[0] * 0.5, s[1] + 1), (v, 0))
    )
    with executor.profile():
        assert int(halved(x)[1]) == 4
    assert int(halved(x)[1]) == 4
