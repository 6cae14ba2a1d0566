"""Same work, one run: hologram's time beside each installed peer's.

    python bench/peers.py --suite cpu|webgpu|jit|jit-webgpu|models|models-webgpu|roofline|cuda|roofline-cuda|halves-cuda
                          [--json FILE] [--rows add,exp] [--sizes 1K,1M] [--quick] [--before CHECKOUT]
    python bench/peers.py --suite programs [--backend webgpu] [--rows llama_static,lstm_step] [--steps 1000]
                          [--who "hologram eager,torch"] [--json FILE]

How the times are taken, and what the goals are: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `bench`, and a checkout's own `hologram`

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.programs import details
from bench.suites import Goal, Result, Row, Suite
from bench.work import parse_size
from bench.worker import Worker
from hologram.benchmark.report.terminal import show
from hologram.benchmark.timing import FULL, QUICK, Pace, busy, microseconds

SUITES = (
    "cpu",
    "webgpu",
    "jit",
    "jit-webgpu",
    "models",
    "models-webgpu",
    "roofline",
    "cuda",
    "roofline-cuda",
    "halves-cuda",
    "programs",
)
BEFORE = "before"  # the contender that is hologram itself, from another checkout
NOISE = 1.1  # beyond it a row counts as slower than before
ROW_SECONDS = 20.0  # a row that has taken as long has no more turns than a quick one
STEPS, QUICK_STEPS = 100, 20  # of a program
TURN_SECONDS = 10.0  # of a program, where nobody asked for a number of steps
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
errors = Console(stderr=True)


def limit_threads(count: int) -> None:
    """Holds this process, and those it starts, to as many cores and threads, whatever library they use."""
    for variable in (
        "BENCH_THREADS",
        "HOLOGRAM_CPU_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "LP_NUM_THREADS",
    ):
        os.environ[variable] = str(count)
    if hasattr(os, "sched_setaffinity"):  # JAX has no setting of its own
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def load(name: str) -> Suite:
    """The suite of that name, from its module."""
    return importlib.import_module(f"bench.suites.{name.replace('-', '_')}").SUITE


def measure(row: Row, suite: Suite, workers: Sequence[Worker], pace: Pace) -> Result:
    """One row: everyone prepares, then all take turns. Our own worker is the first."""
    missing = {w.name: w.opened.absent or w.opened.failed for w in workers if w.opened.value is None}
    ready: list[Worker] = []
    for worker in workers:
        if worker.name in missing:
            continue
        answer = worker.prepare(row.work, row.size)
        if answer.value is None:
            missing[worker.name] = answer.absent or answer.failed
        else:
            ready.append(worker)
    samples: dict[str, list[float]] = {w.name: [] for w in ready}
    begun = time.monotonic()
    for turn in range(pace.turns):
        if turn >= QUICK.turns and time.monotonic() - begun > ROW_SECONDS:
            break
        for worker in ready[turn % len(ready) :] + ready[: turn % len(ready)] if ready else ():
            if worker.name in missing:
                continue
            answer = worker.turn(pace)
            if answer.value is None:
                missing[worker.name] = answer.absent or answer.failed
            else:
                samples[worker.name] += answer.value
    times = {n: microseconds(s) for n, s in samples.items() if s and n not in missing}
    dispatches = None
    if row.goal.dispatches is not None and suite.ours in times:
        answer = workers[0].dispatches()
        dispatches = answer.value
        if dispatches is None:
            missing[suite.ours] = answer.absent or answer.failed
    return suite.result(row, times, missing, dispatches)


def beside_before(suite: Suite, rows: Sequence[Row]) -> tuple[Suite, list[Row]]:
    """The suite with our own earlier code as the only peer: no row may have become slower."""
    alone = dataclasses.replace(suite, peers=(BEFORE,), geometric_mean=None)
    return alone, [dataclasses.replace(r, goal=Goal(ratio=NOISE), against=(), in_mean=True) for r in rows]


def run(
    suite: Suite, rows: Sequence[Row], own: bool, pace: Pace, checkout: Path | None = None
) -> list[Result]:
    """Measures a suite's rows; `own` are those without libraries as peers, `checkout` is where BEFORE's code lies."""
    results: list[Result] = []
    with Progress(*COLUMNS, console=errors, transient=True) as progress:
        task = progress.add_task("opening", total=len(rows) + own)
        if own:
            progress.update(task, description="transfers and overheads")
            results += suite.own_rows(pace)
            progress.advance(task)
        workers: list[Worker] = []
        try:
            for name in (suite.ours, *suite.peers) if rows else ():
                progress.update(task, description=f"opening {name}")
                earlier = (suite.ours, suite.backend, BEFORE, str(checkout))
                workers.append(Worker(*earlier) if name == BEFORE else Worker(name, suite.backend))
            for row in rows:
                progress.update(task, description=f"{row.work} {row.label}")
                results.append(measure(row, suite, workers, pace))
                progress.advance(task)
        finally:
            for worker in workers:
                worker.close()
    return results


def run_programs(
    suite: Suite, rows: Sequence[Row], backend: str, who: tuple[str, ...], steps: int, turn_seconds: float
) -> list[Result]:
    """Measures a suite that times its rows itself; `who` are all where empty."""
    assert suite.measure is not None
    unknown = [name for name in who if name not in (suite.ours, *suite.peers)]
    if unknown:
        raise SystemExit(
            f"--who: nobody is called {', '.join(unknown)}; there are {suite.ours}, {', '.join(suite.peers)}"
        )
    results = []
    with Progress(*COLUMNS, console=errors, transient=True) as progress:
        task = progress.add_task("", total=len(rows))
        for row in rows:
            progress.update(task, description=row.work)
            results.append(suite.measure(row, backend, who, steps, turn_seconds))
            progress.advance(task)
    return results


def number(us: float | None) -> str:
    """Microseconds with three digits or more."""
    if us is None:
        return "-"
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def report(results: Sequence[Result], peers: Sequence[str]) -> Table:
    """Times in microseconds, ratios, launches where they are counted, and the goals beside them."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("row")
    others = [n for n in dict.fromkeys(n for r in results for n in r.peers_us) if n not in peers]
    names = [*peers, *others]
    counted = any(r.dispatches is not None for r in results)
    for column in ("size", "ours, µs", *names, "ratio", *(("dispatches",) if counted else ()), "goal"):
        table.add_column(column, justify="right")
    for result in results:
        times = [
            f"[bold]{number(us)}[/]" if us is not None and us == result.best_us else number(us)
            for us in map(result.peers_us.get, names)
        ]
        ratio = f"{result.ratio:.2f}" if result.ratio is not None else ""
        launches = "" if result.dispatches is None else str(result.dispatches)
        goal = result.goal
        table.add_row(
            result.row,
            result.size,
            coloured(number(result.ours_us), result.ours_us, goal.us),
            *times,
            coloured(ratio, result.ratio, goal.ratio),
            *((coloured(launches, result.dispatches, goal.dispatches),) if counted else ()),
            str(goal),
        )
    return table


