"""A saved program, loaded: a callable like the function, of the arguments that the file was made for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter, is_
from typing import Any

import numpy as np

from hologram.compiler.fusion.control import parts_of
from hologram.compiler.fusion.graph import Graph
from hologram.foundation.display import size
from hologram.foundation.errors import FormatError, HologramError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend.control.primitives import evaluated
from hologram.frontend.jit.compiled import Compiled, Trace, ready
from hologram.frontend.jit.explain import Explanation, explained, explained_elsewhere
from hologram.frontend.saved.container import WRONG, Line, Reading
from hologram.frontend.saved.forms import (
    Form,
    OfNumber,
    OfTensor,
    Unlike,
    form_from,
    leaves_of,
    making,
    taken,
)
from hologram.frontend.saved.graphs import GraphReader, used_dtypes
from hologram.frontend.saved.numbers import formulas_from
from hologram.frontend.saved.operations import derivative_from, launch_from, plan_from, program_from
from hologram.frontend.saved.values import dtype_of, inside, layout_from
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.launches import checks

layout_of = attrgetter("layout")
tracers = Dispatch.tracers
PLAIN = {Tensor}
MOST_MET = 256  # layouts of plain tensors that calls are looked up by


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
        named = ((name, form, rest[name]) for name, form in self.named.items())
        for name, form, x in (*zip(self.names, self.positional, given, strict=True), *named):
            try:
                taken(form, x, tensors, numbers)
            except Unlike as unlike:
                unlike.name = name or "an argument"
                raise
        return tensors, numbers


def _counted(count: int, names: Iterable[str]) -> str:
    return " and ".join([f"{count} argument{'' if count == 1 else 's'}", *names])


@frozen(eq=False)
class Entry:
    """One signature of a program, ready to be compiled when it is first called."""

    signature: Signature
    trace: Trace
    given: tuple[Any, ...]  # numbers like those of a call
    line: Line

    @cached_property
    def layouts(self) -> list[Layout]:
        """Of the tensors among the arguments."""
        return [leaf.layout for leaf in self.signature.leaves if isinstance(leaf, OfTensor)]


class SavedProgram:
    """A function that was saved, on one executor: `program(*arguments)` gives what the function did.

    Arguments are tensors of the executor or NumPy's arrays, results are tensors. Functions of hg.jit may call it, and
    hg.grad, hg.vmap and hg.jvp go through it.
    """

    def __init__(self, path: str | os.PathLike[str], executor: Any) -> None:
        self.executor = executor
        self.path = os.fspath(path)
        self.name = "program"
        self.version = ""
        self.fast_math = False
        self.weights: dict[int, Tensor] = {}
        self._entries: list[Entry] = []
        self._made: dict[int, Any] = {}
        self._graph: GraphReader | None = None
        self._compiled: dict[int, Compiled] = {}
        self._met: dict[Any, Compiled] = {}
        self._lock = threading.Lock()
        reading = Reading(path)
        for line in reading.lines:
            try:
                self._take(line)
            except (*WRONG, HologramError) as error:
                if isinstance(error, HologramError) and line.kind == "weight":
                    raise  # the device has not the dtype, or no room
                raise line.refused(error) from error
        reading.ended()
        if not self._entries or self._graph is not None:
            raise FormatError(self.path, "lines", 12, "they end before a signature")
        for entry in self._entries:
            for operation, dtype in used_dtypes(entry.trace.graph):
                checks.check_dtype(executor, operation, dtype)
        self._made.clear()

    # Reading.

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
        self.weights[line.number] = self.executor.tensor(values)

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
        self._entries.append(Entry(signature, trace, tuple(given), line))

    def _captured(self, line: Line, number: Any, written: Any) -> Tensor:
        weight, layout = self.weights.get(number), layout_from(written)
        if weight is None or weight.dtype is not layout.dtype or not inside(layout, weight.size):
            raise line.wrong("captured", f"{layout} does not lie in weights of a line before")
        return Tensor(weight.buffer, layout)

    # Calls.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results; raises ShapeError where the file has no program for such arguments."""
        if not kwargs and not tracers and set(map(type, args)) == PLAIN:
            met = self._met.get(tuple(map(layout_of, args)))
            if met is not None:
                return met(args)  # which refuses tensors of another executor
        return self._sorted_out(args, kwargs)

    def _sorted_out(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        number, given, numbers = self._chosen(args, kwargs)
        entry = self._entries[number]
        tensors = [self._own(x) for x in given]
        if (tracers and self.executor.tracer is not None) or any(type(x) is not Tensor for x in tensors):
            return self._followed(entry, tensors, numbers)
        placed = [x if x.layout is at else x.clone() for x, at in zip(tensors, entry.layouts, strict=True)]
        compiled = self._ready(number)
        result = compiled(placed, numbers)
        for k in compiled.donated:
            if isinstance(given[k], Tensor) and given[k].buffer.block is not None:
                given[k].buffer.free()  # of what was copied to be donated
        plain = not kwargs and set(map(type, args)) == PLAIN
        if plain and all(map(is_, args, placed)) and len(self._met) < MOST_MET:
            self._met[tuple(map(layout_of, args))] = compiled
        return result

    def _chosen(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, list[Any], list[Any]]:
        """Which signature a call has, its tensors and its numbers."""
        reasons = []
        for number, entry in enumerate(self._entries):
            try:
                return (number, *entry.signature.arguments(args, kwargs))
            except Unlike as unlike:
                reasons.append(str(unlike))
        if len(reasons) == 1:
            raise ShapeError(f"{self.name}: {reasons[0]}; the file takes {self._entries[0].signature}")
        taken = "".join(
            f"\n  {e.signature}, but {why}" for e, why in zip(self._entries, reasons, strict=True)
        )
        raise ShapeError(f"{self.name}: the file takes one of{taken}")

    def _own(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return self.executor.tensor(x)
        if x.executor is not self.executor:
            raise ShapeError(f"{self.name}: it was loaded on {self.executor}, got a tensor of {x.executor}")
        return x

    def _ready(self, number: int) -> Compiled:
        compiled = self._compiled.get(number)
        if compiled is None:
            with self._lock:
                entry = self._entries[number]
                make = making(entry.signature.results)
                try:
                    compiled = ready(entry.trace, self.executor, entry.given, make, self.fast_math)
                except WRONG as error:
                    if isinstance(error, HologramError):
                        raise
                    raise entry.line.refused(error) from error
                self._compiled[number] = compiled
        return compiled

    def _followed(self, entry: Entry, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """A call under a trace or a derivative: operation by operation."""
        formulas = entry.trace.formulas
        places = formulas.places(numbers)
        held = [
            self.executor.tensor(np.frombuffer(formulas.memory(dtype, places), dtype.numpy))
            for dtype in formulas.wanted
        ]
        weights = [_memory(x) for x in entry.trace.captured]
        outputs = evaluated(entry.trace.graph, [*tensors, *weights, *held], self.executor)
        made = [*outputs, *(places[n.place] for n in formulas.returned)]
        return making(entry.signature.results, _viewed)(made)

    # What it is.

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """What it takes and gives, once for each example that it was saved for."""
        return tuple(entry.signature for entry in self._entries)

    def dispatches(self, signature: int = 0) -> int:
        """Kernels that a call of a signature launches."""
        return self._ready(signature).dispatches

    def explain(self, signature: int = 0, backend: str | None = None) -> Explanation:
        """What a call of a signature runs here, or would on a backend, and why; nothing is computed. Print it."""
        compiled = self._ready(signature)
        if backend is not None:
            return explained_elsewhere(compiled, backend, self.fast_math)
        return explained(compiled, self.executor, self.fast_math)

    def __str__(self) -> str:
        """What is in the file."""
        total = sum(w.nbytes for w in self.weights.values())
        lines = [
            f"{self.name}, saved by hologram {self.version}",
            f"weights {len(self.weights)}, {size(total)}",
        ]
        for entry in self._entries:
            operations = sum(len(part.nodes) for part in parts_of(entry.trace.graph))
            lines.append(f"{self.name}{entry.signature}, {operations} operations")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<saved program {self.name} on {self.executor}>"


WHOLE: dict[str, Callable[[Line, Mapping[int, Any]], Any]] = {
    "program": program_from,
    "launch": launch_from,
    "derivative": derivative_from,
    "plan": plan_from,
}
PARTS: dict[str, Callable[[GraphReader, Line, Mapping[int, Any]], None]] = {
    "node": GraphReader.node,
    "loop": GraphReader.loop,
    "choice": GraphReader.choice,
}
OWN: dict[str, Callable[[SavedProgram, Line], None]] = {
    "head": SavedProgram._head,
    "inputs": SavedProgram._inputs,
    "weight": SavedProgram._weight,
    "signature": SavedProgram._signature,
}


def _memory(x: Tensor) -> Tensor:
    """All elements of a tensor's memory in a row: what layouts over it are views of."""
    return Tensor(x.buffer, Layout.contiguous(x.dtype, (x.buffer.size,)))


def _viewed(output: int, layout: Layout) -> Callable[[Sequence[Any]], Any]:
    """A tensor of the result: one that is given, seen through a layout."""
    return lambda outputs: outputs[output]._view(layout)


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
