"""The words of models in NumPy, which define them, and the steps that are written by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split
from hologram.benchmark.models.wide import wide_gelu, wide_softmax


def _layer_norm(x, scale, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * scale + bias


def _attention(q, k, v):
    return wide_softmax(q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])) @ v


def windows(x):
    """What each place of a convolution of 3 x 3 sees, as the last two axes."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))


def conv(x, weight, bias):
    return np.einsum("nchwij,ocij->nohw", windows(x), weight, optimize=True) + bias[:, None, None]


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def cross_entropy(scores, classes):
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(classes)), classes])


WORDS = Words(
    linear=lambda x, weight, bias: x @ weight if bias is None else x @ weight + bias,
    relu=lambda x: np.maximum(x, 0),
    gelu=wide_gelu,
    layer_norm=_layer_norm,
    attention=_attention,
    swap=lambda x: x.swapaxes(1, 2),
    embedding=lambda table, tokens: table[tokens],
    conv=conv,
    pool=pool,
    cross_entropy=cross_entropy,
)


# Those whose gradients are written here.
WORKS = (
    "small_mlp_forward",
    "small_mlp_step",
    "mlp_forward",
    "mlp_step",
)


def forward(model: Model, inputs: Arrays) -> Callable[[], np.ndarray]:
    x, _, parameters = split(inputs)
    return lambda: model.forward(WORDS, parameters, x)


def trained(model: Model, inputs: Arrays) -> Callable[[], np.floating]:
    """A dense network's step, its gradients written out, in place."""
    x, y, given = split(inputs)
    count = len(given) // 2
    rows = np.arange(len(x))
    weights = [given[f"w{k}"].copy() for k in range(count)]
    biases = [given[f"b{k}"].copy() for k in range(count)]
    velocities = [np.zeros_like(p) for p in (*weights, *biases)]
    rate, scale = np.float32(RATE), np.float32(1 / len(x))

    def step() -> np.floating:
        layers = [x]
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            layers.append(np.maximum(layers[-1] @ w + b, 0))
        scores = layers[-1] @ weights[-1] + biases[-1]
        scores -= scores.max(axis=1, keepdims=True)
        e = np.exp(scores)
        total = e.sum(axis=1, keepdims=True)
        loss = np.mean(np.log(total[:, 0]) - scores[rows, y])
        d = e / total
        d[rows, y] -= 1
        d *= scale
        gradients: list[np.ndarray] = []
        for k in reversed(range(count)):
            gradients[:0] = [layers[k].T @ d, d.sum(axis=0)]
            d = (d @ weights[k].T) * (layers[k] > 0) if k else d
        for p, v, g in zip((*weights, *biases), velocities, (*gradients[::2], *gradients[1::2]), strict=True):
            v *= np.float32(MOMENTUM)
            v += g
            p -= rate * v
        return loss

    return step
