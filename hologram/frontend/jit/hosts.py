"""NumPy's arrays that a jitted function closes over: they count with what they hold when it is called.

Nobody is told when an array is written to. So a call compares those that somebody else still holds with what they held
at the call before, and writes what has changed to the tensors that were made of them. Functions without any pay
nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.foundation.errors import TraceError
from hologram.frontend.tensor import Tensor
from hologram.frontend.values import host_values
from hologram.runtime.dispatch import traced_by
from hologram.runtime.launches.recording import spoil

Source = tuple[np.ndarray, Any]  # an array, and the dtype that was asked for


class Hosted:
    """An array, and the tensor that a trace made of it."""

    __slots__ = ("_dtype", "_seen", "_tensor", "array")

    def __init__(self, source: Source, tensor: Tensor | None) -> None:
        self.array, self._dtype = source
        self._tensor = tensor
        self._seen = self.array.tobytes()

    def renew(self, who: str) -> None:
        """Writes what the array holds to the tensor, if that has changed."""
        assert self._tensor is not None
        if self.array.shape != self._tensor.shape:
            raise TraceError(
                f"{who}: an array that it closes over had shape {self._tensor.shape} when it was traced, now "
                f"{self.array.shape}"
            )
        held = self.array.tobytes()
        if held == self._seen:
            return
        spoil()  # the host writes
        with traced_by(None):
            self._tensor.buffer.from_numpy(host_values(self.array, self._dtype))
        self._seen = held


def held_elsewhere(hosted: Iterable[Hosted]) -> tuple[Hosted, ...]:
    """Those whose arrays somebody else can still write to."""
    alone = _references(Hosted((np.zeros(1), None), None))  # which Python's versions count differently
    return tuple(
        h for h in hosted if h.array.base is not None or (h.array.flags.writeable and _references(h) > alone)
    )


def _references(hosted: Hosted) -> int:
    return sys.getrefcount(hosted.array)
