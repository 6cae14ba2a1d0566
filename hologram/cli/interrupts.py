"""Ctrl-C in a command: it ends at once, without a traceback, while modules load too."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STATUS = 130  # of what Ctrl-C ended


def leave(*_: Any) -> None:
    """Ends while Python loads modules or ends itself: an exception could be lost there, or shown with its traceback."""
    os._exit(STATUS)


@contextmanager
def leaving() -> Iterator[None]:
    """Within it Ctrl-C ends the process, where it would raise KeyboardInterrupt otherwise."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:  # behind nohup it is ignored
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def lost(unraisable: Any) -> None:
    """An interrupt within a finaliser reaches nobody: it ends the command here."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        leave()
    sys.__unraisablehook__(unraisable)
