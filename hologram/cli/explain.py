"""`hologram explain`: what a function, or an Atlas program, becomes on each backend."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any

import typer

import hologram
from hologram.atlas.program import Program
from hologram.atlas.text import parse_program
from hologram.atlas.verify import verify
from hologram.backends import registry
from hologram.cli.calls import Arguments, TensorArgument, parse_arguments
from hologram.cli.display import BACKENDS, errors, output, print_json
from hologram.cli.saved import ExplainedFile, explain_file
from hologram.compiler.pipeline import canonical, canonical_text, identity, recorded
from hologram.compiler.recognition.recognise import Recognition, recognise
from hologram.foundation.errors import UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.jit.explain import (
    ExplainedPass,
    Explanation,
    explained_elsewhere,
    explained_passes,
    passes_text,
)
from hologram.frontend.jit.jitted import Jitted
from hologram.machine.limits import Limits
from hologram.machine.plan import Step, Target

SAVED = ".holo"
USUAL_LANES = 1024  # along each axis of a program, where none are given


@frozen
class ExplainedProgram:
    """An Atlas program: its canonical text with the SHA-256, what it is recognised as; by backend passes and source.

    These are the tuned kernel's on backends where that runs instead.
    """

    name: str
    identity: str
    canonical: str
    lanes: tuple[int, ...]
    recognised: str
    passes: dict[str, tuple[ExplainedPass, ...]]
    sources: dict[str, str]

    def text(self, *, source: bool = True) -> str:
        """For people; with or without the sources."""
        lanes = " x ".join(map(str, self.lanes))
        parts = [
            f"{self.name} over {lanes} lanes",
            f"canonical form {self.identity}\n{_block(self.canonical)}",
        ]
        for backend, passes in self.passes.items():
            lines = "\n".join(passes_text(passes))
            parts += [f"passes for {backend}\n{_block(lines)}"] if passes else []
        if source:
            parts += [f"source for {backend}\n{_block(text)}" for backend, text in self.sources.items()]
        return "\n\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    target: Annotated[
        str,
        typer.Argument(
            help="file.py:function, module:function, a saved program (.holo), or the text of an Atlas program."
        ),
    ],
    arguments: Annotated[
        str,
        typer.Option(
            "--args",
            help="As in a call: 'f32[64,64], f32, axis=-1'. Of a program: its buffers, then its scalars by name.",
        ),
    ] = "",
    lanes: Annotated[str, typer.Option(help="The grid of an Atlas program: '1024,64'.")] = "",
    backend: Annotated[
        list[str] | None, typer.Option(help=f"{BACKENDS}; it need not be here. May be repeated.")
    ] = None,
    source: Annotated[bool, typer.Option(help="With the generated source.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a function, saved or not, or an Atlas program becomes: canonical form, fusion, kernels, source."""
    place, colon, name = target.rpartition(":")
    explanations: list[Explanation] | list[ExplainedProgram] | list[ExplainedFile]
    if target.endswith(SAVED):
        if arguments or lanes:
            raise typer.BadParameter(f"{target} says itself what it takes: --args and --lanes are not needed")
        explanations = [explain_file(Path(target), b) for b in backend or ["auto"]]
    elif colon and not Path(target).is_file():
        if not name:
            raise typer.BadParameter(f"which of its functions? {target}name")
        if lanes:
            raise typer.BadParameter(f"--lanes is for the text of an Atlas program, {target} is a function")
        function = load(place, name)
        given = parse_arguments(arguments)
        explanations = [explain_function(function, given, b) for b in backend or ["auto"]]
    else:
        explanations = [explain_program(Path(target), lanes, arguments, backend or list(registry.discover()))]
    if as_json:
        print_json([e.as_dict() for e in explanations])
        return
    for explanation in explanations:
        output.print(explanation.text(source=source), markup=False, highlight=False, soft_wrap=True)


def load(place: str, name: str) -> Any:
    """The function of that dotted name in a file, or in a module that can be imported."""
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {place}")
        sys.path.insert(0, str(path.parent.resolve()))  # as Python does for a script
        own = path.stem if path.stem not in sys.modules else f"{path.stem}_explained"
        spec = importlib.util.spec_from_file_location(own, path)
        assert spec
        assert spec.loader
        module = sys.modules[own] = importlib.util.module_from_spec(spec)
        with _reported(place):
            spec.loader.exec_module(module)
    else:
        if not _is_module(place):
            raise typer.BadParameter(f"there is no module {place!r}")
        with _reported(place):
            module = importlib.import_module(place)
    try:
        return functools.reduce(getattr, name.split("."), module)
    except AttributeError as error:
        raise typer.BadParameter(f"{place} has no {name}: {error}") from error


def _is_module(place: str) -> bool:
    try:
        return importlib.util.find_spec(place) is not None
    except (ImportError, ValueError):
        return False


