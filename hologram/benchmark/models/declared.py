"""Models, each declared once: parameters, a batch, and the forward pass in words that every library has.

A training step is the mean cross entropy, its gradients, and descent with momentum, as torch.optim.SGD does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hologram.foundation.frozen import frozen

RATE, MOMENTUM = 0.05, 0.9
CHECKED_STEPS = 3  # whose losses are compared: the forward pass, its gradients, and the momentum

Arrays = Mapping[str, NDArray[Any]]


@frozen
class Words:
    """What models are made of, in a library's tensors."""

    linear: Callable[[Any, Any, Any], Any]  # x @ weight + bias, if there is one
    relu: Callable[[Any], Any]
    gelu: Callable[[Any], Any]  # with the error function
    layer_norm: Callable[[Any, Any, Any], Any]  # over the last axis
    attention: Callable[[Any, Any, Any], Any]  # of (batch, heads, tokens, features)
    swap: Callable[[Any], Any]  # of the axes 1 and 2
    embedding: Callable[[Any, Any], Any]  # rows of a table by number
    conv: Callable[[Any, Any, Any], Any]  # 3 x 3, with padding that keeps the size; channels come first
    pool: Callable[[Any], Any]  # the largest of 2 x 2
    cross_entropy: Callable[[Any, Any], Any]  # the mean, of scores (n, classes) and class numbers (n,)
    # Of functions that are no models.
    softmax: Any = None  # over the last axis
    sigmoid: Any = None
    running_minimum: Any = None  # of a vector
    loops: Any = None  # what has scan and while_loop
    xp: Any = None  # the namespace of the array API, or what of it the library has


@frozen
class Model:
    """A network: shapes of its parameters, its input and classes for a batch size, and its scores of the classes."""

    shapes: Mapping[str, tuple[int, ...]]
    batch: Callable[[int, np.random.Generator], tuple[NDArray[Any], NDArray[np.int32]]]
    forward: Callable[[Words, Mapping[str, Any], Any], Any]
    label: str

    def inputs(self, size: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """The batch as x and y, and the parameters."""
        x, y = self.batch(size, rng)
        return {"x": x, "y": y} | {name: _initial(name, shape, rng) for name, shape in self.shapes.items()}


def _initial(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Weights that keep the size of what passes them; norms begin as the identity, biases with nothing."""
    if len(shape) == 1:
        return np.full(shape, name.endswith("_scale"), np.float32)
    inner = shape[0] if len(shape) == 2 else math.prod(shape[1:])
    spread = 0.02 if name in ("words", "places") else 1 / math.sqrt(inner)
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(spread)


def split(inputs: Arrays) -> tuple[NDArray[Any], NDArray[Any], dict[str, NDArray[Any]]]:
    """Input, classes, parameters."""
    return inputs["x"], inputs["y"], {n: a for n, a in inputs.items() if n not in ("x", "y")}


def _dense(sizes: tuple[int, ...]) -> Model:
    layers = range(len(sizes) - 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for k in layers:
        shapes |= {f"w{k}": sizes[k : k + 2], f"b{k}": sizes[k + 1 : k + 2]}

    def forward(words: Words, p: Mapping[str, Any], x: Any) -> Any:
        for k in layers:
            x = words.linear(x, p[f"w{k}"], p[f"b{k}"])
            x = words.relu(x) if k < layers[-1] else x
        return x

    return Model(shapes, partial(_labelled, sizes[:1], sizes[-1]), forward, "-".join(map(str, sizes)))


def _labelled(shape: tuple[int, ...], classes: int, size: int, rng: np.random.Generator) -> Any:
    x = rng.standard_normal((size, *shape), dtype=np.float32)
    return x, rng.integers(0, classes, size).astype(np.int32)


def _cnn(side: int, channels: tuple[int, int, int]) -> Model:
    """Two convolutions of 3 x 3 with pooling behind each, and a layer on top."""
    colours, first, second = channels
    flat = second * (side // 4) ** 2
    shapes = {
        "c0": (first, colours, 3, 3), "d0": (first,), "c1": (second, first, 3, 3), "d1": (second,),
        "w": (flat, 10), "b": (10,),
    }  # fmt: skip

    def forward(words: Words, p: Mapping[str, Any], x: Any) -> Any:
        for k in range(2):
            x = words.pool(words.relu(words.conv(x, p[f"c{k}"], p[f"d{k}"])))
        return words.linear(x.reshape((x.shape[0], flat)), p["w"], p["b"])

    batch = partial(_labelled, (colours, side, side), 10)
    return Model(shapes, batch, forward, f"{colours}x{side}x{side}, {first}-{second} channels")


def _transformer(length: int, layers: int, features: int, heads: int, vocabulary: int) -> Model:
    """Pre-norm blocks of attention and a gelu layer; every token is asked for its class."""
    shapes: dict[str, tuple[int, ...]] = {"words": (vocabulary, features), "places": (length, features)}
    for k in range(layers):
        sizes = {"qkv": 3, "out": 1, "up": 4}
        for name, times in sizes.items():
            shapes |= {f"{name}{k}": (features, times * features), f"{name}{k}_bias": (times * features,)}
        shapes |= {f"down{k}": (4 * features, features), f"down{k}_bias": (features,)}
        shapes |= {f"{n}{k}_{part}": (features,) for n in ("before", "between") for part in ("scale", "bias")}
    shapes |= {"last_scale": (features,), "last_bias": (features,), "head": (features, vocabulary)}

    def forward(words: Words, p: Mapping[str, Any], x: Any) -> Any:
        size = len(x)

        def linear(x: Any, name: str) -> Any:
            return words.linear(x, p[name], p[f"{name}_bias"])

        def norm(x: Any, name: str) -> Any:
            return words.layer_norm(x, p[f"{name}_scale"], p[f"{name}_bias"])

        def parted(x: Any) -> Any:
            return words.swap(x.reshape((size, length, heads, features // heads)))

        x = words.embedding(p["words"], x) + p["places"]
        for k in range(layers):
            mixed = linear(norm(x, f"before{k}"), f"qkv{k}")
            q, v_k, v = (parted(mixed[:, :, n * features : (n + 1) * features]) for n in range(3))
            seen = words.swap(words.attention(q, v_k, v)).reshape((size, length, features))
            x = x + linear(seen, f"out{k}")
            x = x + linear(words.gelu(linear(norm(x, f"between{k}"), f"up{k}")), f"down{k}")
        scores = words.linear(norm(x, "last"), p["head"], None)
        return scores.reshape((size * length, vocabulary))

    def batch(size: int, rng: np.random.Generator) -> Any:
        tokens = rng.integers(0, vocabulary, (size, length + 1)).astype(np.int32)
        return tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1)

    return Model(shapes, batch, forward, f"{length}, {layers} layers of {features}, {heads} heads")


MODELS: dict[str, Model] = {
    "small_mlp": _dense((64, 128, 10)),
    "mlp": _dense((784, 512, 512, 10)),
    "small_cnn": _cnn(8, (1, 16, 32)),
    "cnn": _cnn(32, (3, 32, 64)),
    "small_transformer": _transformer(32, 2, 64, 4, 256),
    "transformer": _transformer(128, 4, 256, 8, 1000),
}
