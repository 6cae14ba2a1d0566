"""The compiler: whole functions under hg.jit, beside the peers' compilers, on the CPU and on WebGPU."""

from __future__ import annotations

from collections.abc import Iterator

from bench.suites.replay import replayed
from hologram.benchmark.suites import Goal, Result, Row, Suite
from hologram.benchmark.timing import Pace
from hologram.benchmark.works import parse_size

PER_KERNEL = {"cpu": Goal(us=2), "webgpu": Goal(us=5)}  # of a replayed graph
SLOWEST = 0.9  # no row of WebGPU may be slower, beside the better peer


def on_the_cpu() -> Iterator[Row]:
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


def on_webgpu() -> Iterator[Row]:
    """Functions with their launches; then what has a goal of its own, and does not count in the mean."""
    yield Row("chain", parse_size("1M"), Goal(ratio=SLOWEST, dispatches=1))
    yield Row("layer_norm", parse_size("1M"), Goal(ratio=SLOWEST, dispatches=1))
    yield Row("softmax", parse_size("1M"), Goal(ratio=SLOWEST, dispatches=1))
    yield Row("attention", 256, Goal(ratio=SLOWEST))
    yield Row("mlp", 256, Goal(ratio=SLOWEST, dispatches=2))
    yield Row("adam", parse_size("100K"), Goal(dispatches=10), in_mean=False)
    yield Row("matmul", 1024, Goal(ratio=1 / 3), against=("tinygrad",), in_mean=False)


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """What a kernel of a replayed graph costs."""
    yield replayed(backend, PER_KERNEL[backend], pace)


PEERS = ("jax", "inductor", "torch", "torch fused", "numexpr", "numpy")
SUITES = (
    Suite("jit", "cpu", "hologram jit", PEERS, on_the_cpu, own_rows),
    Suite("jit-webgpu", "webgpu", "hologram jit", ("tinygrad", "taichi"), on_webgpu, own_rows, 0.4),
)
