"""What is computed: each work's inputs and its result in float64, whoever computes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Arrays = Mapping[str, Array]
COLUMNS = 1024  # of the matrices that softmax and layer_norm work on
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
    """One operation: inputs for a size, the same computed by NumPy in float64, and how far float32 may be off."""

    inputs: Callable[[int, np.random.Generator], dict[str, Array]]
    reference: Callable[[Arrays], NDArray[np.float64]]
    tolerance: float = 1e-5
    flops: Callable[[int], float] | None = None
    arrays_moved: float = 2.0  # arrays of the size read or written, for the bandwidth


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


def _wide(array: Array) -> NDArray[np.float64]:
    return array.astype(np.float64)


def _gelu(arrays: Arrays) -> NDArray[np.float64]:
    x = _wide(arrays["x"])
    return np.asarray(x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0))))


def _softmax(arrays: Arrays) -> NDArray[np.float64]:
    x = _wide(arrays["x"])
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layer_norm(arrays: Arrays) -> NDArray[np.float64]:
    x = _wide(arrays["x"])
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return scaled * arrays["weight"] + arrays["bias"]


WORKS: dict[str, Work] = {
    "add": Work(_normal("x", "y"), lambda a: _wide(a["x"]) + a["y"], arrays_moved=3),
    "mul": Work(_normal("x", "y"), lambda a: _wide(a["x"]) * a["y"], arrays_moved=3),
    "relu": Work(_normal("x"), lambda a: np.maximum(_wide(a["x"]), 0)),
    "exp": Work(_normal("x"), lambda a: np.exp(_wide(a["x"]))),
    "tanh": Work(_normal("x"), lambda a: np.tanh(_wide(a["x"]))),
    "gelu": Work(_normal("x"), _gelu),
    # Every order of adding is right: the error allowed is that of one serial sum over random signs.
    "sum": Work(_normal("x"), lambda a: np.asarray(_wide(a["x"]).sum()), tolerance=1e-3, arrays_moved=1),
    "softmax": Work(_rows, _softmax),
    "layer_norm": Work(_rows_with_weights, _layer_norm, tolerance=1e-4),
    "matmul": Work(
        _squares,
        lambda a: _wide(a["a"]) @ _wide(a["b"]),
        tolerance=1e-3,
        flops=lambda side: 2.0 * side**3,
        arrays_moved=3,
    ),
}


def make_inputs(name: str, size: int) -> dict[str, Array]:
    """The same random inputs in every process."""
    return WORKS[name].inputs(size, np.random.default_rng(size))


def check(name: str, inputs: Arrays, result: NDArray[np.float32]) -> str | None:
    """What is wrong with a result, None if nothing is. Of long results the first elements are looked at."""
    work = WORKS[name]
    if name in ("sum", "matmul"):
        wanted = work.reference(inputs)
        scale = math.sqrt(inputs["x" if name == "sum" else "a"].shape[-1])
    else:
        cut = 1 << 14
        rows = {"softmax", "layer_norm"} & {name}
        head = {
            k: (v[: cut // COLUMNS] if v.ndim == 2 else v if rows else v[:cut]) for k, v in inputs.items()
        }
        wanted, scale = work.reference(head), 1.0
        result = result[: len(wanted)]
    if np.shape(result) != np.shape(wanted):
        return f"its shape is {np.shape(result)}, not {np.shape(wanted)}"
    error = np.abs(np.asarray(result, np.float64) - wanted) / np.maximum(np.abs(wanted), scale)
    worst = float(error.max())
    return None if worst <= work.tolerance else f"it is off by {worst:.1e}, more than {work.tolerance:.0e}"
