"""The lines of a file as programs: each kind of line has what reads it, in the order in which lines stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

from hologram.compiler.fusion.graph import Graph
from hologram.foundation.errors import FormatError, HologramError
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.compiled import Trace
from hologram.frontend.saved.container import WRONG, Line, Reading
from hologram.frontend.saved.forms import (
    Form,
    OfNumber,
    OfTensor,
    Unlike,
    form_from,
    leaves_of,
    taken,
)
from hologram.frontend.saved.graphs import GraphReader
from hologram.frontend.saved.numbers import formulas_from
from hologram.frontend.saved.operations import derivative_from, launch_from, plan_from, program_from
from hologram.frontend.saved.values import dtype_of, inside, layout_from
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout


@frozen
class Signature:
    """What a call of a saved program is given, and what it gives."""

    names: tuple[str | None, ...]
    positional: tuple[Form, ...]
    named: Mapping[str, Form]
    results: Form

    def __str__(self) -> str:
        given = [f"{n}: {f}" if n else str(f) for n, f in zip(self.names, self.positional, strict=True)]
        given += [f"{name}={form}" for name, form in self.named.items()]
        return f"({', '.join(given)}) -> {self.results}"

    @property
    def leaves(self) -> list[Any]:
        return [leaf for form in (*self.positional, *self.named.values()) for leaf in leaves_of(form)]

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """The tensors and the numbers of a call; raises Unlike where it is another."""
        given = list(args)
        rest = dict(kwargs)
        for name in self.names[len(given) :]:
            if name is None or name not in rest:
                break
            given.append(rest.pop(name))
        if len(given) != len(self.positional) or rest.keys() != self.named.keys():
            unlike = Unlike(_counted(len(self.positional), self.named), _counted(len(args), kwargs))
            unlike.name = "what it is given"
            raise unlike
        tensors: list[Any] = []
        numbers: list[Any] = []
        name = None
        try:
            for name, form, x in zip(self.names, self.positional, given):  # noqa: B007, B905  # of one length; errors name it
                taken(form, x, tensors, numbers)
            for name, form in self.named.items():
                taken(form, rest[name], tensors, numbers)
        except Unlike as unlike:
            unlike.name = name or "an argument"
            raise
        return tensors, numbers


def _counted(count: int, names: Iterable[str]) -> str:
    return " and ".join([f"{count} argument{'' if count == 1 else 's'}", *names])


@frozen(eq=False)
class Entry:
    """One signature of a program, and what it runs."""

    signature: Signature
    trace: Trace
    given: tuple[Any, ...]  # numbers like those of a call
    place: tuple[str, int]  # the field of the file, and its offset

    @cached_property
    def layouts(self) -> list[Layout]:
        """Of the tensors among the arguments."""
        return [leaf.layout for leaf in self.signature.leaves if isinstance(leaf, OfTensor)]


class Contents:
    """What is in a file: `weights` on an executor, by line, and `entries`. Raises FormatError."""

    def __init__(self, path: str | os.PathLike[str], executor: Any) -> None:
        self.name = ""
        self.version = ""  # of hologram that saved it
        self.fast_math = False
        self.weights: dict[int, Tensor] = {}
        self.entries: list[Entry] = []
        self._executor = executor
        self._made: dict[int, Any] = {}  # programs, operations and graphs, by line
        self._graph: GraphReader | None = None  # whose lines are being read
        with closing(Reading(path)) as reading:
            for line in reading.lines:
                try:
                    self._take(line)
                except (*WRONG, HologramError) as error:
                    if isinstance(error, HologramError) and line.kind == "weight":
                        raise  # the device has not the dtype, or no room
                    raise line.refused(error) from error
            reading.ended()
        if not self.entries or self._graph is not None:
            raise FormatError(path, "lines", 12, "they end before a signature")

    def _take(self, line: Line) -> None:
        if (line.number == 0) != (line.kind == "head"):
            raise line.wrong("is", "the first line, and no other, must be the head")
        if self._graph is not None and line.kind in PARTS:
            PARTS[line.kind](self._graph, line, self._made)
        elif self._graph is not None and line.kind == "outputs":
            self._made[line.number], self._graph = self._graph.finished(line), None
        elif self._graph is None and line.kind in WHOLE:
            self._made[line.number] = WHOLE[line.kind](line, self._made)
        elif self._graph is None and line.kind in OWN:
            OWN[line.kind](self, line)
        else:
            raise line.wrong("is", "no such line may stand here")

    def _head(self, line: Line) -> None:
        self.name, self.version = line.take("name", str), line.take("hologram", str)
        self.fast_math = line.take("fast_math", bool)

    def _inputs(self, line: Line) -> None:
        self._graph = GraphReader(line)

    def _weight(self, line: Line) -> None:
        values = line.file.weight(line, dtype_of(line.content.get("dtype")))
        self.weights[line.number] = self._executor.tensor(values)

    def _signature(self, line: Line) -> None:
        graph = self._made.get(line.count("graph"))
        if not isinstance(graph, Graph):
            raise line.wrong("graph", "the number of a line before that ends a graph is needed")
        names = tuple(line.take("names", list))
        positional = tuple(map(form_from, line.take("positional", list)))
        named = {name: form_from(x) for name, x in line.take("named", dict).items()}
        if len(names) != len(positional) or not all(n is None or type(n) is str for n in names):
            raise line.wrong("names", "each argument has one, or none")
        signature = Signature(names, positional, named, form_from(line.content.get("results")))
        captured = tuple(self._captured(line, *each) for each in line.take("captured", list))
        formulas, given = formulas_from(line.take("numbers", dict))
        tensors = [leaf.layout for leaf in signature.leaves if isinstance(leaf, OfTensor)]
        numbers = [leaf for leaf in signature.leaves if isinstance(leaf, OfNumber)]
        wanted = [Layout.contiguous(dtype, (len(n),)) for dtype, n in formulas.wanted.items()]
        if [*tensors, *(x.layout for x in captured), *wanted] != list(graph.inputs.values()):
            raise line.wrong("graph", "its inputs must be the tensors, what is closed over, and the numbers")
        if [type(n.known) for n in numbers] != list(map(type, given)):
            raise line.wrong("numbers", "they must be those of the arguments")
        if any(not x.is_contiguous or x.offset for x in tensors):
            raise line.wrong("positional", "tensors must be contiguous")
        own = list(graph.inputs)[: len(tensors)]
        if not graph.donated <= set(own):
            raise line.wrong("graph", "only arguments can be donated")
        formulas.asked.update({k: "" for k, n in enumerate(numbers) if n.fixed})
        _check_results(line, signature.results, graph, len(formulas.returned))
        donated = tuple(k for k, value in enumerate(own) if value in graph.donated)
        trace = Trace(self.name, graph, captured, None, (), formulas, donated)
        self.entries.append(Entry(signature, trace, tuple(given), line.place("")))

    def _captured(self, line: Line, number: Any, written: Any) -> Tensor:
        weight, layout = self.weights.get(number), layout_from(written)
        if weight is None or weight.dtype is not layout.dtype or not inside(layout, weight.size):
            raise line.wrong("captured", f"{layout} does not lie in weights of a line before")
        return Tensor(weight.buffer, layout)


WHOLE: dict[str, Callable[[Line, Mapping[int, Any]], Any]] = {
    "program": program_from,
    "launch": launch_from,
    "derivative": derivative_from,
    "plan": plan_from,
}
PARTS: dict[str, Callable[[GraphReader, Line, dict[int, Any]], None]] = {
    "node": GraphReader.node,
    "loop": GraphReader.loop,
    "choice": GraphReader.choice,
}
OWN: dict[str, Callable[[Contents, Line], None]] = {
    "head": Contents._head,
    "inputs": Contents._inputs,
    "weight": Contents._weight,
    "signature": Contents._signature,
}


def _check_results(line: Line, form: Form, graph: Graph, numbers: int) -> None:
    """Refuses results that are no outputs."""
    layouts = [graph.layouts[v] for v in graph.outputs]
    for leaf in leaves_of(form):
        if isinstance(leaf, OfTensor):
            at = layouts[leaf.output] if 0 <= leaf.output < len(layouts) else None
            if at is None or at.dtype is not leaf.layout.dtype or not inside(leaf.layout, at.size):
                raise line.wrong("results", f"{leaf.layout} does not lie in an output")
        elif isinstance(leaf, OfNumber) and not 0 <= leaf.output - len(layouts) < numbers:
            raise line.wrong("results", "a number must be one of those that are returned")
