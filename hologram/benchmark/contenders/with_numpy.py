"""NumPy: into outputs that are there, its gradients written by hand where it is a peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from hologram.benchmark.contenders.arrays import ArrayLibrary
from hologram.benchmark.functions import flat, training_step
from hologram.benchmark.jobs import Call, Job
from hologram.benchmark.models import numpy_gradients
from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, split
from hologram.benchmark.works import Array, Work, model_job

DENSE = ("small_mlp", "mlp")  # models whose gradients are written here


def _softmax(out: Array, x: Array) -> None:
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def _layer_norm(out: Array, x: Array, weight: Array, bias: Array) -> None:
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=out)
    variance = np.einsum("ij,ij->i", out, out)[:, None] / np.float32(x.shape[-1])
    np.multiply(out, 1 / np.sqrt(variance + np.float32(1e-5)), out=out)
    np.multiply(out, weight, out=out)
    np.add(out, bias, out=out)


def _sort(out: Array, x: Array) -> None:
    np.copyto(out, x)
    out.sort(axis=-1)


def _chain(out: Array, a: Array, b: Array) -> Iterator[None]:
    gate, grown = np.empty_like(out), np.empty_like(out)
    while True:
        np.multiply(a, b, out=gate)
        np.add(gate, a, out=gate)
        np.negative(gate, out=gate)
        np.exp(gate, out=gate)
        np.add(gate, np.float32(1), out=gate)
        np.tanh(b, out=out)
        np.divide(out, gate, out=out)
        np.exp(a, out=grown)
        np.add(out, grown, out=out)
        yield


# Of the output and the inputs; there is no erf, and so no gelu.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda out, x, y: np.add(x, y, out=out),
    "multiply": lambda out, x, y: np.multiply(x, y, out=out),
    "relu": lambda out, x: np.maximum(x, np.float32(0), out=out),
    "exp": lambda out, x: np.exp(x, out=out),
    "tanh": lambda out, x: np.tanh(x, out=out),
    "sum": lambda out, x: np.sum(x, out=out),
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "cumsum": lambda out, x: np.cumsum(x, axis=1, out=out),
    "sort": _sort,
    "matmul": lambda out, a, b: np.matmul(a, b, out=out),
}


class NumPy(ArrayLibrary):
    """`all_models`: those too whose gradients are not written by hand."""

    def __init__(self, all_models: bool = False) -> None:
        super().__init__(numpy_gradients.WORDS, lambda array: array)
        self.all_models = all_models

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        dense = work.name.rpartition("_")[0] in DENSE
        if work.model is not None and (dense or self.all_models):
            return model_job(work, inputs, self._forward, by_hand if dense else numpy_gradients.trained)
        if work.name == "training_step":
            call = partial(training_step, np, *inputs.values())
            return Job(call, lambda: flat(call()))
        if work.model is not None or work.name not in (*FUNCTIONS, "chain"):
            return None
        out = np.empty(work.result(inputs), np.float32)
        if work.name == "chain":
            return Job(partial(next, _chain(out, *inputs.values())), out.copy)
        return Job(partial(FUNCTIONS[work.name], out, *inputs.values()), out.copy)


def by_hand(model: Model, inputs: Arrays) -> Call:
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


def open_contender(name: str, where: str) -> NumPy:
    return NumPy()
