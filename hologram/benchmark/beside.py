"""A suite's run: hologram's time beside each installed peer's, the same work in one run (`bench/peers.py`)."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hologram.benchmark import whole_programs
from hologram.benchmark.contenders import MODULES, Who
from hologram.benchmark.process import SETTLE_SECONDS, Process
from hologram.benchmark.programs.declared import Program
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.report.records import Measurement
from hologram.benchmark.report.tables import MISSING, Cell, Table, programs
from hologram.benchmark.report.terminal import show
from hologram.benchmark.suites import Goal, Result, Row, Suite, geometric_mean, result
from hologram.benchmark.timing import FULL, QUICK, NoTime, Pace, busy, in_turns
from hologram.benchmark.works import WORKS, parse_size

BEFORE = "before"  # the contender that is hologram itself, from another checkout
NOISE = 1.1  # beyond it a row counts as slower than before
ROW_SECONDS = 20.0  # a row that has taken as long has no more turns than a quick one
STEPS, QUICK_STEPS = 100, 20  # of a program
TURN_SECONDS = 10.0  # of a program, where nobody asked for a number of steps
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
THREADS = (
    "BENCH_THREADS", "HOLOGRAM_CPU_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS", "LP_NUM_THREADS",
)  # fmt: skip
errors = Console(stderr=True)


def limit_threads(count: int) -> None:
    """Holds this process, and those it starts, to as many cores and threads, whatever library they use."""
    os.environ.update(dict.fromkeys(THREADS, str(count)))
    if hasattr(os, "sched_setaffinity"):  # JAX has no setting of its own
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


class Run:
    """A suite's run: a process for each contender, ours first, which is opened when it is first asked."""

    def __init__(
        self, suite: Suite, backend: str, pace: Pace, plug_ins: Mapping[str, str], checkout: str = ""
    ) -> None:
        self.suite, self.backend, self.pace = suite, suite.backend or backend, pace
        modules = MODULES | dict(plug_ins)
        names = {name: suite.ours if name == BEFORE else name for name in (suite.ours, *suite.peers)}
        self.everyone = {name: Who(own, self.backend, modules[own]) for name, own in names.items()}
        self.checkouts = {BEFORE: checkout}
        self.workers: dict[str, Process] = {}

    def ask(self, name: str, method: str, *arguments: object) -> object:
        """What somebody's process answers."""
        if name not in self.workers:
            self.workers[name] = Process(self.checkouts.get(name, ""))
        return self.workers[name].ask(method, *arguments)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    def row(self, row: Row) -> Result:
        """One row: everyone prepares, then all take turns."""

        def prepared(name: str, _: None) -> object:
            return self.ask(name, "prepare", self.everyone[name], row.work, row.size)

        def turn(name: str, pace: Pace) -> float:
            time.sleep(SETTLE_SECONDS)
            return self.ask(name, "turn", pace)  # type: ignore[return-value]

        ready, missing = in_turns({name: partial(prepared, name) for name in self.everyone}, [None])
        takers = {name: partial(turn, name) for name in ready}
        turns, lost = in_turns(takers, [self.pace] * self.pace.turns, ROW_SECONDS)
        missing |= lost
        dispatches = None
        if row.goal.dispatches is not None and self.suite.ours in turns:
            try:
                dispatches = self.ask(self.suite.ours, "dispatches")
            except NoTime as why:
                missing[self.suite.ours] = str(why)
        beside = {"against": row.against, "in_mean": row.in_mean, "dispatches": dispatches}
        ordered = {name: turns.get(name, []) for name in self.everyone}
        return result(row.work, row.label, ordered, missing, row.goal, self.suite.ours, **beside)

    def program(self, row: Row, who: Sequence[str], steps: int, turn_seconds: float) -> Result:
        """A program by those of `who` who can compute it, all where they are empty."""
        program = PROGRAMS[row.work]
        able = who or whole_programs.ABLE[program.jitted]
        everyone = whole_programs.contenders(program, (self.backend,), able)
        answers = whole_programs.measure(program, everyone, steps, turn_seconds)
        return of_program(program, self.backend, whole_programs.measurements(program, answers))


