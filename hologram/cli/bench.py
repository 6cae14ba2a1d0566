"""`hologram bench`: the matrix over every adapter of the machine, whole programs, reports, and their comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hologram.benchmark import machine, whole_programs
from hologram.benchmark.matrix import Run, Settings
from hologram.benchmark.piece import Piece
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.report import compare as comparison
from hologram.benchmark.report import markdown, pages
from hologram.benchmark.report.records import Adapter, BadReport, Report, load
from hologram.benchmark.report.tables import noise, tables
from hologram.benchmark.report.terminal import show
from hologram.benchmark.timing import busy
from hologram.cli.display import BACKENDS, errors, output, print_json
from hologram.cli.tune import tune as tune_device
from hologram.foundation.extras import install

QUICK_SECONDS, USUAL_SECONDS = 49.0, 300.0
QUICK_PROGRAM_SECONDS, PROGRAM_SECONDS = 120.0, 1200.0

Backend = Annotated[str | None, typer.Option(help=f"One of {BACKENDS}; all by default.")]
Device = Annotated[str | None, typer.Option(help="A device's number, or part of its name.")]
Folder = Annotated[Path, typer.Option("--output", help="Folder for the report.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
FOLDER = Path("hologram-bench")

app = typer.Typer(name="bench", add_completion=False, invoke_without_command=True)


@app.callback()
def bench(
    context: typer.Context,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="In a minute or, on a busy machine, a few: fewer sizes, smaller models."
        ),
    ] = False,
    large: Annotated[bool, typer.Option("--large", help="Arrays of 100M elements too.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help=f"Time to measure; {USUAL_SECONDS:.0f} by default, more on a busy machine."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Times that all of it is measured, within the time.")] = 1,
    backend: Backend = None,
    device: Device = None,
    folder: Folder = FOLDER,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Find the fastest tiles of the tuned kernels instead, and keep them."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure every adapter of this machine, and write a report: table, JSON, Markdown, plots, HTML."""
    if context.invoked_subcommand is not None:
        return
    if tune:
        tune_device(backend or "auto", device, as_json)
        return
    limit = seconds or (QUICK_SECONDS if quick else USUAL_SECONDS)
    run = Run(chosen(backend, device), Settings.of(limit, quick, large, runs, extends=seconds is None))
    carry_out(run, run.pieces(), folder, as_json)


@app.command()
def programs(
    names: Annotated[
        list[str] | None,
        typer.Argument(help=f"Which, all by default: {', '.join(PROGRAMS)}.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"In two minutes: few steps of {', '.join(whole_programs.QUICK)}.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help=f"Of each at the most; {whole_programs.STEPS:,} by default.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, help=f"Time to measure; {PROGRAM_SECONDS:.0f} by default.")
    ] = None,
    backend: Backend = None,
    device: Device = None,
    folder: Folder = FOLDER / "programs",
    as_json: AsJson = False,
) -> None:
    """Measure whole programs, other inputs at every step, beside PyTorch or JAX, and write a report."""
    unknown = [name for name in names or () if name not in PROGRAMS]
    if unknown:
        raise typer.BadParameter(
            f"no program is called {', '.join(unknown)}; there are {', '.join(PROGRAMS)}"
        )
    adapters = chosen(backend, device)
    limit = seconds or (QUICK_PROGRAM_SECONDS if quick else PROGRAM_SECONDS)
    most = steps or (whole_programs.QUICK_STEPS if quick else whole_programs.STEPS)
    wanted = names or (whole_programs.QUICK if quick else tuple(PROGRAMS))
    pieces = whole_programs.pieces(wanted, [a.name for a in adapters], most)
    carry_out(Run(adapters, Settings(limit, extends=seconds is None)), pieces, folder, as_json)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A report.json of `hologram bench`.")],
    folder: Annotated[Path, typer.Option("--output", help="Folder for the pages.")] = FOLDER,
) -> None:
    """Show a report that was written before, and write its pages again."""
    tell_missing()
    finish(read(file), folder, as_json=False)


