"""The measured operations in NumPy, each in its best form: into an output that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def add(out: Array, x: Array, y: Array) -> None:
    np.add(x, y, out=out)


def multiply(out: Array, x: Array, y: Array) -> None:
    np.multiply(x, y, out=out)


def relu(out: Array, x: Array) -> None:
    np.maximum(x, np.float32(0), out=out)


def exp(out: Array, x: Array) -> None:
    np.exp(x, out=out)


def tanh(out: Array, x: Array) -> None:
    np.tanh(x, out=out)


def total(out: Any, x: Array) -> None:
    np.sum(x, out=out)


def softmax(out: Array, x: Array) -> None:
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def layer_norm(out: Array, x: Array, weight: Array, bias: Array) -> None:
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=out)
    variance = np.einsum("ij,ij->i", out, out)[:, None] / np.float32(x.shape[-1])
    np.multiply(out, 1 / np.sqrt(variance + np.float32(1e-5)), out=out)
    np.multiply(out, weight, out=out)
    np.add(out, bias, out=out)


def running_sum(out: Array, x: Array) -> None:
    np.cumsum(x, axis=1, out=out)


def sort(out: Array, x: Array) -> None:
    np.copyto(out, x)
    out.sort(axis=-1)


def matmul(out: Array, a: Array, b: Array) -> None:
    np.matmul(a, b, out=out)
