"""Models: forward passes and training steps, beside the peers' compilers, and NumPy by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.beside import grown
from hologram.benchmark.contenders.ours import WORDS, functions
from hologram.benchmark.models.declared import MODELS, split
from hologram.benchmark.suites import Goal, Result, Row, Suite, own
from hologram.benchmark.timing import Pace
from hologram.benchmark.works import WORKS

COMPILERS = ("jax", "inductor", "torch")
ON_WEBGPU = {"mlp_step": Goal(ratio=0.4)}


def rows() -> Iterator[Row]:
    """Small and middling, forward and trained."""
    yield Row("small_mlp_forward", 100)
    yield Row("small_mlp_step", 100, Goal(ratio=1.0), against=("numpy",))
    yield Row("mlp_forward", 256)
    yield Row("mlp_step", 256, Goal(ratio=1.0), against=COMPILERS)
    for name in ("small_cnn", "cnn"):
        yield Row(f"{name}_forward", 64)
        yield Row(f"{name}_step", 64)
    yield Row("transformer_forward", 2)
    yield Row("transformer_step", 8, Goal(ratio=1.0), against=("torch",))


def on_webgpu() -> Iterator[Row]:
    """Those of the CPU, beside tinygrad on the same adapter."""
    for row in rows():
        yield Row(row.work, row.size, ON_WEBGPU.get(row.work, Goal()))


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """How far a forward pass is from its products, and the memory that steps take."""
    yield beside_products("transformer", 2, pace)
    for work, size, goal in (("mlp_step", 256, Goal()), ("transformer_step", 8, Goal(ratio=1.1))):
        yield grown(work, size, ("hologram jit", "torch"), backend, goal)


def beside_products(name: str, size: int, pace: Pace) -> Result:
    """The forward pass, and products of the same shapes that do not wait for one another."""
    work, shapes, model = WORKS[f"{name}_forward"], [], MODELS[name]
    inputs, rng = work.inputs(size), np.random.default_rng(size)

    def noted(a: Any, b: Any) -> Any:
        shapes.append((tuple(a.shape), tuple(b.shape)))
        return a @ b

    words = replace(
        WORDS,
        linear=lambda x, weight, bias: noted(x, weight),
        attention=lambda q, k, v: noted(noted(q, k.mT), v),
    )
    with hg.Executor("cpu") as executor:
        x, _, parameters = split(inputs)
        model.forward(words, {n: executor.tensor(a) for n, a in parameters.items()}, executor.tensor(x))
        operands = [
            tuple(executor.tensor(rng.standard_normal(shape, dtype=np.float32)) for shape in pair)
            for pair in shapes
        ]
        multiply = hg.jit(lambda operands: [a @ b for a, b in operands])
        jobs = {"hologram jit": work.job(functions(executor), size), "products": lambda: multiply(operands)}
        return own(f"{name}_forward, its products", work.label(size), jobs, pace)


SUITES = (
    Suite("models", "cpu", "hologram jit", (*COMPILERS, "numpy"), rows, own_rows),
    Suite("models-webgpu", "webgpu", "hologram jit", ("tinygrad",), on_webgpu),
)
