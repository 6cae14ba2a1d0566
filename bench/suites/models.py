"""Models on the CPU: forward passes and training steps, beside the peers' compilers, and NumPy by hand."""

from __future__ import annotations

from collections.abc import Iterator

from bench import memory, products
from bench.suites import Goal, Result, Row, Suite
from hologram.benchmark.timing import Pace

COMPILERS = ("jax", "inductor", "torch")


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


def own_rows(pace: Pace) -> Iterator[Result]:
    """How far a forward pass is from its products, and the memory that steps take."""
    yield products.beside("models", "transformer", 2, pace)
    for work, size, goal in (("mlp_step", 256, Goal()), ("transformer_step", 8, Goal(ratio=1.1))):
        yield memory.peak("models", work, size, goal)


SUITE = Suite("models", "cpu", "hologram jit", (*COMPILERS, "numpy"), rows, own_rows)
