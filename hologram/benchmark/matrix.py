"""The matrix: its pieces, in an order that leaves something to compare whenever it is stopped, run in a given time.

Every piece gets its share of the time that is left: one that compiles for long takes it from those behind it. On a busy
machine all take longer: a time that nobody asked for is extended then, so that the table is whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

import hologram as hg
from hologram.benchmark import machine, operations, start
from hologram.benchmark.contenders import Who
from hologram.benchmark.contenders.ours import Ours, functions
from hologram.benchmark.contenders.with_numpy import NumPy
from hologram.benchmark.operations import Models, Operations
from hologram.benchmark.piece import Piece
from hologram.benchmark.report.records import HOST, Adapter, Measurement, Report, merged
from hologram.benchmark.timing import GIVE_MORE
from hologram.benchmark.works import LARGE_SIZES, ROWS, SIZES
from hologram.foundation.errors import HologramError
from hologram.foundation.frozen import frozen

SHARES = {
    "peaks": 2.0,
    "launches": 1.0,
    "transfers": 0.5,
    "start": 3.0,
    "model": 2.0,
    "torch": 6.0,
    "hologram_torch": 8.0,  # an adapter
}
TORCH_SECONDS = 5.0  # until a process has imported PyTorch and run its first model
ADAPTER_SECONDS = 12.0  # until it has run one on an adapter, eagerly and compiled
QUICK_SIZES = ("1K", "100K", "10M")
TRANSFERRED = ("1K", "10K", "1M")
SIZE_SHARES = {"1M": 3.0, "10M": 6.0, "100M": 20.0}  # of operations: small sizes have 2
LATE_SECONDS = 8.0
EXTENSION = 4.0  # times the time that it is extended to at the most
KEPT = 0.5  # of its share, which a piece gets at the least where the time is extended


class _TimeIsOver(Exception):
    """What is left goes without."""


@frozen
class Settings:
    """What to measure, and how long that may take."""

    seconds: float
    quick: bool = False  # smaller models
    sizes: tuple[str, ...] = tuple(SIZES)
    rows: tuple[str, ...] = tuple(ROWS)
    runs: int = 1  # times that all of it is done
    extends: bool = False  # the time, where the machine is too busy for it
    late_seconds: float = (
        LATE_SECONDS  # so far may pieces overrun the time, before those behind them go without
    )

    @classmethod
    def of(
        cls, seconds: float, quick: bool = False, large: bool = False, runs: int = 1, extends: bool = False
    ) -> Settings:
        sizes = QUICK_SIZES if quick else tuple(SIZES)
        return cls(seconds, quick, (*sizes, *(LARGE_SIZES if large else ())), runs=runs, extends=extends)

    @property
    def latest_seconds(self) -> float:
        """What is left after so many goes without."""
        return self.seconds * (EXTENSION if self.extends else 1.0) + self.late_seconds

    def planned(self, pieces: Sequence[Piece]) -> list[float]:
        """Seconds of each piece on a machine that has nothing else to do."""
        free = max(self.seconds - sum(piece.least_seconds for piece in pieces), 0.0)
        total = sum(piece.share for piece in pieces)
        return [piece.least_seconds + free * piece.share / total for piece in pieces]


@dataclass
class Run:
    """A run of the matrix as it goes on: the pieces, and what is measured so far."""

    adapters: tuple[Adapter, ...]
    settings: Settings
    measurements: list[Measurement] = field(default_factory=list)
    unfinished: str = ""
    _open: dict[str, hg.Executor] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def pieces(self) -> list[Piece]:
        """In order."""
        made = [self._piece(a, "peaks", operations.peaks) for a in self.adapters]
        rows = [row for name, row in ROWS.items() if name in self.settings.rows]
        who = [Operations("NumPy", HOST, rows, NumPy)]
        who += [Operations("hologram", a.name, rows, lambda a=a: Ours(self.opened(a))) for a in self.adapters]
        for size in self.settings.sizes:
            share = SIZE_SHARES.get(size, 2.0)
            made += [Piece(f"{w.adapter} operations, {size}", share, partial(w.measure, size)) for w in who]
        for adapter in self.adapters:
            made.append(self._piece(adapter, "launches", operations.launches))
            for size in TRANSFERRED:
                title = f"{adapter.name} transfers, {size}"
                run = partial(operations.transfers, adapter.name, partial(self.opened, adapter), size)
                made.append(Piece(title, SHARES["transfers"], run))
            made.append(
                Piece(f"{adapter.name} start", SHARES["start"], partial(start.first_results, adapter))
            )
        return (made + self._pipelines()) * self.settings.runs

    def _pipelines(self) -> list[Piece]:
        """Models by everyone in turn; PyTorch last, whose processes can be stopped where the time ends."""
        models = operations.QUICK if self.settings.quick else operations.USUAL
        ways = [Models("NumPy", HOST, partial(NumPy, all_models=True))]
        for adapter in self.adapters:
            for name, jit in (("hologram jit", True), ("hologram eager", False)):
                opened = lambda a=adapter, jit=jit: functions(self.opened(a), jit)  # noqa: E731
                ways.append(Models(name, adapter.name, opened))
        made = [
            Piece(f"{way.adapter} {way.who}, {name}", SHARES["model"], partial(way.measure, name, batch))
            for name, batch in models.items()
            for way in ways
        ]
        everyone = [("PyTorch", Who("torch", HOST))]
        torch = partial(operations.in_process, everyone, models)
        made.append(Piece("PyTorch's models", SHARES["torch"], torch, TORCH_SECONDS))
        # What software emulates goes without, where the time ends.
        names = [a.name for a in sorted(self.adapters, key=lambda a: a.software)]
        everyone = [
            (f"hologram_torch {way}", Who(f"hologram {way}", name))
            for name in names
            for way in ("eager", "compiled")
        ]
        torch = partial(operations.in_process, everyone, models)
        share = SHARES["hologram_torch"] * len(names)
        made.append(Piece("hologram_torch's models", share, torch, ADAPTER_SECONDS))
        return made

    def run(self, pieces: Sequence[Piece], advance: Callable[[Piece, Piece | None], None]) -> Report:
        """Measures; an interrupt (Ctrl-C) ends it, and what is done is kept.

        `advance` is told which piece is done, and which comes next.
        """
        facts = machine.facts()  # before this process makes the machine busy
        begun, waiting, interrupted = time.perf_counter(), list(pieces), False
        planned = self.settings.planned(pieces)
        try:
            with self._stack:
                while waiting:
                    elapsed, number = time.perf_counter() - begun, len(pieces) - len(waiting)
                    if elapsed > self.settings.latest_seconds:
                        raise _TimeIsOver
                    seconds = replace(self.settings, seconds=self.settings.seconds - elapsed).planned(
                        waiting
                    )[0]
                    if self.settings.extends and number:
                        slowness = min(max(elapsed / sum(planned[:number]), 1.0), EXTENSION)
                        least = waiting[0].least_seconds
                        seconds = max(seconds, slowness * (least + KEPT * (planned[number] - least)))
                    self._measure(waiting[0], seconds)
                    done = waiting.pop(0)
                    advance(done, waiting[0] if waiting else None)
        except (KeyboardInterrupt, _TimeIsOver) as stopped:
            interrupted = isinstance(stopped, KeyboardInterrupt)
            why = "interrupted" if interrupted else f"the time is over ({GIVE_MORE})"
            where = f" before {waiting[0].title}" if waiting else ""
            self.unfinished = f"{why}{where}: {len(pieces) - len(waiting)} of {len(pieces)} pieces are done"
        return Report(
            facts,
            self.adapters,
            merged(self.measurements),
            round(time.perf_counter() - begun, 1),
            self.unfinished,
            interrupted,
            machine.absent(),
        )

    def _measure(self, piece: Piece, seconds: float) -> None:
        try:
            for one in piece.run(seconds):
                self.measurements.append(one)
        except HologramError as error:  # the adapter itself fails: the others go on
            self.unfinished = f"{piece.title} failed: {type(error).__name__}: {error}"

    def opened(self, adapter: Adapter) -> hg.Executor:
        """The adapter's executor, open until the run ends."""
        if adapter.name not in self._open:
            executor = hg.Executor(adapter.backend, adapter.index)
            self._open[adapter.name] = self._stack.enter_context(executor)
        return self._open[adapter.name]

    def _piece(self, adapter: Adapter, name: str, measure: Callable) -> Piece:
        run = partial(measure, adapter.name, partial(self.opened, adapter))
        return Piece(f"{adapter.name} {name}", SHARES[name], run)
