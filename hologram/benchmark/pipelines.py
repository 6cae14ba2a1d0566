"""Whole models, inference and a training step, by everyone who computes them; checked against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hologram as hg
from hologram.benchmark import jobs
from hologram.benchmark.jobs import Job
from hologram.benchmark.models import numpy_gradients, ours, with_numpy
from hologram.benchmark.models.declared import MODELS, Arrays, Model, split
from hologram.benchmark.piece import measured
from hologram.benchmark.report.records import HOST, Key, Kind, Measurement
from hologram.foundation.frozen import frozen

TOLERANCE = 1e-3  # of scores and losses
CHECKED_STEPS = 2  # whose losses are compared


@frozen
class Pipeline:
    """A model with a batch of so many."""

    name: str
    batch: int

    @property
    def model(self) -> Model:
        return MODELS[self.name]


USUAL = (Pipeline("mlp", 256), Pipeline("cnn", 64), Pipeline("transformer", 2))
QUICK = (Pipeline("small_mlp", 100), Pipeline("small_cnn", 64), Pipeline("small_transformer", 4))

Make = Callable[[Model, Arrays], Callable[[], Any]]


@frozen
class Way:
    """One who computes models: how inference and a step are made; `wait` returns when a call's work is done."""

    who: str
    adapter: str
    forward: Make
    trained: Make
    to_numpy: Callable[[Any], NDArray[Any]] = np.asarray
    waiting: Callable[[Callable[[], Any]], Callable[[], Any]] = lambda call: call

    def measure(self, pipeline: Pipeline, seconds: float) -> Iterator[Measurement]:
        """Inference and training of a model."""
        for kind in (Kind.INFERENCE, Kind.TRAINING):
            yield self.measure_one(kind, pipeline, seconds / 2)

    def measure_one(self, kind: Kind, pipeline: Pipeline, seconds: float) -> Measurement:
        """One of the two."""
        blank = Measurement(self.key(kind, pipeline))
        return measured(blank, self.job(kind, pipeline), partial(problem, kind, pipeline), seconds)

    def key(self, kind: Kind, pipeline: Pipeline) -> Key:
        return Key(kind, pipeline.name, str(pipeline.batch), self.who, self.adapter)

    @contextmanager
    def job(self, kind: Kind, pipeline: Pipeline) -> Iterator[Job]:
        given = inputs(pipeline)
        if kind is Kind.INFERENCE:
            call = self.forward(pipeline.model, given)
            yield Job(self.waiting(call), lambda: self.to_numpy(call()))
        else:
            step = self.trained(pipeline.model, given)
            losses = np.array([float(self.to_numpy(step())) for _ in range(CHECKED_STEPS)])
            yield Job(self.waiting(step), lambda: losses)


def of_numpy() -> Way:
    return Way("NumPy", HOST, with_numpy.forward, numpy_gradients.trained)


def of_hologram(adapter: str, opened: Callable[[], hg.Executor], jit: bool) -> Way:
    """Functions under `hg.jit`, or called as they are."""
    return Way(
        "hologram jit" if jit else "hologram eager",
        adapter,
        lambda model, given: ours.forward(opened(), model, given, jit),
        lambda model, given: ours.trained(opened(), model, given, jit),
        lambda found: np.array(found.to_numpy()),
        lambda call: jobs.waiting(opened(), call),
    )


@cache
def inputs(pipeline: Pipeline) -> Arrays:
    """The same random batch and parameters for everyone."""
    return pipeline.model.inputs(pipeline.batch, np.random.default_rng(pipeline.batch))


@cache
def _scores(pipeline: Pipeline) -> NDArray[np.float64]:
    x, _, parameters = split(inputs(pipeline))
    wide = {name: a.astype(np.float64) for name, a in parameters.items()}
    return pipeline.model.forward(with_numpy.WORDS, wide, x.astype(np.float64) if x.dtype.kind == "f" else x)


@cache
def _losses(pipeline: Pipeline) -> NDArray[np.float64]:
    step = numpy_gradients.trained(pipeline.model, inputs(pipeline), np.float64)
    return np.array([float(step()) for _ in range(CHECKED_STEPS)])


def problem(kind: Kind, pipeline: Pipeline, job: Job) -> str:
    """What is wrong with scores or losses."""
    wanted = (_scores if kind is Kind.INFERENCE else _losses)(pipeline)
    found = job.result()
    if found.shape != wanted.shape:
        return f"wrong result: its shape is {found.shape}, not {wanted.shape}"
    worst = float((np.abs(found - wanted) / np.maximum(np.abs(wanted), 1)).max())
    return "" if worst <= TOLERANCE else f"wrong result: it is off by {worst:.1e}, more than {TOLERANCE:.0e}"
