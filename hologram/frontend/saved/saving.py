"""`hg.save_program`: traces a function for some calls, and writes what it does into a file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import hologram
from hologram.foundation.errors import BufferFreed, ShapeError, TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.compiled import Trace, traced
from hologram.frontend.jit.jitted import Bound, Jitted
from hologram.frontend.jit.number import TracedNumber, Unfit
from hologram.frontend.jit.signature import LEAVES, Call, call_of, is_number, tensors_of
from hologram.frontend.jit.traced import Traced
from hologram.frontend.saved.container import Writing
from hologram.frontend.saved.forms import (
    Form,
    OfNumber,
    OfTensor,
    OfValue,
    as_entered,
    form_of,
    form_to,
)
from hologram.frontend.saved.graphs import write_graph
from hologram.frontend.saved.numbers import formulas_to
from hologram.frontend.saved.operations import Operations
from hologram.frontend.saved.values import kept_to, layout_to
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import mapped
from hologram.machine.layout import Layout
from hologram.runtime.memory.buffer import Buffer

ENDING = ".holo"


class Arguments:
    """The arguments of one call, as they would be given: `hg.Arguments(x, mask=mask)`."""

    __slots__ = ("__weakref__", "args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        return None, {"args": self.args, "kwargs": self.kwargs}

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={x!r}" for name, x in self.kwargs.items())]
        return f"Arguments({', '.join(given)})"


def save_program(path: str | os.PathLike[str], function: Callable[..., Any], *examples: Any) -> None:
    """Writes what a function does, with the tensors that it closes over, to a file that runs on any backend.

        hg.save_program("step.holo", step, x, weight)
        hg.load("step.holo")(x, weight)

    The function, jitted or not, is traced as hg.jit does it: once for the shapes, dtypes and trees of the arguments
    `examples`. A function for several is saved with `hg.Arguments(...)` for each call, which also names arguments.
    Python's numbers stay numbers of each call, unless their values were asked for. Tensors that it closes over are
    weights, with what they hold now; packed weights stay packed. See docs/saved.md.

    Raises:
        TraceError: the function cannot be traced, or does what a file cannot hold: the message says what.
        ValueError: the file's name does not end in `.holo`, by which hg.load knows it.
    """
    write_program(path, [(function, example) for example in calls_of(examples)])


def calls_of(examples: Sequence[Any]) -> Sequence[Arguments]:
    """The calls that examples stand for: each is one, or they are the arguments of one."""
    alone = bool(examples) and all(isinstance(e, Arguments) for e in examples)
    return examples if alone else (Arguments(*examples),)


def write_program(
    path: str | os.PathLike[str], cases: Sequence[tuple[Any, Arguments]], name: str | None = None
) -> None:
    """Writes functions, each for the arguments of a call, as one: a call runs that which has its form."""
    if os.path.splitext(path)[1].lower() != ENDING:
        raise ValueError(
            f"save_program: the name must end in {ENDING}, by which hg.load knows it, got {os.fspath(path)!r}"
        )
    file = Writing()
    made = [case_of(function, example) for function, example in cases]
    first = made[0]
    jitted = first.jitted
    file.add("head", name=name or jitted.who, hologram=hologram.__version__, fast_math=jitted.fast_math)
    weights = Weights(file)
    for case in made:
        if case.call.executor is not first.call.executor:
            raise ShapeError("save_program: all tensors must belong to one executor")
        weights.note(case.trace.captured)
    operations = Operations(file, first.call.executor.target)
    for case in made:
        _write_signature(file, operations, weights, case)
    file.write(path)


@frozen(eq=False)
class Case:
    """A function in a call."""

    jitted: Any  # of Jitted, which is a method where a class has it
    names: tuple[str | None, ...]  # of positional arguments, by which they may be given too
    example: Arguments
    call: Call
    trace: Trace
    asked: frozenset[int]  # numbers for whose values alone it was traced


def _jitted(function: Any) -> tuple[Jitted, tuple[Any, ...]]:
    """The function as hg.jit takes it, and what comes before its arguments: of a method its instance."""
    if isinstance(function, Bound):
        jitted: Any = function.jitted
        return jitted, (function.instance,)
    return function if isinstance(function, Jitted) else Jitted(function), ()


def case_of(traceable: Any, example: Arguments) -> Case:
    """Traces a function for a call."""
    jitted, bound = _jitted(traceable)
    args, kwargs = (mapped(x, _contiguous) for x in (example.args, example.kwargs))
    call = call_of(jitted.who, args, kwargs)
    if call.traced:
        raise TraceError("save_program: it is called while a function is traced; call it outside")
    function = partial(jitted.function, *bound) if bound else jitted.function
    donated = [k for argument in jitted.donate for k in _donated(args, argument - len(bound))]
    fixed: frozenset[int] = frozenset()
    try:
        trace = traced(function, jitted.who, args, kwargs, call, donated, fixed)
    except Unfit as unfit:
        fixed = unfit.numbers
        trace = traced(function, jitted.who, args, kwargs, call, donated, fixed)
    names = _names(jitted.function, len(bound), len(args))
    return Case(jitted, names, example, call, trace, fixed | trace.formulas.asked.keys())


def _donated(args: Sequence[Any], argument: int) -> Iterable[int]:
    if not 0 <= argument < len(args):
        raise TraceError(f"save_program: donate names argument {argument}, got {len(args)} positional ones")
    return tensors_of(args, argument)


def _contiguous(x: Any) -> Any:
    if not isinstance(x, Tensor) or x.layout is Layout.contiguous(x.dtype, x.shape):
        return x
    return x.clone()


class Weights:
    """The tensors that functions close over: of each buffer the elements up to the last that is seen, once."""

    def __init__(self, file: Writing) -> None:
        self._file = file
        self._seen: dict[int, tuple[Buffer, int]] = {}
        self._lines: dict[int, int] = {}

    def note(self, captured: Sequence[Tensor]) -> None:
        """Counts in what is seen of buffers."""
        for x in captured:
            if x.buffer.freed:
                raise BufferFreed(f"save_program: a tensor of shape {x.shape} that is closed over was freed")
            _, size = self._seen.get(id(x.buffer), (x.buffer, 0))
            self._seen[id(x.buffer)] = (x.buffer, max(size, x.layout.span[1]))

    def line(self, x: Tensor) -> int:
        """The line of the weights that a tensor sees."""
        buffer, size = self._seen[id(x.buffer)]
        if id(buffer) not in self._lines:
            flat = Tensor(buffer, Layout.contiguous(x.dtype, (size,)))
            self._lines[id(buffer)] = self._file.weight(x.dtype, flat.to_numpy())
        return self._lines[id(buffer)]


def _write_signature(file: Writing, operations: Operations, weights: Weights, case: Case) -> None:
    call, trace, example = case.call, case.trace, case.example
    tensors, numbers = iter(call.tensors), iter(enumerate(call.numbers))

    def argument(leaf: Any) -> Form:
        if is_number(leaf):
            place, known = next(numbers)
            return OfNumber(known, place in case.asked)
        if isinstance(leaf, LEAVES):
            return OfTensor(next(tensors).layout)
        return OfValue(_plain(leaf, "an argument"))

    positional = [form_to(form_of(x, argument)) for x in example.args]
    named = {name: form_to(form_of(example.kwargs[name], argument)) for name in sorted(example.kwargs)}
    captured = [[weights.line(x), layout_to(x.layout)] for x in trace.captured]
    results = form_to(_results(trace))
    graph = write_graph(trace.graph, file, operations)
    file.add(
        "signature",
        graph=graph,
        names=case.names,
        positional=positional,
        named=named,
        captured=captured,
        numbers=formulas_to(trace.formulas, call.numbers),
        results=results,
    )


def _results(trace: Trace) -> Form:
    """The form of what is returned; numbers of the call are noted as results."""
    places = iter(trace.positions)
    outputs, returned = len(trace.graph.outputs), trace.formulas.returned

    def result(leaf: Any) -> Form:
        if isinstance(leaf, Traced):
            return OfTensor(leaf.layout, next(places))
        if isinstance(leaf, TracedNumber):
            returned.append(leaf)
            return OfNumber(leaf.known, output=outputs + len(returned) - 1)
        return OfValue(_plain(leaf, "a result"))

    return as_entered(form_of(trace.tree, result), trace.tree)


def _plain(leaf: Any, what: str) -> Any:
    try:
        kept_to(leaf)
    except TraceError as error:
        raise TraceError(f"save_program: {what}: {error}") from error
    return leaf


def _names(function: Callable[..., Any], first: int, count: int) -> tuple[str | None, ...]:
    """Names of `count` positional parameters from the first on; None where one has none to be given by."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of C
        parameters = []
    names = [p.name if p.kind is p.POSITIONAL_OR_KEYWORD else None for p in parameters[first:]]
    return tuple([*names, *[None] * count][:count])
