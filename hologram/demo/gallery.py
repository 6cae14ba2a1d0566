"""The demos: one file each in examples/, found because it is there, with a `main` whose parameters are its options."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Annotated, Any

import typer
from rich import print as show

import hologram as hg
from hologram.foundation.extras import install
from hologram.runtime.selector import number_or_name

PACKAGE = Path(hg.__file__).parent


def demos() -> dict[str, Path]:
    """Every demo's file by its name: packed into the wheel, beside the package in a checkout."""
    packed, beside = PACKAGE / "examples", PACKAGE.parent / "examples"
    return {path.stem: path for path in sorted((packed if packed.is_dir() else beside).glob("*.py"))}


def subject(path: Path) -> str:
    """The first line of a demo's docstring, read without importing what the demo needs."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


INSTALL = dict.fromkeys(("PIL", "sklearn"), install("demo")) | {"torch": install("torch")}
INSTALL |= dict.fromkeys(("safetensors", "tokenizers"), "pip install wordllama")
PICTURES = (".gif", ".jpg", ".png")


def missing(name: str, module: str) -> str:
    """What to install for a demo that found no such module."""
    return f"{name} needs {module}: {INSTALL.get(module, f'pip install {module}')}"


def load(path: Path) -> ModuleType:
    """A demo as a module."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def require_picture(path: Path) -> None:
    """Raises BadParameter unless a picture can be written there."""
    if path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(
            f"a picture ends in {', '.join(PICTURES)}, got {path}", param_hint="--output"
        )
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}", param_hint="--output")


def command(main: FunctionType) -> Any:
    """A command of a demo: main's parameters are its options, and so is the device that is the default one within."""

    def on_device(backend: str, device: str | None, **options: Any) -> None:
        if "output" in options:
            require_picture(options["output"])
        with (
            hg.Executor(backend=backend, device=number_or_name(device)) as executor,
            hg.use_executor(executor),
        ):
            show(f"[bold]{executor.backend}[/] on {executor.device.info.name}")
            try:
                main(**options)
            except OSError as error:  # of files that are none, or no pictures
                typer.echo(f"{error}", err=True)
                raise typer.Exit(1) from error

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = inspect.signature(main, eval_str=True).parameters.values()
    parameters = [
        inspect.Parameter("backend", keyword, default="auto", annotation=Backend),
        inspect.Parameter("device", keyword, default=None, annotation=Device),
        *(parameter.replace(kind=keyword) for parameter in own),
    ]
    on_device.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    on_device.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    on_device.__doc__ = main.__globals__["__doc__"]
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(on_device)
    return typer.main.get_command(app)


def run(main: FunctionType) -> None:
    """Runs a demo as a program of its own: `python examples/life.py --backend webgpu`."""
    command(main)()


Backend = Annotated[str, typer.Option(help="auto, or a backend's name.")]
Device = Annotated[str | None, typer.Option(help="A device's number, or part of its name.")]
