"""The command `hologram`: what is here, whether it works, what becomes of a function, and a demonstration."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from hologram.foundation import lazy

if TYPE_CHECKING:
    from hologram.cli import commands
else:  # half a second, within which a user may interrupt already
    commands = lazy.module("hologram.cli.commands")

INTERRUPTED = 130  # the status of what Ctrl-C ended


def main() -> None:
    """Runs the command line. Whoever interrupts it, while it loads too, sees no traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # behind nohup it is ignored
        commands.run()
        return
    try:
        sys.unraisablehook = _lost
        signal.signal(signal.SIGINT, _leave)
        run = commands.run
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, _leave)


def _leave(*_: Any) -> None:
    """Ends while Python loads modules or ends itself: an exception could be lost there, or shown with its traceback."""
    os._exit(INTERRUPTED)


def _lost(unraisable: Any) -> None:
    """An interrupt within a finaliser reaches nobody: it ends the command here."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(unraisable)