def of_program(program: Program, backend: str, measured: Sequence[Measurement]) -> Result:
    """A program's row: its ratio is to the first peer that has a time."""
    ours, peer = whole_programs.OURS[program.jitted], whole_programs.PEERS[program.jitted][0]
    against = (peer,) if any(m.key.who == peer and m.seconds for m in measured) else ()
    return Result(ours, tuple(measured), Goal(ratio=program.limit), against, in_mean=True, label=backend)


def grown(row: str, size: int, names: Sequence[str], backend: str, goal: Goal) -> Result:
    """Megabytes that steps add to a fresh process, ours beside the others'."""
    megabytes: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    for name in names:
        process = Process()
        try:
            megabytes[name] = [process.ask("grown", Who(name, backend), row, size)]
        except NoTime as why:
            missing[name] = str(why)
        finally:
            process.close()
    return result(f"{row}, peak MB", WORKS[row].label(size), megabytes, missing, goal, names[0], unit="MB")


def beside_before(suite: Suite, rows: Sequence[Row]) -> tuple[Suite, list[Row]]:
    """The suite with our own earlier code as the only peer: no row may have become slower."""
    alone = replace(suite, peers=(BEFORE,), geometric_mean=None)
    return alone, [replace(r, goal=Goal(ratio=NOISE), against=(), in_mean=True) for r in rows]


def chosen(rows: Sequence[Row], works: str | None, sizes: str | None) -> list[Row]:
    """Rows that the filters let through. Raises SystemExit for names and sizes that no row has."""
    wanted_works = works.split(",") if works else None
    wanted_sizes = [parse_size(text) for text in sizes.split(",")] if sizes else None
    for what, wanted, known in (
        ("rows", wanted_works, {r.work for r in rows}),
        ("sizes", wanted_sizes, {r.size for r in rows}),
    ):
        unknown = [str(w) for w in wanted or () if w not in known]
        if unknown:
            raise SystemExit(f"--{what}: no row has {', '.join(unknown)}")
    return [
        r
        for r in rows
        if (wanted_works is None or r.work in wanted_works)
        and (wanted_sizes is None or r.size in wanted_sizes)
    ]


def by_those(suite: Suite, who: str | None, known: Sequence[str]) -> Suite:
    """The suite with others as its contenders, ours first. Raises SystemExit for names that nobody has."""
    names = who.split(",") if who else [suite.ours, *suite.peers]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"--who: nobody is called {', '.join(unknown)}; there are {', '.join(known)}")
    return replace(suite, ours=names[0], peers=tuple(names[1:]))


def measured(run: Run, rows: Sequence[Row], own: bool, given: argparse.Namespace) -> list[Result]:
    """A suite's rows; those without libraries as peers first, where `own` asks for them."""
    results: list[Result] = []
    steps = given.steps or (QUICK_STEPS if given.quick else STEPS)
    turn_seconds = math.inf if given.steps else TURN_SECONDS
    with Progress(*COLUMNS, console=errors, transient=True) as progress:
        task = progress.add_task("transfers and overheads", total=len(rows) + own)
        try:
            if own:
                results += run.suite.own_rows(run.backend, run.pace)
                progress.advance(task)
            for row in rows:
                progress.update(task, description=f"{row.work} {row.label}")
                if row.program:
                    who = given.who.split(",") if given.who else ()
                    results.append(run.program(row, who, steps, turn_seconds))
                else:
                    results.append(run.row(row))
                progress.advance(task)
        finally:
            run.close()
    return [replace(one, suite=run.suite.name) for one in results]


def number(us: float | None) -> str:
    """Microseconds with three digits or more."""
    if us is None:
        return MISSING
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def coloured(text: str, value: float | None, most: float | None) -> Cell:
    """Green where a goal is reached, red where it is not, as it is where there is none."""
    return Cell(text, "" if value is None or most is None else "green" if value <= most else "red")


