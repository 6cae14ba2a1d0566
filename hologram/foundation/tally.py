"""Counts of what happened, by name."""

from __future__ import annotations

import threading


class Tally:
    """How often each of some things happened. Any thread may add."""

    def __init__(self, *names: str) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(names, 0)

    def add(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        """What was counted so far."""
        return dict(self._counts)
