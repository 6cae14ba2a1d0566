"""A model's forward pass beside the time of its matrix products alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import hologram as hg
from bench.suites import Result
from hologram.benchmark.models import ours
from hologram.benchmark.models.declared import MODELS
from hologram.benchmark.timing import Pace, microseconds, take_turn


def shapes_of(
    name: str, size: int, rng: np.random.Generator
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What a model multiplies: noted by words that pass their products on."""
    model = MODELS[name]
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def noted(a: Any, b: Any) -> Any:
        found.append((tuple(a.shape), tuple(b.shape)))
        return a @ b

    words = replace(
        ours.WORDS,
        linear=lambda x, weight, bias: noted(x, weight),
        attention=lambda q, k, v: noted(noted(q, k.mT), v),
    )
    x, parameters = model.batch(size, rng)[0], model.inputs(size, rng)
    with hg.Executor("cpu") as executor:
        given = {n: executor.tensor(a) for n, a in parameters.items() if n not in ("x", "y")}
        model.forward(words, given, executor.tensor(x))
    return found


def beside(suite: str, name: str, size: int, pace: Pace) -> Result:
    """The forward pass, and products of the same shapes that do not wait for one another, taking turns."""
    rng = np.random.default_rng(size)
    pairs = shapes_of(name, size, rng)
    with hg.Executor("cpu") as executor:
        operands = [
            tuple(executor.tensor(rng.standard_normal(shape, dtype=np.float32)) for shape in pair)
            for pair in pairs
        ]
        multiply = hg.jit(lambda operands: [a @ b for a, b in operands])
        forward = ours.forward(executor, MODELS[name], MODELS[name].inputs(size, rng))
        calls: dict[str, Callable[[], Any]] = {"ours": forward, "products": lambda: multiply(operands)}
        samples: dict[str, list[float]] = {n: [] for n in calls}
        for _ in range(pace.turns):
            for n, call in calls.items():
                samples[n] += take_turn(call, pace)
    times = {n: microseconds(s) for n, s in samples.items()}
    label = f"{size}x{MODELS[name].label}"
    return Result(suite, f"{name}_forward, its products", label, times.pop("ours"), times)
