"""Where calls run that have no tensor among their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Default:
    """The seam to the default executor, which the frontend opens: it stands above, and says so when it is imported.

    `executor(device)` is the default one for None, else that of a device (its name, or an executor).
    """

    executor: ClassVar[Callable[[Any], Any]]
