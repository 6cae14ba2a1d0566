"""Batches: a batch is one more axis, ahead of those that the function sees.

A view of an example is a view of all examples, as layouts say. Operations see the axis where they broadcast or take
axes (rules.py); any other goes over the examples in a loop on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hologram.compiler.fusion.graph import Choice, Graph, Loop
from hologram.foundation import dtypes
from hologram.foundation.errors import TraceError
from hologram.frontend import tensor as tensors
from hologram.frontend.control.body import traced_body, united
from hologram.frontend.control.primitives import controlled, evaluated, settled
from hologram.frontend.control.scan import scan
from hologram.frontend.control.state import named
from hologram.frontend.gradient.launches import launched_again
from hologram.frontend.gradient.tape import detached
from hologram.frontend.jit.launched import Launched
from hologram.frontend.tensor import Tensor
from hologram.frontend.transforms import rules
from hologram.frontend.transforms.launches import Call, for_all, launch
from hologram.frontend.transforms.lifted import Lifted, Lifting
from hologram.machine.layout import Layout
from hologram.opset.forms.operation import Operation
from hologram.opset.logic import where
from hologram.opset.reduce import any_
from hologram.runtime.dispatch import Tracer, traced_by, tracing
from hologram.runtime.engine import Engine


class Batching(Lifting):
    """Follows a batch of examples; beside a tensor stands whether it is another for each."""

    what = "of one example of a batch"

    def __init__(self, who: str, outer: Tracer | None, executor: Engine, size: int) -> None:
        super().__init__(who, outer, executor)
        self.size = size

    @property
    def root(self) -> Tracer:
        """See Lifting; elements of one example are as unknown as in a trace."""
        return super().root or self

    def known(self, x: Lifted, what: str) -> Tensor:
        if x.buffer.beside:
            raise TraceError(
                f"{self.who}: {what} of a tensor of shape {x.shape} is another for each of {self.size} examples; "
                "choose with hg.where or hg.cond, or return the tensor"
            )
        return self.all(x)

    def all(self, x: Any) -> Any:
        """A tensor beneath; one that is another for each example has them along a first axis."""
        if not self.owns(x):
            return x
        tensor, layout = x.buffer.tensor, x.layout
        if not x.buffer.beside:
            return tensor._view(layout)
        shape, strides = (self.size, *layout.shape), (x.buffer.layout.size, *layout.strides)
        return tensor._view(Layout(layout.dtype, shape, strides, layout.offset, layout.repeats))

    def batched(self, x: Any) -> bool:
        """Whether a tensor is another for each example."""
        return self.owns(x) and bool(x.buffer.beside)

    def examples(self, tensor: Tensor) -> Lifted:
        """A tensor of the function, of those that lie along the first axis."""
        return self.lifted(tensor, Layout.contiguous(tensor.dtype, tensor.shape[1:]), True)

    def repeated(self, x: Any) -> Tensor:
        """As `all`, with a first axis in any case."""
        tensor = self.all(x)
        return tensor if self.batched(x) else tensor.unsqueeze(0).expand(self.size, *tensor.shape)

    def detach(self, engine: Engine, x: Any) -> Any:
        made = self.below(detached, "stop_gradient", engine, self.all(x))
        return self.examples(made) if self.batched(x) else self.constant(made)

    def apply(
        self, engine: Engine, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        if isinstance(operation, Launched):
            return launched_again(self, engine, operation, operands, launch)
        given = tensors.operands_of(engine, operation, operands)
        flags = [self.batched(x) for x in given]
        if any(flags) and operation.parts is not None:
            parts = operation.parts(operation, *given, **attributes)
            if parts is not None:
                return parts
        with traced_by(self.outer):
            if not any(flags):
                made = tensors.apply(engine, operation, [self.all(x) for x in given], attributes)
                lift: Any = self.constant
            else:
                made = self._applied(engine, operation, given, flags, dict(attributes))
                lift = self.examples
        return tuple(map(lift, made)) if isinstance(made, tuple) else lift(made)

    def _applied(
        self,
        engine: Engine,
        operation: Operation,
        given: Sequence[Any],
        flags: Sequence[bool],
        attributes: dict[str, Any],
    ) -> Any:
        plain = [self.all(x) if isinstance(x, Tensor) else x for x in given]
        case = rules.Case(engine, operation, plain, flags, attributes, self.size)
        made = rules.applied(case)
        return self._in_turn(case) if made is None else made

    def _in_turn(self, case: rules.Case) -> Any:
        """An operation on one example after the other."""
        moving = [x for x, flag in zip(case.operands, case.flags, strict=True) if flag]

        def step(_: Any, rows: Any) -> Any:
            rest = iter(rows)
            operands = [next(rest) if f else x for x, f in zip(case.operands, case.flags, strict=True)]
            return (), tensors.apply(case.engine, case.operation, operands, case.attributes)

        return scan(named(step, self.who), (), moving, length=self.size)[1]

    def launched(self, call: Call) -> Sequence[Lifted]:
        return for_all(self, call)

    def control(self, engine: Engine, control: Loop | Choice, operands: Sequence[Any]) -> tuple[Any, ...]:
        with traced_by(self.outer):
            if not any(map(self.batched, operands)):
                return tuple(map(self.constant, controlled(engine, control, [self.all(x) for x in operands])))
            if isinstance(control, Choice):
                return self._choice(engine, control, operands)
            return self._loop(engine, control, operands)

    def of_graph(self, graph: Graph, operands: Sequence[Any], flags: Sequence[bool]) -> list[Tensor]:
        """The outputs of a graph for all examples."""
        inner = Batching(self.who, tracing(), self.executor, self.size)
        given = [
            inner.examples(x) if flag else inner.constant(x) for x, flag in zip(operands, flags, strict=True)
        ]
        with traced_by(inner):
            results = evaluated(graph, given, self.executor)
        return [inner.repeated(r).contiguous() for r in results]

    def _loop(self, engine: Engine, loop: Loop, operands: Sequence[Any]) -> tuple[Any, ...]:
        """A loop that carries all examples; with a condition it goes on while that of any does."""
        ends = (loop.constants, loop.constants + loop.carried)
        constants = [self.all(x) for x in operands[: ends[0]]]
        known = [self.batched(x) for x in operands[: ends[0]]]
        state = [self.repeated(x) for x in operands[slice(*ends)]]
        rows = [self.all(x) for x in operands[ends[1] :]]
        row_flags = [self.batched(x) for x in operands[ends[1] :]]
        rows = [
            x.permute([1, 0, *range(2, x.ndim)]) if f else x for x, f in zip(rows, row_flags, strict=True)
        ]
        flags = [*known, *[True] * loop.carried]

        def ends_of(carried: Sequence[Any]) -> Any:
            assert loop.condition is not None
            return self.of_graph(loop.condition, [*constants, *carried], flags)[0]

        def step(*given: Any) -> Any:
            carried = given[: loop.carried]
            made = self.of_graph(loop.body, [*constants, *given], [*flags, *row_flags])
            if loop.condition is None:
                return made
            goes = ends_of(carried)
            return [
                where(goes.reshape(self.size, *[1] * (old.ndim - 1)), new, old)
                for new, old in zip(made, carried, strict=True)
            ]

        like = [*state, *(Layout.contiguous(x.dtype, x.shape[1:]) for x in rows)]
        bodies = [traced_body(engine, loop.who, named(step, loop.who), like)]
        if loop.condition is not None:
            bodies.append(traced_body(engine, loop.who, lambda *given: any_(ends_of(given)), state))
        graphs, captured = united(bodies)
        ended = graphs[1] if loop.condition is not None else None
        whole = Loop(loop.who, graphs[0], len(captured), loop.carried, loop.length, loop.reverse, ended)
        results = controlled(engine, whole, [*captured, *state, *rows])
        further = [x.permute([1, 0, *range(2, x.ndim)]) for x in results[loop.carried :]]
        return tuple(map(self.examples, (*results[: loop.carried], *further)))

    def _choice(self, engine: Engine, choice: Choice, operands: Sequence[Any]) -> tuple[Any, ...]:
        """A choice for all examples alike; or of results, where each example has its own."""
        number, *given = operands
        plain, flags = [self.all(x) for x in given], [self.batched(x) for x in given]
        if not self.batched(number):
            bodies = [
                traced_body(engine, choice.who, lambda *x, g=g: self.of_graph(g, x, flags), plain)
                for g in choice.branches
            ]
            graphs, captured = united(bodies)
            all_alike = Choice(choice.who, tuple(graphs))
            made = controlled(engine, all_alike, [self.all(number), *captured, *plain])
            return tuple(map(self.examples, made))
        numbers = self.all(number)
        numbers = numbers.astype(dtypes.i32) if numbers.dtype is dtypes.bool_ else numbers
        results = [self.of_graph(g, plain, flags) for g in choice.branches]
        chosen = results[-1]
        for k in reversed(range(len(results) - 1)):
            chosen = [
                where((numbers <= k).reshape(self.size, *[1] * (a.ndim - 1)), a, b)
                for a, b in zip(results[k], chosen, strict=True)
            ]
        return tuple(map(self.examples, map(settled, chosen)))
