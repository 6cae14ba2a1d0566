"""Arguments that only the device can tell to be malformed, in functions that are compiled, where nobody waits for it.

A kernel that is traced leaves a flag, and what to raise where it is set; a graph returns the flags with its results. On
a device whose memory the host sees they are read at once. Elsewhere they are kept, and read when the host next waits
for the device anyway, to read elements or to synchronise.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.tensor import Tensor
from hologram.runtime.memory.reading import read_together

MAX_KEPT = 512  # sets of flags of a device that nobody has read


@frozen
class Complaint:
    """What is raised where a flag is set."""

    kind: type[Exception]
    text: str


@dataclass
class Flags:
    """What kernels left while a function was traced."""

    set_where: list[Tensor] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)

    def add(self, flag: Tensor, complaint: Complaint) -> None:
        """One flag stands for all places that complain in the same words."""
        if complaint in self.complaints:
            place = self.complaints.index(complaint)
            self.set_where[place] = hg.logical_or(self.set_where[place], flag)
        else:
            self.set_where.append(flag)
            self.complaints.append(complaint)

    @property
    def together(self) -> list[Tensor]:
        """All flags as one tensor; none where there are none."""
        return [hg.stack(self.set_where)] if self.set_where else []


class _Local(threading.local):
    flags: Flags | None = None


_local = _Local()


@contextmanager
def flagged() -> Iterator[Flags]:
    """Collects the flags of what this thread traces."""
    before, _local.flags = _local.flags, Flags()
    try:
        yield _local.flags
    finally:
        _local.flags = before


def complain(flag: Tensor, complaint: Complaint) -> None:
    """Leaves a flag while a function is traced; without `flagged`, which is where hg.jit traces alone, nobody asks."""
    if _local.flags is not None:
        _local.flags.add(flag, complaint)


@frozen
class Left:
    """Flags that a call returned, all that their buffer has."""

    flags: Tensor
    complaints: Sequence[Complaint]

    def check(self, flags: np.ndarray) -> None:
        """Raises the first complaint whose flag was found set."""
        for wrong, complaint in zip(flags.reshape(-1), self.complaints, strict=True):
            if wrong:
                raise complaint.kind(complaint.text)


class Unread:
    """Flags that calls returned and nobody has read, by executor."""

    def __init__(self) -> None:
        self._left: dict[Any, list[Left]] = {}

    def leave(self, flags: Tensor, complaints: Sequence[Complaint]) -> None:
        """Reads flags now where that costs no waiting, else later."""
        executor = flags.executor
        left = Left(flags if flags.size == flags.buffer.size else flags.clone(), complaints)
        if executor.limits.host_resident:
            left.check(flags.to_numpy())
            return
        kept = self._left.setdefault(executor, [])
        kept.append(left)
        if len(kept) > MAX_KEPT:
            self.read(executor)

    def read(self, executor: Executor) -> None:
        """Raises what is wrong with a device's calls so far, for which it is waited for."""
        kept = self._left.pop(executor, None)
        if kept:
            for left, flags in zip(kept, read_together([left.flags.buffer for left in kept]), strict=True):
                left.check(flags)


unread = Unread()
