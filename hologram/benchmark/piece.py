"""A piece of the matrix: what is measured without a break, in its share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from hologram.benchmark.jobs import Job
from hologram.benchmark.report.records import Measurement
from hologram.benchmark.timing import NoTime, turn_medians
from hologram.foundation.errors import HologramError
from hologram.foundation.frozen import frozen

PATIENCE = 4  # times its share of the time that a call may take


@frozen
class Piece:
    """`run` measures within about so many seconds.

    `share` is how much of the time it gets beside the others, over the `least_seconds` that it gets however late it is.
    """

    title: str
    share: float
    run: Callable[[float], Iterator[Measurement]]
    least_seconds: float = 0.05


def measured(blank: Measurement, made: Callable[[], Job], seconds: float) -> Measurement:
    """Prepares, checks and times; a measurement without times says why there are none."""
    begun = time.perf_counter()
    try:
        job = made()
        job.check()
        left = max(seconds - (time.perf_counter() - begun), seconds / 4)
        return replace(blank, turns=turn_medians(job.call, left))
    except NoTime as why:
        return replace(blank, why=str(why))
    except HologramError as error:
        return replace(blank, why=f"{type(error).__name__}: {str(error).splitlines()[0]}")
