"""The words of models in NumPy, which define them, and with their gradients: training steps that nobody writes by hand.

Each word gives its value and, for each argument, the function from the value's gradient to the argument's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split

Pull = Callable[[Any], Any]


class Recorded:
    """An array, and the arrays that it was computed from, each with its pull."""

    def __init__(self, value: Any, *sources: tuple[Recorded, Pull]) -> None:
        self.value, self.sources = value, sources
        self.gradient: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __len__(self) -> int:
        return len(self.value)

    def __add__(self, other: Recorded) -> Recorded:
        return Recorded(
            self.value + other.value, (self, lambda d: _fitted(d, self)), (other, lambda d: _fitted(d, other))
        )

    def reshape(self, shape: tuple[int, ...]) -> Recorded:
        return Recorded(self.value.reshape(shape), (self, lambda d: d.reshape(self.shape)))

    def __getitem__(self, position: Any) -> Recorded:
        def pull(d: Any) -> Any:
            whole = np.zeros_like(self.value)
            whole[position] = d
            return whole

        return Recorded(self.value[position], (self, pull))


def _fitted(d: Any, target: Recorded) -> Any:
    """Summed over the axes along which the target was repeated."""
    return d.sum(axis=tuple(range(d.ndim - target.value.ndim)))


def backward(last: Recorded) -> None:
    """Gives all that a number was computed from its gradient."""
    order: list[Recorded] = []
    seen: set[int] = set()

    def visit(node: Recorded) -> None:
        if id(node) not in seen:
            seen.add(id(node))
            for source, _ in node.sources:
                visit(source)
            order.append(node)

    visit(last)
    last.gradient = np.ones_like(last.value)
    for node in reversed(order):
        for source, pull in node.sources:
            d = pull(node.gradient)
            source.gradient = d if source.gradient is None else source.gradient + d


def erf(x: NDArray[Any]) -> NDArray[Any]:
    """NumPy has none: SciPy's, or Python's one by one."""
    return _erf()(x)


@cache
def _erf() -> Callable[[NDArray[Any]], NDArray[Any]]:
    try:
        from scipy import special
    except ImportError:
        return np.vectorize(math.erf, otypes=[np.float64])
    return special.erf


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _linear(x: Recorded, weight: Recorded, bias: Recorded | None) -> Recorded:
    def weights_gradient(d: Any) -> Any:
        return x.value.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])

    product = Recorded(x.value @ weight.value, (x, lambda d: d @ weight.value.T), (weight, weights_gradient))
    return product if bias is None else product + bias


def _relu(x: Recorded) -> Recorded:
    return Recorded(np.maximum(x.value, 0), (x, lambda d: d * (x.value > 0)))


def _gelu(x: Recorded) -> Recorded:
    below = 0.5 * (1.0 + erf(x.value / np.float32(np.sqrt(2.0))))  # the normal distribution's share

    def pull(d: Any) -> Any:
        return d * (below + x.value * np.exp(-0.5 * x.value * x.value) / np.float32(np.sqrt(2 * np.pi)))

    return Recorded(x.value * below, (x, pull))


def _layer_norm(x: Recorded, scale: Recorded, bias: Recorded) -> Recorded:
    centred = x.value - x.value.mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    normal = centred * inverse

    def pull(d: Any) -> Any:
        d = d * scale.value
        along = normal * (d * normal).mean(axis=-1, keepdims=True)
        return inverse * (d - d.mean(axis=-1, keepdims=True) - along)

    scaled = Recorded(normal * scale.value, (x, pull), (scale, lambda d: _fitted(d * normal, scale)))
    return scaled + bias


def _attention(q: Recorded, k: Recorded, v: Recorded) -> Recorded:
    factor = 1 / np.float32(np.sqrt(q.shape[-1]))
    weights = softmax(q.value @ k.value.swapaxes(-2, -1) * factor)

    def scores_gradient(d: Any) -> Any:
        d = d @ v.value.swapaxes(-2, -1)
        return weights * (d - (d * weights).sum(axis=-1, keepdims=True)) * factor

    return Recorded(
        weights @ v.value,
        (q, lambda d: scores_gradient(d) @ k.value),
        (k, lambda d: scores_gradient(d).swapaxes(-2, -1) @ q.value),
        (v, lambda d: weights.swapaxes(-2, -1) @ d),
    )


def _swap(x: Recorded) -> Recorded:
    return Recorded(x.value.swapaxes(1, 2), (x, lambda d: d.swapaxes(1, 2)))


def _embedding(table: Recorded, tokens: Recorded) -> Recorded:
    def pull(d: Any) -> Any:
        whole = np.zeros_like(table.value)
        np.add.at(whole, tokens.value, d)
        return whole

    return Recorded(table.value[tokens.value], (table, pull))


def _windows(x: Any) -> Any:
    """What each place of a convolution of 3 x 3 sees, as the last two axes."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))


