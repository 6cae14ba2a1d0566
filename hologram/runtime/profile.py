"""Profile: what ran, how often and how long."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hologram.atlas.program import Program
from hologram.device import Launch
from hologram.opset.plan import Step

if TYPE_CHECKING:
    from hologram.executor import Executor


@dataclass
class KernelTime:
    """One kernel's launches inside a profile."""

    name: str
    launches: int = 0
    seconds: float = 0.0


class Profile:
    """Times every launch of an executor between enter and exit, by waiting for each: times include that wait.

    `kernels` holds a KernelTime for each kernel, the longest first.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._times: dict[str, KernelTime] = {}

    def __enter__(self) -> Profile:
        self.executor.synchronize()
        self.executor.bound.set_profile(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.executor.bound.set_profile(None)

    @property
    def kernels(self) -> list[KernelTime]:
        return sorted(self._times.values(), key=lambda k: -k.seconds)

    def timed(self, step: Step, launch: Launch) -> Launch:
        """The launch, measured each time it is called."""
        name = step.kernel.name if isinstance(step.kernel, Program) else step.kernel.stem
        row = self._times.setdefault(name, KernelTime(name))
        synchronize = self.executor.device.synchronize

        def run() -> None:
            start = time.perf_counter()
            launch()
            synchronize()
            row.seconds += time.perf_counter() - start
            row.launches += 1

        return run
