"""The compiler on the CPU: whole functions under hg.jit, beside the peers' compilers."""

from __future__ import annotations

from collections.abc import Iterator

from bench.replay import replay
from bench.suites import Goal, Result, Row, Suite
from bench.work import parse_size
from hologram.benchmark.timing import Pace

PER_KERNEL = Goal(us=2)  # of a replayed graph


def rows() -> Iterator[Row]:
    """A chain at three sizes, functions with reductions and matrices, and an optimiser."""
    yield Row("chain", parse_size("1K"), Goal(us=4))
    for size in ("1M", "16M"):
        yield Row("chain", parse_size(size), Goal(ratio=0.4))
    yield Row("layer_norm", parse_size("1M"), Goal(ratio=0.8))
    yield Row("softmax", parse_size("1M"), Goal(ratio=0.8))
    yield Row("mlp", 256, Goal(ratio=0.8))
    yield Row("training_step", 100, Goal(ratio=1.0), against=("numpy", "torch"))
    # The others are shown: what the goal speaks of is how one writes it without a kernel of one's own.
    yield Row("adam", parse_size("100K"), Goal(ratio=0.5), against=("torch",))


def own_rows(pace: Pace) -> Iterator[Result]:
    """What a kernel of a replayed graph costs."""
    yield replay("jit", "cpu", PER_KERNEL, pace)


SUITE = Suite(
    "jit",
    "cpu",
    "hologram jit",
    ("jax", "inductor", "torch", "torch fused", "numexpr", "numpy"),
    rows,
    own_rows,
)
