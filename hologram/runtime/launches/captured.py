"""What a function launches, kept: launched again, on the same memory, with one call and next to no Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from hologram.foundation.errors import TraceError
from hologram.runtime.engine import Engine
from hologram.runtime.launches.joining import repeated
from hologram.runtime.launches.recording import Recording, Unrepeatable

R = TypeVar("R")


class Captured(Generic[R]):
    """The launches of a function, which is called once and launches nothing then.

    Each `replay` launches them in order, and leaves in `results`, the tensors that the function gave, what it computes
    of what its tensors hold by then. The memory of results and of what lies between is kept for it; that of tensors
    which are not made in the function must be held by who captures.

    Raises TraceError where the function hands elements to the host or takes some from there.
    """

    def __init__(self, executor: Engine, function: Callable[[], R]) -> None:
        recording = Recording(dry=True).begin()
        weakref.finalize(self, recording.release).atexit = False
        try:
            self.results = function()
        except Unrepeatable:
            raise TraceError(
                f"capture: {function.__name__} must leave elements on the device, it asks for them or writes some"
            ) from None
        finally:
            recording.end(keep=True)
        self._structure, self._arguments = repeated(executor.bound, recording.launched)

    @property
    def launches(self) -> int:
        """Kernels that a replay launches."""
        return len(self._structure.steps)

    def replay(self) -> None:
        """Launches all of it."""
        self._structure.launch(self._arguments)
