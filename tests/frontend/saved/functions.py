"""Functions that are saved in tests, with arguments for one call of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import hologram as hg

Case = tuple[Callable[..., Any], tuple[Any, ...]]


class Pair(NamedTuple):
    left: Any
    right: Any


@hg.kernel
def smoothed(x: hg.Array[hg.f32, 1], out: hg.Array[hg.f32, 1], amount: hg.f32):  # pyright: ignore[reportInvalidTypeForm]
    i = hg.index(0)
    n = out.shape[0]
    if i > 0 and i < n - 1:
        out[i] = x[i] + amount * (x[i - 1] - 2.0 * x[i] + x[i + 1])
    else:
        out[i] = x[i]


def _array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def perceptron(ex: hg.Executor) -> Case:
    """Weights that are closed over, one of them seen through a view, and another twice."""
    first, second = ex.tensor(_array(16, 8)), ex.tensor(_array(16, 6, seed=1))
    return lambda x: hg.softmax(hg.gelu(x @ first.T) @ second[:, :5] + second[0, 1:], dim=-1), (
        ex.tensor(_array(4, 8, seed=2)),
    )


def trees(ex: hg.Executor) -> Case:
    def mixed(pair: Pair, *, options: dict[str, Any]) -> Any:
        value = pair.left * options["scale"] + pair.right[0]
        return {
            "z": value,
            "a": [value.T, options["mode"], None, 2.5],
            "pair": Pair(value.sum(), options["scale"] + 1),
        }

    x = ex.tensor(_array(3, 5))
    return lambda pair, options: mixed(pair, options=options), (
        Pair(x, [x + 1.0, None]),
        {"scale": 2.0, "mode": "fast"},
    )


def numbers(ex: hg.Executor) -> Case:
    """Numbers of the call, and what Python and NumPy make of them."""

    def adam(p: Any, g: Any, step: int, rate: float, beta: np.float32) -> Any:
        scale = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        return p - scale * g * beta + (step % 3), step + 1, -rate

    return adam, (ex.tensor(_array(7)), ex.tensor(_array(7, seed=2)), 3, 0.25, np.float32(1.5))


def packed(ex: hg.Executor) -> Case:
    """Packed weights, which stay packed, closed over and as an argument."""
    own = hg.Packed.quantize(_array(32, 64), "int4g32", ex)
    given = hg.Packed.quantize(_array(8, 32, seed=3), "int8", ex)
    return lambda x, w: hg.linear(hg.linear(x, own), w), (ex.tensor(_array(5, 64, seed=4)), given)


def loops(ex: hg.Executor) -> Case:
    """A scan, a loop with a condition, and a choice of branches too large to compute both, within one another."""

    def turn(c: Any, row: Any) -> Any:
        c = hg.tanh(c * 0.5 + row)
        return c, c.sum()

    def solved(x: Any, rows: Any) -> Any:
        last, sums = hg.scan(turn, x, rows)
        grown = hg.while_loop(lambda c: c.max() < 10.0, lambda c: c * 1.5 + 1.0, last)
        wide = hg.cond(
            grown.sum() > 0, lambda c: c.expand((9_000, 8)) + 1.0, lambda c: c.expand((9_000, 8)) - 1.0, grown
        )
        return last, sums, grown, wide.sum(axis=0)

    return solved, (ex.tensor(_array(8)), ex.tensor(_array(6, 8, seed=5)))


def derivatives(ex: hg.Executor) -> Case:
    """Of the first and the second order, through rows and a loop."""
    w = ex.tensor(_array(6, 6, seed=6))

    def loss(x: Any) -> Any:
        last, _ = hg.scan(lambda c, _: (hg.softmax(hg.silu(c @ w), dim=-1), None), x, None, length=3)
        return hg.rms_norm(last).sum() + hg.prod(last, axis=0).sum() + hg.sum(hg.sin(x) ** 2)

    return lambda x: (hg.grad(loss)(x), hg.grad(lambda y: hg.sum(hg.grad(loss)(y) * w[:3]))(x)), (
        ex.tensor(_array(3, 6)),
    )


def random(ex: hg.Executor) -> Case:
    """A key as data: another key, other numbers."""
    return lambda key, x: (hg.random.normal(key, (5, 3)), hg.random.bernoulli(key, 0.5, (7,)), x), (
        hg.random.key(7, device=ex),
        ex.tensor(_array(2)),
    )


def kernels(ex: hg.Executor) -> Case:
    """Kernels of one's own, one of them twice, over memory that is filled, and with a number of the call."""

    def twice(x: Any, amount: float) -> Any:
        first, second = hg.zeros_like(x), hg.empty_like(x)
        smoothed[x.shape](x, first, amount)
        smoothed[x.shape](first, second, 0.25)
        return second * 2.0

    return twice, (ex.tensor(_array(33)), 0.1)


def written(ex: hg.Executor) -> Case:
    """Parts that are written to, indices, and dtypes of several sizes."""

    def filled(x: Any, index: Any) -> Any:
        y = x.clone()
        y[1:3, ::2] = 5.0
        y[0] = y[3]
        return (
            hg.take(y, index, axis=0),
            (y > 0).sum(axis=0),
            hg.sort(y.astype("f16"), axis=-1),
            hg.argmax(y, axis=1),
        )

    return filled, (ex.tensor(_array(4, 6)), ex.tensor(np.array([3, 0, 0], np.int64)))


def complex_numbers(ex: hg.Executor) -> Case:
    constant = ex.tensor((_array(4, 8) + 1j * _array(4, 8, seed=8)).astype(np.complex64))
    return lambda x: hg.fft.ifft(hg.fft.fft(x) * constant * (2.0 + 1j)).real, (
        ex.tensor(_array(4, 8, seed=9)),
    )


CASES = (
    perceptron, trees, numbers, packed, loops, derivatives, random, kernels, written, complex_numbers,
)  # fmt: skip
