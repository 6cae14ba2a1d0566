"""Calls of functions that take functions: choices, loops, derivatives and what is traced, as those of view_cases.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import hologram as hg
from tests.frontend.view_cases import KEY, MASK, ONE, OTHER, PICKED, TABLE, TWO, YES, by

LARGE = np.tile(TABLE, (100, 60))  # of which a choice in a trace computes one branch only
LAST = np.array(3, np.int32)


def below(state: Any) -> Any:
    return state[0] < state[1]


def further(state: Any) -> Any:
    return state[0] + 1, state[1], state[2] * 1.5 + state[0]


def either(i: Any, x: Any, y: Any) -> Any:
    return hg.cond(i % 2 == 0, lambda: x * 0.5 + y, lambda: x - y)


CONTROL = {
    "cond": by(lambda p, x, y: hg.cond(p, lambda a, b: a * 2 + b, lambda a, b: a - b, x, y), YES, TABLE, OTHER),
    "cond, closed over": by(lambda p, x, y: hg.cond(p, lambda: x * 2, lambda: x + y), ~YES, TABLE, OTHER),
    "cond, of a number": by(lambda n, x: hg.cond(n, lambda a: a * 2, lambda a: a, x), ONE, TWO),
    "cond, of much": by(lambda p, x: hg.cond(p, lambda a: a * 2, lambda a: a - 1, x), YES, LARGE),
    "cond, of keys": by(
        lambda k: hg.cond(True, lambda a: hg.random.normal(a, (3,)), lambda a: hg.random.uniform(a, (3,)), k), KEY
    ),
    "cond, in a choice": by(
        lambda p, x, y: hg.cond(p, lambda a: hg.cond(p, lambda b: b + y, lambda b: b, a), lambda a: a, x),
        YES, TABLE, OTHER,
    ),
    "switch": by(
        lambda k, x: hg.switch(k, [lambda a: a, lambda a: a * 2, lambda a: a - 1], x), ONE, TABLE
    ),
    "fori_loop": by(lambda x, y: hg.fori_loop(0, 4, lambda i, c: c * 0.5 + y + i, x), TABLE, OTHER),
    "fori_loop, to a tensor": by(
        lambda a, b, x, y: hg.fori_loop(a, b, lambda i, c: c * 0.5 + y + i, x), ONE, LAST, TABLE, OTHER
    ),
    "fori_loop, of choices": by(
        lambda x, y: hg.fori_loop(0, 4, lambda i, c: either(i, c, y), x), TABLE, OTHER
    ),
    "fori_loop, of choices to a tensor": by(
        lambda a, b, x, y: hg.fori_loop(a, b, lambda i, c: either(i, c, y), x), ONE, LAST, TABLE, OTHER
    ),
    "while_loop": by(lambda i, n, x: hg.while_loop(below, further, (i, n, x)), ONE, LAST, TABLE),
    "while_loop, that ends at once": by(
        lambda i, n, x: hg.while_loop(below, further, (i, n, x)), LAST, ONE, TABLE
    ),
    "while_loop, closed over": by(
        lambda n, x, y: hg.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + y), (0, x)),
        LAST, TABLE, OTHER,
    ),
    "scan": by(lambda x, y: hg.scan(lambda c, row: (c * 0.5 + row, c - row), x, y), TABLE[0], OTHER),
    "scan, closed over": by(
        lambda x, y, z: hg.scan(lambda c, row: (c * 0.5 + row * z, c), x, y, reverse=True), TABLE[0], OTHER, TABLE[1]
    ),
    "scan, of choices": by(
        lambda x, y, z: hg.scan(lambda c, row: (either(1, c, row * z), c), x, y), TABLE[0], OTHER, TABLE[1]
    ),
    "scan, of loops": by(
        lambda x, y, z, n: hg.scan(
            lambda c, row: (hg.fori_loop(0, n, lambda i, v: v * 0.5 + row + z, c), c), x, y
        ),
        TABLE[0], OTHER, TABLE[1], LAST,
    ),
    "map": by(lambda x, y: hg.map(lambda row: hg.sum(row * y), x), TABLE, OTHER[0]),
}  # fmt: skip


def bent(x: Any, y: Any) -> Any:
    """A number of each row."""
    return hg.sum(hg.sin(x) * y + x * x * 0.5, -1)


def total(x: Any, y: Any) -> Any:
    return hg.sum(bent(x, y))


@hg.custom_gradient
def halved(x: Any) -> Any:
    return x * 2, lambda g: g * x


TRANSFORMS = {
    "grad": by(lambda x, y: hg.grad(total, (0, 1))(x, y), TABLE, OTHER),
    "grad, closed over": by(lambda x, y: hg.grad(lambda a: total(a, y))(x), TABLE, OTHER),
    "grad, twice": by(lambda x, y: hg.grad(lambda a: hg.sum(hg.grad(total)(a, y) * y))(x), TABLE, OTHER),
    "grad, of a choice": by(
        lambda p, x, y: hg.grad(lambda a: hg.cond(p, lambda b: total(b, y), lambda b: hg.sum(b), a))(x),
        YES, TABLE, OTHER,
    ),
    "grad, of a loop": by(
        lambda x, y: hg.grad(lambda a: hg.sum(hg.fori_loop(0, 3, lambda i, c: c * hg.sin(y), a)))(x), TABLE, OTHER
    ),
    "grad, of a scan of choices": by(
        lambda x, y: hg.grad(lambda a: hg.sum(hg.scan(lambda c, r: (either(0, c, r), c), a, y)[0]))(x), TABLE[0], OTHER
    ),
    "value_and_grad": by(lambda x, y: hg.value_and_grad(total)(x, y), TABLE, OTHER),
    "vjp": by(lambda x, y, c: hg.vjp(bent, x, y)[1](c), TABLE, OTHER, TABLE[:, 0]),
    "jvp": by(lambda x, y, t, u: hg.jvp(bent, (x, y), (t, u)), TABLE, OTHER, OTHER, TABLE),
    "jvp, of a loop": by(
        lambda x, t, n: hg.jvp(
            lambda a: hg.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * a), (0, a)), (x,), (t,)
        ),
        TABLE, OTHER, LAST,
    ),
    "jvp, of a choice": by(
        lambda p, x, t: hg.jvp(lambda a: hg.cond(p, lambda b: b * b, lambda b: b, a), (x,), (t,)), YES, TABLE, OTHER
    ),
    "linearize": by(lambda x, y, t: hg.linearize(lambda a: bent(a, y), x)[1](t), TABLE, OTHER, OTHER),
    "jacfwd": by(lambda x, y: hg.jacfwd(bent)(x, y), TABLE, OTHER),
    "jacrev": by(lambda x, y: hg.jacrev(bent)(x, y), TABLE, OTHER),
    "hessian": by(lambda x, y: hg.hessian(total)(x, y), TABLE[0], OTHER[0]),
    "vmap": by(lambda x, y: hg.vmap(bent, in_axes=(1, None))(x, y), TABLE, OTHER[:, 0]),
    "vmap, of a choice": by(
        lambda p, x: hg.vmap(lambda q, a: hg.cond(q, lambda b: b * 2, lambda b: b - 1, a))(p, x), MASK[:, 0], TABLE
    ),
    "vmap, of a loop": by(
        lambda n, x: hg.vmap(lambda m, a: hg.fori_loop(0, m, lambda i, c: c * 0.5 + i, a))(n, x), PICKED[:3], TABLE
    ),
    "custom_gradient": by(lambda x: hg.grad(lambda a: hg.sum(halved(a)))(x), TABLE),
    "checkpoint": by(lambda x, y: hg.grad(lambda a: total(hg.checkpoint(hg.tanh)(a), y))(x), TABLE, OTHER),
    "stop_gradient": by(lambda x: hg.grad(lambda a: hg.sum(a * hg.stop_gradient(a)))(x), TABLE),
    "jit": by(lambda x, y: hg.jit(bent)(x, y), TABLE, OTHER),
    "jit, closed over": by(lambda x, y: hg.jit(lambda a: bent(a, y))(x), TABLE, OTHER),
    "jit, returned": by(lambda x, y: hg.jit(lambda a: (a, y, a[1:], y[::2]))(x), TABLE, OTHER),
    "jit, updated": by(lambda x, y: hg.jit(lambda a, b: a.at[1].set(b[0]))(x, y), TABLE, OTHER),
    "jit, donated": by(lambda x, y: hg.jit(lambda a, b: a * 2 + b, donate=0)(x, y), TABLE, OTHER),
}  # fmt: skip


PROGRAMS = {**CONTROL, **TRANSFORMS}
