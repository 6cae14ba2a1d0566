"""The same work twice: on the default executor, and by NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from rich import print as show
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import hologram as hg
from hologram.foundation.display import duration

Play = Callable[..., Iterable[Any]]


def race(play: Play, step: Any, *arrays: np.ndarray, plain: Any = None) -> list[np.ndarray]:
    """Plays with a step on tensors, then with a plain one on NumPy's arrays.

    Args:
        play: play(step, *arrays) yields the arrays that the picture is made of.
        step: what computes on the executor.
        *arrays: where to start.
        plain: the same for NumPy; without it, `step` is a function of hg.jit's, and the one that it was made of
            computes with what it is given, tensors or NumPy's arrays.

    Returns:
        what play yields on tensors, on the host. Both times are printed: ours without compiling.
    """
    columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        tensors = [hg.asarray(array) for array in arrays]
        ours, first = timed(play, step, tensors, progress.add_task("compiling", total=None), progress)
        ours, again = timed(play, step, tensors, progress.add_task("hologram", total=len(ours)), progress)
        plain = plain or step.__wrapped__
        _, theirs = timed(play, plain, arrays, progress.add_task("NumPy", total=len(ours)), progress)
    ratio, how = (theirs / again, "fast") if again <= theirs else (again / theirs, "slow")
    show(
        f"NumPy: {duration(theirs)}, here: {duration(again)} ({duration(first)} the first time), "
        f"[bold]{ratio:.1f} times[/] as {how}"
    )
    return ours


def timed(
    play: Play, step: Any, arrays: Iterable[Any], bar: Any, progress: Progress
) -> tuple[list[np.ndarray], float]:
    """What a play yields, on the host, and the seconds it took."""
    start = time.perf_counter()
    shown = []
    for array in play(step, *arrays):
        shown.append(np.asarray(array))
        progress.advance(bar)
    return shown, time.perf_counter() - start
