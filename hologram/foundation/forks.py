"""Processes that fork: a child has its parent's devices, but nothing that serves them, and is told so."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from hologram.foundation.errors import BackendUnavailable

REASON = "this process was forked from one that had started a graphics driver, which does not survive it"
REMEDY = (
    "start processes with multiprocessing's 'spawn' or 'forkserver', or fork before any Executor is opened"
)


class Opened(Protocol):
    """What a forked child must not touch."""

    def abandon(self) -> None:
        """Called in the child. Nothing may be waited for: the parent's locks may be held there for ever."""
        ...


def unavailable(backend: str) -> BackendUnavailable:
    """What to raise in the child."""
    return BackendUnavailable(f"{backend}: {REASON}: {REMEDY}")


def start(backend: str) -> None:
    """Notes that a backend's driver runs in this process; raises BackendUnavailable where it came with a fork."""
    if started_elsewhere(backend):
        raise unavailable(backend)
    _started.setdefault(backend, os.getpid())


def started_elsewhere(backend: str) -> bool:
    """Whether a backend's driver was started in the process that this one was forked from."""
    return _started.get(backend, os.getpid()) != os.getpid()


def watch(opened: Opened) -> None:
    """Has something abandoned in children of this process, as long as it exists."""
    _opened.add(opened)


_started: dict[str, int] = {}  # the process, by backend
_opened: weakref.WeakSet[Opened] = weakref.WeakSet()


def _abandon() -> None:
    for opened in tuple(_opened):
        opened.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon)