def coloured(text: str, found: float | None, most: float | None) -> str:
    """Green where a goal is reached, red where it is not, as it is where there is none."""
    if found is None or most is None:
        return text
    return f"[{'green' if found <= most else 'red'}]{text}[/]"


def geometric_mean(results: Sequence[Result]) -> float | None:
    """Of the ratios there are."""
    ratios = [r.ratio for r in results if r.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def absences(results: Sequence[Result]) -> list[str]:
    """A line for every reason why a contender has no time, with the rows it holds for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for name, why in result.missing.items():
            reasons.setdefault((name, why), []).append(f"{result.row} {result.size}")
    rows = sum(bool(r.missing) or bool(r.peers_us) for r in results)
    return [
        f"{name}: {why}" + ("" if len(found) >= rows else f" ({', '.join(found)})")
        for (name, why), found in reasons.items()
    ]


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


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here")
    parser.add_argument("--rows", help="only these operations, as add,exp")
    parser.add_argument("--sizes", help="only these sizes, as 1K,1M")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="beside the hologram of this checkout, not beside the peers",
    )
    parser.add_argument("--backend", default="cpu", help="of programs (cpu)")
    parser.add_argument("--who", help='who computes programs, as "hologram eager,torch"')
    parser.add_argument("--steps", type=int, help="of each program, by everyone (100; 20 with --quick)")
    parser.add_argument("--threads", type=int, default=2, help="threads and cores of everyone (2)")
    args = parser.parse_args()

    limit_threads(args.threads)
    warning = busy(args.threads)
    if warning:
        errors.print(f"[yellow]{escape(warning)}[/]")
    suite = load(args.suite)
    rows = chosen(list(suite.rows()), args.rows, args.sizes)
    own = args.rows is None and args.sizes is None and args.before is None
    if args.before is not None:
        if not (args.before / "hologram").is_dir():
            raise SystemExit(f"--before: {args.before} is no checkout of hologram")
        suite, rows = beside_before(suite, rows)
    if suite.measure:
        who = tuple(args.who.split(",")) if args.who else ()
        steps = args.steps or (QUICK_STEPS if args.quick else STEPS)
        results = run_programs(
            suite, rows, args.backend, who, steps, math.inf if args.steps else TURN_SECONDS
        )
    else:
        pace = QUICK if args.quick else FULL
        results = run(suite, rows, own, pace, args.before and args.before.resolve())

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    if suite.measure:
        console.print(report(results, [n for n in suite.peers if any(n in r.peers_us for r in results)]))
        show([details(results)], console)
    else:
        console.print(report(results, suite.peers))
    mean = geometric_mean([r for r in results if r.in_mean])
    if mean is not None:
        most = suite.geometric_mean
        goal = f" (goal ≤ {most:g})" if most is not None else ""
        console.print(f"geometric mean of the ratios: {coloured(f'{mean:.2f}', mean, most)}{goal}")
    for line in absences(results):
        console.print(escape(line))
    missed = [f"{r.row} {r.size}".strip() for r in results if r.met is False]
    console.print(f"goals missed: {', '.join(missed)}" if missed else "every goal reached")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps([r.record() for r in results], indent=2) + "\n", encoding="utf-8")
        errors.print(f"wrote {args.json}")


if __name__ == "__main__":
    main()
