"""What is computed: each work's inputs and its result in float64, whoever computes it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench import model_references, training
from hologram.benchmark.models import declared
from hologram.benchmark.models.declared import Arrays
from hologram.benchmark.models.wide import wide_gelu, wide_softmax

Array = NDArray[np.float32]
COLUMNS = 1024  # of the matrices that softmax and layer_norm work on
HIDDEN = 1024  # columns between the two layers of mlp
HEADS, FEATURES = 8, 64  # of attention, whose size is the number of queries and keys
TENSORS = 50  # that adam steps; its size is that of one
CHECKED = 1 << 14  # elements of long results that are compared with the reference
SUFFIXES = {"K": 1 << 10, "M": 1 << 20}


def parse_size(text: str) -> int:
    """Elements from '1K', '16M' or '512'. Raises ValueError."""
    scale = SUFFIXES.get(text[-1:].upper(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def format_size(size: int) -> str:
    """'1K', '16M' or '512'."""
    for suffix, scale in sorted(SUFFIXES.items(), key=lambda item: -item[1]):
        if size % scale == 0:
            return f"{size // scale}{suffix}"
    return str(size)


@dataclass(frozen=True)
class Work:
    """An operation or a function: inputs for a size, in the order of its arguments, the same computed by NumPy in
    float64, and how far float32 may be off.

    The error is relative to the value, or to `scale` where that is more. `head` takes the part of the inputs that alone
    is checked, the first of the results along `axis`; None where every input goes into every result.
    """

    inputs: Callable[[int, np.random.Generator], dict[str, Array]]
    reference: Callable[[Arrays], NDArray[np.float64]]
    tolerance: float = 1e-5
    scale: Callable[[Arrays], float] = lambda arrays: 1.0
    head: Callable[[Arrays], Arrays] | None = lambda arrays: {k: v[:CHECKED] for k, v in arrays.items()}
    axis: int = 0
    label: Callable[[int], str] = format_size  # of a size, as people write it


@dataclass(frozen=True)
class Adam:
    """The constants of an Adam step (Kingma and Ba 2015, algorithm 1)."""

    rate: float = 1e-3
    first: float = 0.9  # decay of the gradients' mean
    second: float = 0.999  # decay of the squares' mean
    epsilon: float = 1e-8
    step: int = 10

    @property
    def first_correction(self) -> float:
        return 1 - self.first**self.step

    @property
    def second_correction(self) -> float:
        return 1 - self.second**self.step

    @property
    def size(self) -> float:
        """The rate, corrected: what the quotient is multiplied by."""
        return self.rate / self.first_correction


ADAM = Adam()


def _normal(*shapes: str) -> Callable[[int, np.random.Generator], dict[str, Array]]:
    def make(size: int, rng: np.random.Generator) -> dict[str, Array]:
        return {name: rng.standard_normal(size, dtype=np.float32) for name in shapes}

    return make


def _rows(size: int, rng: np.random.Generator) -> dict[str, Array]:
    if size % COLUMNS:
        raise ValueError(f"rows have {COLUMNS} elements, got {size}")
    return {"x": rng.standard_normal((size // COLUMNS, COLUMNS), dtype=np.float32)}


def _rows_with_weights(size: int, rng: np.random.Generator) -> dict[str, Array]:
    weights = {k: rng.standard_normal(COLUMNS, dtype=np.float32) for k in ("weight", "bias")}
    return {**_rows(size, rng), **weights}


def _squares(side: int, rng: np.random.Generator) -> dict[str, Array]:
    return {name: rng.standard_normal((side, side), dtype=np.float32) for name in ("a", "b")}


def _two_layers(side: int, rng: np.random.Generator) -> dict[str, Array]:
    """A batch as long as its rows, and weights that keep the size of what passes them."""

    def layer(rows: int, columns: int) -> Array:
        return rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(math.sqrt(rows))

    b1, b2 = (rng.standard_normal(size, dtype=np.float32) for size in (HIDDEN, side))
    x = rng.standard_normal((side, side), dtype=np.float32)
    return {"x": x, "w1": layer(side, HIDDEN), "b1": b1, "w2": layer(HIDDEN, side), "b2": b2}


def _heads(length: int, rng: np.random.Generator) -> dict[str, Array]:
    shape = (HEADS, length, FEATURES)
    return {name: rng.standard_normal(shape, dtype=np.float32) for name in ("q", "k", "v")}


def _parameters(size: int, rng: np.random.Generator) -> dict[str, Array]:
    """Parameters, gradients and both running means, a row a tensor."""
    p, g, m, v = (rng.standard_normal((TENSORS, size), dtype=np.float32) for _ in range(4))
    return {"p": p, "g": g, "m": m * np.float32(0.1), "v": v * v}


def _wide(array: Array) -> NDArray[np.float64]:
    return array.astype(np.float64)


def _gelu(arrays: Arrays) -> NDArray[np.float64]:
    return wide_gelu(_wide(arrays["x"]))


def _softmax(arrays: Arrays) -> NDArray[np.float64]:
    return wide_softmax(_wide(arrays["x"]))


def _layer_norm(arrays: Arrays) -> NDArray[np.float64]:
    x = _wide(arrays["x"])
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return scaled * arrays["weight"] + arrays["bias"]


def _chain(arrays: Arrays) -> NDArray[np.float64]:
    a, b = _wide(arrays["a"]), _wide(arrays["b"])
    return np.tanh(b) / (1 + np.exp(-(a * b + a))) + np.exp(a)


def _mlp(arrays: Arrays) -> NDArray[np.float64]:
    hidden = wide_gelu(_wide(arrays["x"]) @ _wide(arrays["w1"]) + arrays["b1"])
    return hidden @ _wide(arrays["w2"]) + arrays["b2"]


def _attention(arrays: Arrays) -> NDArray[np.float64]:
    q, k, v = (_wide(arrays[name]) for name in ("q", "k", "v"))
    return wide_softmax(q @ k.swapaxes(-2, -1) / math.sqrt(FEATURES)) @ v


def _adam(arrays: Arrays) -> NDArray[np.float64]:
    p, g, m, v = (_wide(arrays[name]) for name in ("p", "g", "m", "v"))
    m = ADAM.first * m + (1 - ADAM.first) * g
    v = ADAM.second * v + (1 - ADAM.second) * g * g
    p = p - ADAM.size * m / (np.sqrt(v / ADAM.second_correction) + ADAM.epsilon)
    return np.stack([p, m, v])


def _first_rows(arrays: Arrays) -> Arrays:
    """Of matrices; their weights whole."""
    return {k: v[: CHECKED // COLUMNS] if v.ndim == 2 else v for k, v in arrays.items()}


WORKS: dict[str, Work] = {
    "add": Work(_normal("x", "y"), lambda a: _wide(a["x"]) + a["y"]),
    "mul": Work(_normal("x", "y"), lambda a: _wide(a["x"]) * a["y"]),
    "relu": Work(_normal("x"), lambda a: np.maximum(_wide(a["x"]), 0)),
    "exp": Work(_normal("x"), lambda a: np.exp(_wide(a["x"]))),
    "tanh": Work(_normal("x"), lambda a: np.tanh(_wide(a["x"]))),
    "gelu": Work(_normal("x"), _gelu),
    "sum": Work(
        _normal("x"),
        lambda a: np.asarray(_wide(a["x"]).sum()),
        tolerance=1e-3,
        # Every order of adding is right: the error allowed is that of one serial sum over random signs.
        scale=lambda a: math.sqrt(a["x"].size),
        head=None,
    ),
    "softmax": Work(_rows, _softmax, head=_first_rows),
    "layer_norm": Work(_rows_with_weights, _layer_norm, tolerance=1e-4, head=_first_rows),
    "matmul": Work(
        _squares,
        lambda a: _wide(a["a"]) @ _wide(a["b"]),
        tolerance=1e-3,
        scale=lambda a: math.sqrt(len(a["a"])),
        head=None,
        label=str,
    ),
    "chain": Work(_normal("a", "b"), _chain),
    "mlp": Work(_two_layers, _mlp, tolerance=1e-4, head=None, label=lambda side: f"{side}x{HIDDEN}x{side}"),
    "attention": Work(
        _heads, _attention, tolerance=1e-4, head=None, label=lambda length: f"{HEADS}x{length}x{FEATURES}"
    ),
    "adam": Work(
        _parameters,
        _adam,
        head=lambda arrays: {k: v[:, : CHECKED // TENSORS] for k, v in arrays.items()},
        axis=-1,
        label=lambda size: f"{TENSORS}x{format_size(size)}",
    ),
    "training_step": Work(
        training.inputs,
        lambda a: training.flat(training.step(np, *map(_wide, a.values()))),
        tolerance=1e-4,
        head=None,
        label=lambda batch: f"{batch}x{training.INPUTS}-{training.HIDDEN_UNITS}-{training.CLASSES}",
    ),
}


def _of_model(
    model: declared.Model, reference: Callable[[declared.Model, Arrays], NDArray[np.float64]]
) -> Work:
    return Work(
        model.inputs,
        functools.partial(reference, model),
        tolerance=1e-3,
        head=None,
        label=lambda size: f"{size}x{model.label}",
    )


for _name, _model in declared.MODELS.items():
    WORKS[f"{_name}_forward"] = _of_model(_model, model_references.scores)
    WORKS[f"{_name}_step"] = _of_model(_model, model_references.losses)


def make_inputs(name: str, size: int) -> dict[str, Array]:
    """The same random inputs in every process."""
    return WORKS[name].inputs(size, np.random.default_rng(size))


def check(name: str, inputs: Arrays, result: NDArray[np.float32]) -> str | None:
    """What is wrong with a result, None if nothing is. Of long results the first elements are looked at."""
    work = WORKS[name]
    wanted = work.reference(work.head(inputs) if work.head else inputs)
    if work.head and result.ndim == wanted.ndim:
        result = np.moveaxis(np.moveaxis(result, work.axis, 0)[: wanted.shape[work.axis]], 0, work.axis)
    if np.shape(result) != np.shape(wanted):
        return f"its shape is {np.shape(result)}, not {np.shape(wanted)}"
    error = np.abs(np.asarray(result, np.float64) - wanted) / np.maximum(np.abs(wanted), work.scale(inputs))
    worst = float(error.max())
    return None if worst <= work.tolerance else f"it is off by {worst:.1e}, more than {work.tolerance:.0e}"
