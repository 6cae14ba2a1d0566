"""All commands under `hologram`, and how what goes wrong in one is told."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import hologram
from hologram.cli.display import errors
from hologram.cli.interrupts import leaving
from hologram.foundation.errors import HologramError


class Commands(TyperGroup):
    """The commands: a file each, which has a function or an app, and is imported when it is asked for.

    All of them together take half a second to import, one as little as none.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        names = ("info", "doctor", "chat", "explain", "kernels", "demo", "bench")
        self.commands = dict.fromkeys(names)  # what is proposed in place of a name that is none

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [*self.commands]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        if cmd_name not in self.commands:
            return None
        with leaving():
            module = import_module(f"hologram.cli.{cmd_name}")
        own = getattr(module, "app", None)
        if own is None:
            own = typer.Typer(add_completion=False)
            own.command()(getattr(module, cmd_name))
        command = typer.main.get_command(own)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="hologram", cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


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
