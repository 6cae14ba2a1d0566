"""hologram: functions of Tensors under hg.jit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from bench import training
from bench.contenders import Job, model_job
from bench.work import ADAM, Arrays
from hologram.benchmark.models import ours
from hologram.benchmark.models.declared import Model

Tensors = list[hg.Tensor]


def _chain(a: Any, b: Any) -> Any:
    return hg.sigmoid(a * b + a) * hg.tanh(b) + hg.exp(a)


def _mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return hg.gelu(x @ w1 + b1) @ w2 + b2


def adam(p: Tensors, g: Tensors, m: Tensors, v: Tensors) -> tuple[Tensors, Tensors, Tensors]:
    m = [ADAM.first * a + (1 - ADAM.first) * b for a, b in zip(m, g, strict=True)]
    v = [ADAM.second * a + (1 - ADAM.second) * (b * b) for a, b in zip(v, g, strict=True)]
    scales = [hg.sqrt(b * (1 / ADAM.second_correction)) + ADAM.epsilon for b in v]
    p = [a - ADAM.size * b / c for a, b, c in zip(p, m, scales, strict=True)]
    return p, m, v


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "chain": _chain,
    "softmax": lambda x: hg.softmax(x, dim=-1),
    "layer_norm": lambda x, weight, bias: hg.layer_norm(x, weight, bias),
    "mlp": _mlp,
    "attention": lambda q, k, v: hg.scaled_dot_product_attention(q, k, v),
    "matmul": lambda a, b: a @ b,
    "training_step": functools.partial(training.step, hg),
}


def flat(result: Any) -> np.ndarray:
    """One result, or several in a row."""
    return training.flat(result) if isinstance(result, tuple) else np.array(result.to_numpy())


class OursJit:
    def __init__(self, backend: str) -> None:
        self.executor = hg.Executor(backend)
        self.device = self.executor.device.info.name

    def prepare(self, work: str, inputs: Arrays) -> Job:
        if work == "adam":
            return self._adam(inputs)
        job = model_job(work, inputs, self._of(ours.forward), self._of(ours.trained))
        if job is not None:
            return job
        compiled: Any = hg.jit(FUNCTIONS[work])
        arguments = [self.executor.tensor(array) for array in inputs.values()]
        return Job(
            self._waited_for(functools.partial(compiled, *arguments)),
            lambda: flat(compiled(*arguments)),
            lambda: compiled.dispatches(*arguments),
        )

    def _of(self, part: Callable[..., Callable[[], Any]]) -> Callable[[Model, Arrays], Callable[[], Any]]:
        return lambda model, inputs: self._waited_for(part(self.executor, model, inputs))

    def _adam(self, inputs: Arrays) -> Job:
        """Parameters and means are replaced by their successors, whose memory they give."""
        ex = self.executor
        compiled = hg.jit(adam, donate=(0, 2, 3))
        g = [ex.tensor(row) for row in inputs["g"]]

        def fresh() -> tuple[Tensors, Tensors, Tensors]:
            p, m, v = ([ex.tensor(row) for row in inputs[name]] for name in ("p", "m", "v"))
            return p, m, v

        state = fresh()

        def step() -> None:
            nonlocal state
            p, m, v = state
            state = compiled(p, g, m, v)

        def result() -> np.ndarray:
            nonlocal state
            state = fresh()
            step()
            return np.stack([[tensor.to_numpy() for tensor in group] for group in state])

        def dispatches() -> int:
            p, m, v = state
            return compiled.dispatches(p, g, m, v)

        return Job(self._waited_for(step), result, dispatches)

    def _waited_for(self, function: Callable[[], Any]) -> Callable[[], Any]:
        if self.executor.backend == "cpu":  # a call is done when it returns
            return function
        synchronize = self.executor.synchronize

        def call() -> Any:
            result = function()
            synchronize()
            return result

        return call


def open_contender(backend: str) -> OursJit:
    return OursJit(backend)
