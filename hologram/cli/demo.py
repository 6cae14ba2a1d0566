"""`hologram demo`: a photograph filtered and digits learned, timed beside NumPy and drawn; NAME runs an example."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

import hologram as hg
from hologram.cli.display import BACKENDS, errors, output, print_json
from hologram.demo import digits, gallery, image
from hologram.demo.library import Library, hologram_library, numpy_library
from hologram.foundation.display import duration, table
from hologram.foundation.extras import install
from hologram.foundation.frozen import frozen
from hologram.runtime import selector

ACCURACY = 0.95  # that held-out digits must reach
IMAGE_TOLERANCE = 1e-4  # of intensities in 0..1, against NumPy
SAME_COLOUR = 0.99  # share of pixels; those halfway between two colours may go either way
REQUIRED = {"sklearn": "scikit-learn", "PIL": "pillow"}  # the extra `demo`
TIMES = ("first time", "again", "NumPy", "NumPy / again")


@frozen
class Timing:
    """Seconds a piece of work took: the first time (with compiling) and again, and again with NumPy."""

    work: str
    first_s: float
    again_s: float
    numpy_s: float


@frozen
class Outcome:
    """What the demo found out."""

    accuracy: float
    image_error: float  # largest difference of blur and edges from NumPy's
    same_colour: float  # share of pixels that NumPy gives the same colour
    timings: tuple[Timing, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        problems = []
        if self.accuracy < ACCURACY:
            problems.append(f"held-out accuracy is {self.accuracy:.3f}, it must be at least {ACCURACY}")
        if not self.image_error <= IMAGE_TOLERANCE:
            problems.append(f"blur or edges differ from NumPy's by {self.image_error:.1e}")
        if self.same_colour < SAME_COLOUR:
            problems.append(f"only {self.same_colour:.1%} of the pixels have the colour NumPy gives them")
        return tuple(problems)


class Examples(TyperGroup):
    """The commands of `hologram demo`: a file each, imported when it is asked for."""

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        path = gallery.demos().get(cmd_name)
        if path is None:
            return None
        try:
            return gallery.command(gallery.load(path).main)
        except ModuleNotFoundError as error:
            raise typer.BadParameter(gallery.missing(cmd_name, str(error.name))) from error


app = typer.Typer(
    cls=Examples, add_completion=False, invoke_without_command=True, subcommand_metavar="[NAME [OPTIONS]]"
)


@app.callback()
def demo(
    context: typer.Context,
    backend: Annotated[str, typer.Option(help=f"{BACKENDS}.")] = "auto",
    device: Annotated[str | None, typer.Option(help="A device's number, or part of its name.")] = None,
    output_dir: Annotated[Path, typer.Option("--output", help="Folder for the picture.")] = Path("."),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the examples that NAME can be.")] = False,
) -> None:
    """Filter a photograph and train a digit classifier on a backend, and compare with NumPy; or run an example."""
    if context.invoked_subcommand is not None:
        refuse_misplaced(context)
        return
    if listed:
        show_list()
        return
    missing = [package for module, package in REQUIRED.items() if find_spec(module) is None]
    if missing:
        errors.print(f"The demo needs {' and '.join(missing)}: {install('demo')}", markup=False)
        raise typer.Exit(1)
    chosen = selector.number_or_name(device)
    why = selector.explain_selection(backend, chosen)
    with hg.Executor(backend=backend, device=chosen) as executor:
        if not as_json:
            output.print(why, markup=False, highlight=False)
        outcome, picture = run(
            hologram_library(executor), f"{executor.backend} on {executor.device.info.name}"
        )
    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / "hologram-demo.png"
    picture.save(path)
    if as_json:
        print_json({**asdict(outcome), "why": why, "picture": str(path), "problems": list(outcome.problems)})
    else:
        show(outcome, path)
    raise typer.Exit(1 if outcome.problems else 0)


def refuse_misplaced(context: typer.Context) -> None:
    """An option before an example's name would be lost: each example has its own."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"options stand after the name: hologram demo {context.invoked_subcommand} --..."
            )


def show_list() -> None:
    """Prints the examples."""
    lines = table("demo", "what it shows")
    for name, path in gallery.demos().items():
        lines.add_row(name, gallery.subject(path))
    output.print(lines)


def run(library: Library, where: str) -> tuple[Outcome, Any]:
    """Does the work on both libraries; the outcome and the picture (of Pillow's Image)."""
    from sklearn.datasets import load_digits, load_sample_image

    from hologram.demo import picture

    photograph = load_sample_image("china.jpg")
    features, labels = load_digits(return_X_y=True)
    data = digits.split(features / 16, labels)
    columns = (TextColumn("{task.description:24}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        pictures, images_timing, theirs = compare(
            "image pipeline",
            library,
            lambda lib, report: image.process(photograph, lib, report),
            progress,
            image.STAGES,
        )
        weights, training_timing, _ = compare(
            "training", library, lambda lib, report: digits.train(data, lib, report), progress, digits.STEPS
        )
    answers = digits.classify(data.test_images, weights, library)
    outcome = Outcome(
        accuracy=float(np.mean(answers == data.test_labels)),
        image_error=max(
            float(np.abs(pictures.blurred - theirs.blurred).max()),
            float(np.abs(pictures.edges - theirs.edges).max()),
        ),
        same_colour=float(np.mean(pictures.labels == theirs.labels)),
        timings=(images_timing, training_timing),
    )
    caption = [where, *(describe(t) for t in outcome.timings)]
    confusion = digits.confusion(data.test_labels, answers)
    return outcome, picture.draw(photograph, pictures, weights, confusion, caption)


def compare(
    work: str,
    library: Library,
    task: Callable[[Library, Callable[[], None]], Any],
    progress: Progress,
    steps: int,
) -> tuple[Any, Timing, Any]:
    """Runs a task twice with the library and twice with NumPy: the results of both, and the times."""
    bar = progress.add_task(work, total=4 * steps)

    def timed(chosen: Library) -> tuple[Any, float]:
        progress.update(bar, description=f"{work}, {chosen.name}")
        start = time.perf_counter()
        result = task(chosen, lambda: progress.advance(bar))
        return result, time.perf_counter() - start

    _, first_s = timed(library)
    ours, again_s = timed(library)
    timed(numpy_library())
    theirs, numpy_s = timed(numpy_library())
    return ours, Timing(work, first_s, again_s, numpy_s), theirs


def describe(timing: Timing) -> str:
    """A timing in a line."""
    return (
        f"{timing.work}: {duration(timing.again_s)} ({duration(timing.first_s)} the first time), "
        f"NumPy {duration(timing.numpy_s)}"
    )


def show(outcome: Outcome, path: Path) -> None:
    """Prints the outcome."""
    times = table("work", "first time", "again", "NumPy", "NumPy / again", numbers=TIMES)
    for t in outcome.timings:
        times.add_row(
            t.work,
            duration(t.first_s),
            duration(t.again_s),
            duration(t.numpy_s),
            f"{t.numpy_s / t.again_s:.2f}",
        )
    output.print()
    output.print(times)
    output.print(
        f"\nheld-out digits recognised: [bold]{outcome.accuracy:.1%}[/]   blur and edges within "
        f"{outcome.image_error:.0e} of NumPy's   {outcome.same_colour:.2%} of pixels in NumPy's colour",
        highlight=False,
    )
    output.print(f"picture: {path}", markup=False, highlight=False)
    for problem in outcome.problems:
        output.print(f"[bold red]failed[/] {problem}")
