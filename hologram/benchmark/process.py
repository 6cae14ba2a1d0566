"""A process that answers over a pipe: one computes at a time, and none meets another's threads.

What it runs is a function of the pipe, which sends an Answer for every request until it is sent None.
"""

from __future__ import annotations

import functools
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from hologram.foundation.frozen import frozen

# Threads that spin for a while after their work would disturb whoever is next: OpenBLAS's do for 2^28 cycles, which are
# 110 ms at 2.45 GHz, and whoever comes after NumPy has one core of two as long.
SETTLE_SECONDS = 0.15


@frozen
class Answer:
    """What came of a request: `absent` and `failed` say why there is no value."""

    value: Any = None
    absent: str = ""
    failed: str = ""


EXTRAS = {"torch": "'hologram[torch]'"}  # what brings a package, where that is not the package itself


def not_installed(package: str) -> str:
    """What is missing, and what to do."""
    return f"{package} is not installed: pip install {EXTRAS.get(package, package)}"


def _run(end: Connection, target: Callable[..., None], *arguments: Any) -> None:
    """Runs in the process. Ctrl-C reaches it as it does its parent, who tells of it: this one ends without a word."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    target(end, *arguments)


class Process:
    """The parent's end of a process that `target(pipe, *arguments)` runs; its first answer says whether it is ready."""

    def __init__(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=_run, args=(end, target, *arguments), daemon=True)
        self.process.start()
        end.close()

    @functools.cached_property
    def opened(self) -> Answer:
        return self._answer()

    def close(self) -> None:
        if self.process.is_alive():
            try:
                self.pipe.send(None)
            except OSError:  # it ended in the meantime, which is what was wanted
                pass
            self.process.join(5)
        if self.process.is_alive():
            self.process.kill()

    def ask(self, request: Any) -> Answer:
        if self.opened.value is None:  # whose answer comes first
            return self.opened
        try:
            self.pipe.send(request)
        except OSError:
            return Answer(failed="its process ended")
        return self._answer()

    def _answer(self) -> Answer:
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            return Answer(failed=f"its process ended with status {self.process.exitcode}")