def _convolved(x: Any, weight: Any) -> Any:
    return np.einsum("nchwij,ocij->nohw", _windows(x), weight, optimize=True)


def _conv(x: Recorded, weight: Recorded, bias: Recorded) -> Recorded:
    def weights_gradient(d: Any) -> Any:
        return np.einsum("nchwij,nohw->ocij", _windows(x.value), d, optimize=True)

    def pull(d: Any) -> Any:
        return _convolved(d, weight.value[:, :, ::-1, ::-1].swapaxes(0, 1))

    value = _convolved(x.value, weight.value) + bias.value[:, None, None]
    return Recorded(value, (x, pull), (weight, weights_gradient), (bias, lambda d: d.sum(axis=(0, 2, 3))))


def _pool(x: Recorded) -> Recorded:
    n, c, h, w = x.shape
    squares = x.value.reshape(n, c, h // 2, 2, w // 2, 2)
    value = squares.max(axis=(3, 5))

    def pull(d: Any) -> Any:
        most = squares == value[:, :, :, None, :, None]
        return (most * d[:, :, :, None, :, None]).reshape(x.shape)

    return Recorded(value, (x, pull))


def _cross_entropy(scores: Recorded, classes: Recorded) -> Recorded:
    rows = np.arange(len(scores))
    shifted = scores.value - scores.value.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[rows, classes.value]

    def pull(d: Any) -> Any:
        slope = softmax(scores.value)
        slope[rows, classes.value] -= 1
        return slope * (d / np.float32(len(rows)))

    return Recorded(losses.mean(), (scores, pull))


def _plain(word: Any) -> Any:
    """A word on arrays, without its gradients."""
    return lambda *given: word(*(None if a is None else Recorded(a) for a in given)).value


class InPython:
    """Loops, a turn after the other."""

    @staticmethod
    def scan(f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any) -> tuple[Any, Any]:
        rows, carry = [], init
        for x in zip(*xs, strict=True) if isinstance(xs, tuple) else xs:
            carry, row = f(carry, x)
            rows.append(row)
        return carry, np.stack(rows)

    @staticmethod
    def while_loop(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], value: Any) -> Any:
        while goes_on(value):
            value = body(value)
        return value


RECORDED = Words(
    linear=_linear,
    relu=_relu,
    gelu=_gelu,
    layer_norm=_layer_norm,
    attention=_attention,
    swap=_swap,
    embedding=_embedding,
    conv=_conv,
    pool=_pool,
    cross_entropy=_cross_entropy,
)
WORDS = Words(
    **{f.name: _plain(word) for f in fields(Words) if (word := getattr(RECORDED, f.name)) is not None},
    softmax=softmax,
    sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    running_minimum=np.minimum.accumulate,
    loops=InPython,
    xp=np,
)


def trained(model: Model, inputs: Arrays, dtype: Any = np.float32) -> Callable[[], Any]:
    """A step, which gives the loss before it."""
    x, y, given = split(inputs)
    x = x.astype(dtype) if x.dtype.kind == "f" else x
    parameters = {name: a.astype(dtype) for name, a in given.items()}
    velocities = {name: np.zeros_like(a) for name, a in parameters.items()}

    def step() -> Any:
        recorded = {name: Recorded(a) for name, a in parameters.items()}
        loss = RECORDED.cross_entropy(model.forward(RECORDED, recorded, Recorded(x)), Recorded(y))
        backward(loss)
        for name, one in recorded.items():
            velocities[name] *= MOMENTUM
            velocities[name] += one.gradient
            parameters[name] -= RATE * velocities[name]
        return loss.value

    return step
