"""All commands under `hologram`, and how what goes wrong in one is told."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import hologram
from hologram.cli import bench, chat, demo, doctor, explain, info, kernels
from hologram.cli.display import errors
from hologram.foundation.errors import HologramError

app = typer.Typer(name="hologram", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (info.info, doctor.doctor, chat.chat, explain.explain, kernels.kernels):
    app.command()(command)
app.add_typer(demo.app, name="demo")
app.add_typer(bench.app)


def _version(asked: bool) -> None:
    if asked:
        print(f"hologram {hologram.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """GPU computing for Python on whatever GPU the machine has."""


def run() -> None:
    """Runs the command line; what the user can mend is printed as one message, without a traceback."""
    try:
        app()
    except (HologramError, OSError) as error:
        errors.print(f"[bold red]error[/] {type(error).__name__}: ", end="")
        errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
