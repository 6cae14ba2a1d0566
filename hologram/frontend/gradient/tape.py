"""The tape: what a function asks of an executor is done at once, and noted so that it can be followed backwards.

It is a tracer like that of hg.jit, and requests of its own go to whoever traced the thread before: another tape, for
derivatives of derivatives, or the recorder of a function that is jitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import GradientError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend import tensor as tensors
from hologram.frontend.gradient.cotangent import Cotangent
from hologram.frontend.gradient.launches import launch, launched_again
from hologram.frontend.gradient.tracked import Cell, Tracked, Variable
from hologram.frontend.jit.launched import Launched
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import mapped
from hologram.machine.layout import Layout
from hologram.opset.forms.gradient import Rule, rules_of
from hologram.opset.forms.operation import Operation
from hologram.opset.movement import cast, overwrite
from hologram.runtime.dispatch import Request, Tracer, traced_by
from hologram.runtime.engine import Engine

FLOWING = ("cotangent", "cotangents")  # what rules read that comes backwards


class ClosedOver(GradientError):
    """A function that is compiled on its own closes over a tensor that is differentiated."""


@frozen
class Node:
    """A step that was taken: the rules backwards, what they read, where their operands came from."""

    rules: Sequence[Rule]
    known: Mapping[str, Any]
    sources: Mapping[str, tuple[Variable, Layout]]  # of operands that are differentiated
    results: Sequence[Variable | None]


class Tape:
    """Takes the requests of a thread that runs a function which is differentiated."""

    def __init__(self, who: str, outer: Tracer | None, executor: Engine) -> None:
        self.who = who
        self.executor = executor  # the default one inside
        self.outer = outer
        self.nodes: list[Node] = []

    # What it is asked for: see hologram.runtime.dispatch.

    def take(self, request: Request, action: str, arguments: tuple[Any, ...]) -> Any:
        """Follows a request that FOLLOWED knows; passes on any other, if nothing it is about is differentiated."""
        follow = FOLLOWED.get(request)
        if follow is not None:
            return follow(self, *arguments)
        return self.below(request, action, *(self._plain(x, action) for x in arguments))

    @property
    def root(self) -> Tracer | None:
        """Who takes requests beneath all tapes: the recorder of a function that is jitted, or nobody."""
        return self.outer.root if isinstance(self.outer, Tape) else self.outer

    def below(self, request: Request, action: str, *arguments: Any) -> Any:
        """What the request gives where this tape does not listen."""
        with traced_by(self.outer):
            return request(*arguments) if self.outer is None else self.outer.take(request, action, arguments)

    def _plain(self, x: Any, action: str) -> Any:
        if isinstance(x, Tracked) and x.buffer.tape is self:
            return x._constant(action)
        if isinstance(x, (list, tuple)):
            return type(x)(self._plain(each, action) for each in x)
        return x

    def empty(self, engine: Engine, shape: tuple[int, ...], dtype: DType) -> Tracked:
        return self.tracked(self.below(tensors.make_empty, "empty", engine, shape, dtype))

    def full(
        self, engine: Engine, shape: tuple[int, ...], value: bool | int | float, dtype: DType
    ) -> Tracked:
        return self.tracked(self.below(tensors.make_full, "full", engine, shape, value, dtype))

    def constant(self, engine: Engine, values: np.ndarray, source: Any = None) -> Tracked:
        return self.tracked(self.below(tensors.make_constant, "tensor", engine, values, source))

    def apply(
        self, engine: Engine, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """New tensors with an operation's results."""
        if isinstance(operation, Launched):
            return launched_again(self, engine, operation, operands)
        given = tensors.operands_of(engine, operation, operands)
        plain = [x.beneath if self.owns(x) else x for x in given]
        returned = self.below(tensors.evaluated, operation.name, engine, operation, plain, attributes)
        results = returned if isinstance(returned, tuple) else (returned,)
        names = operation.operand_names(len(given))
        sources = {
            name: (x.buffer.variable, x.layout)
            for name, x in zip(names, given, strict=True)
            if self.follows(x)
        }
        variables: Sequence[Variable | None] = [None] * len(results)
        if sources:
            variables = self._noted(
                operation, dict(zip(names, plain, strict=True)), attributes, results, sources
            )
        tracked = tuple(self.tracked(r, v) for r, v in zip(results, variables, strict=True))
        return tracked if isinstance(returned, tuple) else tracked[0]

    def copy(self, engine: Engine, source: Any, target: Any) -> None:
        """Writes a tensor into another, which has another value from now on."""
        self.writable(target)
        cell, layout = target.buffer, target.layout
        shown = source.expand(layout.shape)
        whole = Tracked(cell, cell.tensor.layout)
        if layout.is_contiguous and layout.size == whole.size:
            new = self.apply(engine, cast, [shown], {"dtype": layout.dtype.name})
        else:
            new = self.apply(engine, overwrite, [whole, shown], {"part": layout})
        cell.tensor, cell.variable = new.buffer.tensor.reshape(whole.shape), new.buffer.variable

    def writable(self, target: Any) -> None:
        """Raises GradientError, ShapeError for a tensor that the function must not write to."""
        if not self.owns(target):
            raise GradientError(
                f"{self.who}: a tensor of shape {target.shape} that it closes over is written to; return the new value"
            )
        cell, layout = target.buffer, target.layout
        cell.check_writable(cell.is_argument, "return the new value instead")
        if not layout.is_writable:
            raise ShapeError(f"{self.who}: what is of an expanded view cannot be written to, got {layout}")

    def replace(self, engine: Engine, target: Tracked, new: Tracked) -> None:
        """Gives what a tensor shows another value, of its shape."""
        cell, whole = target.buffer, target.buffer.tensor.layout
        if target.layout.is_contiguous and target.size == whole.size:
            cell.tensor, cell.variable = new.buffer.tensor.reshape(whole.shape), new.buffer.variable
        else:
            self.copy(engine, new, target)

    # Recording.

    def note(
        self, rule: Rule, sources: Mapping[str, tuple[Variable, Layout]], results: Sequence[Variable | None]
    ) -> None:
        """A step whose rule has what it reads, except cotangents."""
        self.nodes.append(Node([rule], {}, sources, results))

    def owns(self, x: Any) -> bool:
        return isinstance(x, Tracked) and x.buffer.tape is self

    def follows(self, x: Any) -> bool:
        """Whether a tensor of floats or complex numbers depends on what is differentiated with respect to."""
        return self.owns(x) and x.buffer.variable is not None and x.dtype.is_inexact

    def beneath(self, tree: Any) -> Any:
        """Its tensors as those beneath the tape."""
        return mapped(tree, lambda x: x.beneath if self.owns(x) else x)

    def tracked(self, tensor: Tensor, variable: Variable | None = None) -> Tracked:
        """A tensor from beneath, for the function to work with."""
        return Tracked(Cell(self, self.who, tensor, variable), tensor.layout)

    def argument(self, tensor: Tensor) -> tuple[Tracked, Variable]:
        """A tensor that is differentiated with respect to."""
        whole = tensor.contiguous()
        variable = Variable(whole.layout)
        return Tracked(Cell(self, self.who, whole, variable, is_argument=True), whole.layout), variable

    def _noted(
        self,
        operation: Operation,
        operands: Mapping[str, Any],
        attributes: Mapping[str, Any],
        results: Sequence[Tensor],
        sources: Mapping[str, tuple[Variable, Layout]],
    ) -> Sequence[Variable | None]:
        """Variables for those results that depend on the sources, noted with the rules that lead back."""
        inputs = [x.layout if isinstance(x, Tensor) else x for x in operands.values()]
        layouts = [r.layout for r in results]
        rules = rules_of(operation, inputs, layouts, attributes, tuple(sources))
        if not rules:
            return [None] * len(results)
        everything = {**operands, **attributes, "inputs": inputs, "results": results, "result": results[0]}
        everything["wanted"] = tuple(sources)
        reads = {name for rule in rules for name in rule.reads if name not in FLOWING}
        variables = [Variable(x) if x.dtype.is_inexact else None for x in layouts]
        self.nodes.append(Node(rules, {name: everything[name] for name in reads}, sources, variables))
        return variables

    # Backwards.

    def backward(
        self, seeds: Sequence[tuple[Tracked, Tensor]], wanted: Sequence[Variable], *, keep: bool = False
    ) -> list[Tensor | None]:
        """The cotangents of variables from those of results; nodes are let go on the way unless they are kept."""
        flows: dict[Variable, Cotangent] = {}

        def arrive(variable: Variable, read: Layout, cotangent: Tensor) -> None:
            if read.size:
                flows.setdefault(variable, Cotangent(variable.layout)).add(read, cotangent)

        for tensor, cotangent in seeds:
            if tensor.buffer.variable is not None:
                arrive(tensor.buffer.variable, tensor.layout, cotangent)
        nodes = list(self.nodes) if keep else self.nodes
        while nodes:
            node = nodes.pop()
            arrived = [flows.pop(v, None) if v is not None else None for v in node.results]
            if not any(arrived):
                continue
            cotangents = _filled(node.results, [a and a.total() for a in arrived])
            for rule in node.rules:
                pulled = rule.apply({**node.known, "cotangent": cotangents[0], "cotangents": cotangents})
                for name, value in zip(rule.operands, pulled, strict=True):
                    if value is not None and name in node.sources:
                        arrive(*node.sources[name], value)
        return [flows[v].total() if v in flows else None for v in wanted]


def _filled(results: Sequence[Variable | None], cotangents: Sequence[Tensor | None]) -> list[Tensor]:
    """A cotangent for every result that can have one: zeros where none arrived."""
    executor = next(c.executor for c in cotangents if c is not None)
    return [
        tensors.full(executor, v.layout.shape, 0, v.layout.dtype) if c is None else c
        for v, c in zip(results, cotangents, strict=True)
        if v is not None
    ]


def detached(engine: Engine, x: Tensor) -> Tensor:
    """The tensor as a constant: see stop_gradient."""
    return x


def _detached(tape: Tape, engine: Engine, x: Any) -> Any:
    beneath = tape.below(detached, "stop_gradient", engine, x.beneath if tape.owns(x) else x)
    return Tracked(Cell(tape, tape.who, beneath, None, is_argument=True), beneath.layout)


FOLLOWED: dict[Request, Callable[..., Any]] = {
    tensors.make_empty: Tape.empty,
    tensors.make_full: Tape.full,
    tensors.make_constant: Tape.constant,
    tensors.evaluated: Tape.apply,
    Engine._copy_elements: Tape.copy,
    Engine._launch: launch,
    detached: _detached,
}