@app.command()
def compare(
    files: Annotated[
        list[Path], typer.Argument(help="Reports, report.json; the first is what the others are beside.")
    ],
    threshold: Annotated[
        float, typer.Option(min=0, help="Changes below this share of the time are not told.")
    ] = comparison.THRESHOLD,
    page: Annotated[Path | None, typer.Option("--output", help="A Markdown file for the tables.")] = None,
) -> None:
    """Flag what became slower beyond noise, or has no time any more (exit status 1), and lay machines side by side."""
    if len(files) < 2:
        raise typer.BadParameter(f"two reports are needed at the least, got {len(files)}")
    reports = {str(number): read(file) for number, file in enumerate(files, 1)}
    for number, file in zip(reports, files, strict=True):
        output.print(f"\\[{number}] {escape(str(file))}", highlight=False)
    first, *others = reports.values()
    shown, worse = [], 0
    for number, other in enumerate(others, 2):
        counted, why = comparison.regressions(first, other)
        changes = comparison.changes(first, other, threshold)
        worse += sum(c.verdict in counted for c in changes)
        title = f"[{number}] beside [1]" + (f": {why}" if why else "")
        shown.append(comparison.change_table(changes, title))
    shown += comparison.side_by_side(reports)
    show(shown, output)
    if page is not None:
        page.write_text(markdown.document("Benchmark matrix", shown), encoding="utf-8")
        errors.print(f"written: {page}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1 if worse else 0)


def chosen(backend: str | None, device: str | None) -> tuple[Adapter, ...]:
    """The adapters to measure."""
    return machine.adapters(None if backend == "auto" else backend, device)


def carry_out(run: Run, pieces: list[Piece], folder: Path, as_json: bool) -> None:
    """Measures, shows the report and keeps it, and leaves."""
    others = busy(machine.available_cores())
    if others:
        longer = " It takes longer, too, so that all is measured." if run.settings.extends else ""
        errors.print(f"[bold yellow]busy[/] {others}{longer}", highlight=False)
    folder.mkdir(parents=True, exist_ok=True)  # what is no folder fails now, not after measuring
    report = measure(run, pieces)
    finish(report, folder, as_json, drawn=not report.interrupted)
    raise typer.Exit(130 if report.interrupted else 0)


def measure(run: Run, pieces: list[Piece]) -> Report:
    """Measures, and shows on stderr how far it is and how long it will take."""
    tell_missing()
    columns = (TextColumn("{task.description:28}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task(pieces[0].title, total=sum(piece.share for piece in pieces))

        def advance(done: Piece, following: Piece | None) -> None:
            progress.update(task, advance=done.share, description=following.title if following else "done")

        return run.run(pieces, advance)


def finish(report: Report, folder: Path, as_json: bool, *, drawn: bool = True) -> None:
    """Shows a report and writes its pages into a folder: those that are `drawn` not for who interrupted it."""
    folder.mkdir(parents=True, exist_ok=True)
    if as_json:
        print_json(report.as_dict())
    else:
        show(tables(report), output)
    for path in pages.write(report, folder, drawn=drawn):
        errors.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)
    if not drawn:
        again = f"plots and the HTML page were not drawn: hologram bench report {folder / 'report.json'}"
        errors.print(again, markup=False, highlight=False, soft_wrap=True)
    if noise(report):
        errors.print(f"[bold yellow]noisy[/] {noise(report)}", highlight=False)
    if report.unfinished:
        errors.print(f"[bold yellow]not finished[/] {escape(report.unfinished)}", highlight=False)


def tell_missing() -> None:
    """Says what plots and pages need, before the time for them is spent."""
    missing = pages.missing()
    if missing:
        text = f"Plots and the HTML page need {missing}: {install('bench')}"
        errors.print(text, markup=False, highlight=False)


def read(file: Path) -> Report:
    """A report; what is wrong with the file is told as a message."""
    try:
        return load(file)
    except BadReport as error:
        raise typer.BadParameter(str(error)) from error
