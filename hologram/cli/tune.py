"""`hologram bench --tune`: measures the tiles of the tuned kernels on a device, and keeps the fastest."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hologram.cli.display import errors, output, print_json
from hologram.foundation.display import duration, table
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.machine.choices import Problem
from hologram.runtime.selector import number_or_name
from hologram.tuning import tuner
from hologram.tuning.tunable import TUNABLES
from hologram.tuning.tuner import Measured
from hologram.tuning.winners import Winners, record


@frozen
class Tuning:
    """What tuning a device found."""

    backend: str
    device: str
    measured: tuple[Measured, ...]


def tune(backend: str, device: str | None, as_json: bool) -> None:
    """Finds the fastest tiles for a device, which later programs use, and shows them."""
    tuning = tuned(backend, device)
    if as_json:
        print_json(as_dict(tuning))
    else:
        show(tuning)


def show(tuning: Tuning) -> None:
    """A table for people."""
    output.print(f"{tuning.backend}: {tuning.device}", highlight=False, markup=False)
    if not tuning.measured:
        output.print("This backend has no tiles to choose between.")
        return
    rows = table(
        "kernel", "shape", "default", "winner", "ratio", "GFLOP/s", "tile",
        numbers=("default", "winner", "ratio", "GFLOP/s"),
    )  # fmt: skip
    for one in tuning.measured:
        default, winner = one.seconds[one.default], one.seconds[one.winner]
        rows.add_row(
            one.problem.kernel,
            shape(one.problem),
            duration(default),
            duration(winner),
            f"{winner / default:.2f}",
            f"{one.operations / winner / 1e9:.1f}",
            escape(str(one.winner)),
        )
    output.print(rows)


def tuned(backend: str, device: str | None) -> Tuning:
    """Tunes the usual problems on a device, and shows how far it is on stderr."""
    with Executor(backend, number_or_name(device)) as executor:
        winners = Winners(executor.device.info)
        problems = tuner.usual(executor.limits)
        measured = []
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=errors, transient=True) as progress:
            task = progress.add_task("tuning", total=len(problems))
            for one in tuner.tune(executor, problems, winners):
                measured.append(one)
                progress.update(task, advance=1, description=shape(one.problem))
        return Tuning(executor.backend, executor.device.info.name, tuple(measured))


def shape(problem: Problem) -> str:
    """The problem in words."""
    return TUNABLES[problem.kernel].text(problem)


def as_dict(tuning: Tuning) -> dict[str, Any]:
    """Everything as plain values.

    Sizes of products are batch, m, k, n; of attention heads, queries, keys, elements; of conv2d groups, channels, taps
    and places.
    """
    return {
        "backend": tuning.backend,
        "device": tuning.device,
        "measured": [
            {
                "kernel": one.problem.kernel,
                "dtype": one.problem.dtype.name,
                "sizes": list(one.problem.sizes),
                "lines": list(one.problem.lines),
                "default": record(one.default),
                "winner": record(one.winner),
                "default_s": one.seconds[one.default],
                "winner_s": one.seconds[one.winner],
                "gflops": one.operations / one.seconds[one.winner] / 1e9,
                "candidates": [
                    {**record(candidate), "seconds": seconds} for candidate, seconds in one.seconds.items()
                ],
            }
            for one in tuning.measured
        ],
    }
