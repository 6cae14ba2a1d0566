"""Those who compute: a module each, hologram among them. Each is loaded in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark.models.declared import Arrays, Model, first_losses, named

MODULES = {
    "hologram": "ours",
    "hologram jit": "ours_jit",
    "numpy": "with_numpy",
    "torch": "with_torch",
    "torch fused": "with_torch_fused",
    "inductor": "with_inductor",
    "jax": "with_jax",
    "numexpr": "with_numexpr",
    "tinygrad": "with_tinygrad",
    "taichi": "with_taichi",
}


@dataclass(frozen=True)
class Job:
    """Work ready to be timed: `call` computes and waits until it is done, `result` gives what it computed, and
    `dispatches`, where it can be told, the number of kernels that a call launches.
    """

    call: Callable[[], object]
    result: Callable[[], NDArray]
    dispatches: Callable[[], int] | None = None


class Contender(Protocol):
    """A library on a device. Its module's `open_contender(backend)` makes it; ImportError means it is not installed."""

    device: str

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        """The job, compiled and with its output allocated, or None where the library has no such operation."""
        ...


Part = Callable[[Model, Arrays], Callable[[], Any]]


def model_job(
    work: str, inputs: Arrays, forward: Part, trained: Part, to_numpy: Callable[[Any], NDArray] = np.array
) -> Job | None:
    """A model's forward pass, or its steps, whose result is the first losses; None where the work is none of these."""
    found = named(work)
    if found is None:
        return None
    model, is_trained = found
    if not is_trained:
        call = forward(model, inputs)
        return Job(call, lambda: to_numpy(call()))
    step = trained(model, inputs)
    losses = first_losses(step)
    return Job(step, lambda: losses)


def open_contender(name: str, backend: str) -> Contender:
    """Loads a library; raises ImportError where it is not installed."""
    return importlib.import_module(f"bench.contenders.{MODULES[name]}").open_contender(backend)