def report(suite: Suite, results: Sequence[Result]) -> Table:
    """Times in microseconds, ratios, launches where they are counted, and the goals beside them; absences below."""
    peers = dict.fromkeys(n for r in results for n in (*r.peers_us, *r.missing) if n != r.ours)
    names = [*(n for n in suite.peers if n in peers), *(n for n in peers if n not in suite.peers)]
    counted = any(r.dispatches is not None for r in results)
    columns = ("row", "size", "ours, µs", *names, "ratio", *(("dispatches",) if counted else ()), "goal")
    rows = []
    for one in results:
        goal, times, launches = one.goal, one.peers_us, one.dispatches
        cells = [Cell(number(us), "bold" if us and us == one.best_us else "") for us in map(times.get, names)]
        ratio = coloured("" if one.ratio is None else f"{one.ratio:.2f}", one.ratio, goal.ratio)
        count = coloured("" if launches is None else str(launches), launches, goal.dispatches)
        ours = coloured(number(one.ours_us), one.ours_us, goal.us)
        rows.append((one.row, one.size, ours, *cells, ratio, *((count,) if counted else ()), str(goal)))
    mean = geometric_mean([r for r in results if r.in_mean])
    most = suite.geometric_mean
    missed = [f"{r.row} {r.size}".strip() for r in results if r.met is False]
    notes = [] if mean is None else [
        f"geometric mean of the ratios: {mean:.2f}" + ("" if most is None else f" (goal ≤ {most:g})")
    ]  # fmt: skip
    notes += absences(results)
    notes.append(f"goals missed: {', '.join(missed)}" if missed else "every goal reached")
    return Table(f"suite {suite.name}", columns, tuple(rows), notes=tuple(notes))


def absences(results: Sequence[Result]) -> list[str]:
    """A line for every reason why a contender has no time, with the rows it holds for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in results:
        for name, why in one.missing.items():
            reasons.setdefault((name, why), []).append(f"{one.row} {one.size}")
    rows = sum(bool(r.missing) or bool(r.peers_us) for r in results)
    return [
        f"{name}: {why}" + ("" if len(cases) >= rows else f" ({', '.join(cases)})")
        for (name, why), cases in reasons.items()
    ]


def parser(suites: Sequence[str]) -> argparse.ArgumentParser:
    """Of the command's arguments."""
    made = argparse.ArgumentParser(description="Same work, one run: hologram's time beside each peer's.")
    made.add_argument("--suite", choices=suites, required=True)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows here")
    made.add_argument("--rows", help="only these operations, as add,exp")
    made.add_argument("--sizes", help="only these sizes, as 1K,1M")
    made.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    made.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="beside the hologram of this checkout, not beside the peers",
    )
    made.add_argument("--backend", default="cpu", help="of suites that have none of their own (cpu)")
    made.add_argument("--who", help='who computes, ours first, as "hologram eager,torch"')
    made.add_argument("--steps", type=int, help="of each program, by everyone (100; 20 with --quick)")
    made.add_argument("--threads", type=int, default=2, help="threads and cores of everyone (2)")
    return made


def main(
    suites: Mapping[str, Suite], plug_ins: Mapping[str, str], arguments: Sequence[str] | None = None
) -> None:
    """The command; `plug_ins` are contenders beside the package's own, a module each."""
    given = parser(list(suites)).parse_args(arguments)
    limit_threads(given.threads)
    if warning := busy(given.threads):
        errors.print(f"[yellow]{escape(warning)}[/]")
    suite = by_those(suites[given.suite], given.who, [*MODULES, *plug_ins])
    rows = chosen(list(suite.rows()), given.rows, given.sizes)
    own = given.rows is None and given.sizes is None and given.before is None
    if given.before is not None:
        if not (given.before / "hologram").is_dir():
            raise SystemExit(f"--before: {given.before} is no checkout of hologram")
        if not rows:
            raise SystemExit(
                f"--before: the rows of {suite.name} run in this process, so no other checkout can"
            )
        suite, rows = beside_before(suite, rows)
    checkout = str(given.before.resolve()) if given.before else ""
    run = Run(suite, given.backend, QUICK if given.quick else FULL, plug_ins, checkout)
    results = measured(run, rows, own, given)
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    # What the medians of programs hide; why others have none is told with their rows.
    details = [m for one in results for m in one.measured if m.course]
    show([report(suite, results), *([programs(details)] if details else [])], console)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps([r.record() for r in results], indent=2) + "\n", encoding="utf-8")
        errors.print(f"wrote {given.json}")
