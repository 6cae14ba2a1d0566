"""The command `hologram`: what is here, whether it works, what becomes of a function, and a demonstration."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from hologram.cli.interrupts import STATUS, leave, leaving, lost
from hologram.foundation import lazy

if TYPE_CHECKING:
    from hologram.cli import commands
else:  # a part of a second, within which a user may interrupt already
    commands = lazy.module("hologram.cli.commands")


def main() -> None:
    """Runs the command line. Whoever interrupts it, while it loads too, sees no traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # behind nohup it is ignored
        commands.run()
        return
    try:
        sys.unraisablehook = lost
        with leaving():
            run = commands.run
        run()
    except KeyboardInterrupt:
        sys.exit(STATUS)
    finally:
        signal.signal(signal.SIGINT, leave)