@contextmanager
def _reported(who: str) -> Iterator[None]:
    """Says in a line what the user's code raises, and on which of its lines; the way through hologram is not told."""
    try:
        yield
    except Exception as error:
        told = f"{who} raised {type(error).__name__}: {error}"
        if isinstance(error, SyntaxError):
            raise _failed(told) from error
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_own(f.filename)]
        if frames:
            told += f"\n  {frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line}"
        raise _failed(told) from error


def _is_own(filename: str) -> bool:
    return filename.startswith(("<", str(Path(hologram.__file__).parent)))


def _failed(told: str) -> typer.Exit:
    errors.print("[bold red]error[/] ", end="")
    errors.print(told, markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


def explain_function(function: Any, arguments: Arguments, backend: str) -> Explanation:
    """Compiles a function, jitted already or not, for arguments on a backend; nothing is computed."""
    name = getattr(function, "__name__", repr(function))
    if not callable(function):
        raise typer.BadParameter(f"a function is needed, got {name}, of type {type(function).__name__}")
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    here = backend == "auto" or registry.probe(backend).available
    with Executor(backend=backend if here else "cpu") as executor:

        def tensor(wanted: TensorArgument) -> Any:
            return executor.empty(wanted.shape, wanted.dtype)

        positional, named = arguments.filled(tensor)
        with _reported(name):
            if here:
                return jitted.explain(*positional, **named)
            compiled = jitted.compiled(*positional, **named)
        return explained_elsewhere(compiled, backend, jitted.fast_math)


def explain_program(path: Path, lanes: str, arguments: str, names: list[str]) -> ExplainedProgram:
    """Reads a program; raises ProgramError for a text that is none."""
    if not path.is_file():
        raise typer.BadParameter(f"{path} is neither a file nor file.py:function nor module:function")
    if path.suffix == ".py":
        raise typer.BadParameter(f"which of its functions? {path}:name")
    try:
        program = parse_program(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{path} is no text of an Atlas program: {error}") from error
    verify(program)
    grid = _grid(program, lanes)
    sizes, scalars = _sizes(program, parse_arguments(arguments)) if arguments else ((), ())
    match = recognise(program, grid, scalars, sizes) if arguments else None
    said = (
        str(match or "no tuned kernel computes this")
        if arguments
        else "give --args to see if it is recognised"
    )
    step = Step(program, tuple(range(len(program.buffers))), scalars, grid)
    sources, passes = {}, {}
    with recorded() as forming:
        form = canonical(program)
    for name in names:
        with recorded() as trail:
            sources[name] = _source(replace(step, kernel=form), match, name)
        passes[name] = explained_passes([*forming, *trail])
    text = canonical_text(program)
    return ExplainedProgram(program.name, identity(program), text, grid, said, passes, sources)


def _sizes(program: Program, given: Arguments) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The elements of each buffer, and the scalars."""
    buffers = [b for b in given.positional if isinstance(b, TensorArgument)]
    wanted = [b.dtype for b in program.buffers]
    names = [s.name for s in program.scalars]
    if (
        [b.dtype for b in buffers] != wanted
        or len(buffers) != len(given.positional)
        or set(given.named) != set(names)
    ):
        need = ", ".join([*(f"{b.dtype}[...]" for b in program.buffers), *(f"{n}=..." for n in names)])
        raise typer.BadParameter(f"--args: {program.name} takes {need}")
    return tuple(b.size for b in buffers), tuple(given.named[n] for n in names)


def _source(step: Step, match: Recognition | None, backend: str) -> str:
    """For the device that would be opened, or else a usual one."""
    try:
        if backend != "auto" and not registry.probe(backend).available:
            return _sources(
                step, match, registry.reference_limits(backend), functools.partial(registry.source, backend)
            )
        with Executor(backend=backend) as executor:
            return _sources(step, match, executor.limits, executor.device.source)
    except UnsupportedDType as error:
        return f"none: {error}"


def _sources(step: Step, match: Recognition | None, limits: Limits, source: Callable[..., str]) -> str:
    """The text of every kernel that runs."""
    steps = match.plan(Target(limits)).steps if match is not None and match.pays(limits) else (step,)
    return "\n".join(source(s.kernel, s.grid, s.scalars) for s in steps)


def _grid(program: Program, lanes: str) -> tuple[int, ...]:
    sizes = lanes.split(",") if lanes else [str(USUAL_LANES)] * program.rank
    if len(sizes) != program.rank or not all(s.strip().isdecimal() for s in sizes):
        axes = f"{program.rank} axes" if program.rank != 1 else "1 axis"
        raise typer.BadParameter(f"--lanes: {program.name} has {axes}, got {lanes!r}")
    return tuple(map(int, sizes))


def _block(text: str) -> str:
    return indent(text.rstrip("\n"), "    ", lambda line: bool(line.strip()))
