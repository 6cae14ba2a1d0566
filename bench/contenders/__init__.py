"""Those who compute: a module each, hologram among them. Each is loaded in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import NDArray

from bench.work import Arrays

MODULES = {
    "hologram": "ours",
    "numpy": "with_numpy",
    "torch": "with_torch",
    "jax": "with_jax",
    "numexpr": "with_numexpr",
    "tinygrad": "with_tinygrad",
    "taichi": "with_taichi",
}


@dataclass(frozen=True)
class Job:
    """Work ready to be timed: `call` computes and waits until it is done, `result` gives what it computed."""

    call: Callable[[], object]
    result: Callable[[], NDArray]


class Contender(Protocol):
    """A library on a device. Its module's `open_contender(suite)` makes it; ImportError means it is not installed."""

    device: str

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        """The job, compiled and with its output allocated, or None where the library has no such operation."""
        ...


def open_contender(name: str, suite: str) -> Contender:
    """Loads a library; raises ImportError where it is not installed."""
    return importlib.import_module(f"bench.contenders.{MODULES[name]}").open_contender(suite)
