"""Bodies of loops and choices: functions traced once, into graphs whose first inputs are what they close over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hologram.compiler.fusion.graph import Choice, Graph, Loop
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend import tensor as tensors
from hologram.frontend.control.primitives import evaluated, run
from hologram.frontend.jit.number import Formulas, TracedNumber, is_integer, plain
from hologram.frontend.jit.recorder import RECORDED, Recorder
from hologram.frontend.jit.traced import Traced
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped
from hologram.machine.layout import Layout
from hologram.opset.forms.default import Default
from hologram.opset.forms.operation import Operation
from hologram.opset.logic import where
from hologram.opset.movement import cast
from hologram.runtime.dispatch import traced_by, tracing
from hologram.runtime.engine import Engine
from hologram.runtime.launches import checks
from hologram.runtime.memory.buffer import Buffer

CHEAP = (
    1 << 16
)  # elements that all branches of a choice compute together, so that choosing results is no loss


class BodyRecorder(Recorder):
    """Records a body; tensors that it closes over are inputs, whoever traces them."""

    def __init__(self, executor: Engine, who: str) -> None:
        outer = tracing()
        self._root = None if outer is None else outer.root
        formulas = self._root.formulas if isinstance(self._root, Recorder) else Formulas([])
        super().__init__(executor, who, formulas)
        self.made: list[int] = []  # values that are results, each in memory of its own

    def foreign(self, operand: Any) -> bool:
        mine = type(operand) is Traced and operand.buffer.trace is self
        return isinstance(operand, Tensor) and not mine

    def argument(self, layout: Layout) -> Traced:
        """The next input; nobody else has its memory, so that it may be written to."""
        traced = super().argument(layout)
        traced.buffer.is_input = False
        return traced

    def capture(self, tensor: Tensor) -> Traced:
        if tensor.executor is not self.executor:
            raise TraceError(
                f"{self.who}: its tensors must belong to {self.executor}, got one of {tensor.executor}"
            )
        if type(tensor) is Tensor:
            checks.view(self.executor, self.who, tensor)
        key = (id(tensor.buffer), tensor.layout)
        traced = self._known.get(key)
        if traced is None:
            traced = super().argument(Layout.contiguous(tensor.dtype, tensor.shape))
            self._known[key] = traced
            self.captured.append(tensor)
        return traced

    def _number(self, dtype: DType, layout: Layout) -> Traced:
        assert isinstance(self._root, Recorder)
        return self.capture(self._root._number(dtype, layout))

    def _attributes(self, operation: Operation, operands: Any, attributes: Any) -> dict[str, Any]:
        return {name: plain(x) for name, x in super()._attributes(operation, operands, attributes).items()}

    def value(self, leaf: Any, dtype: DType | None = None) -> int:
        """A leaf of the result as a value of its own, which no input is; a number as one of a dtype."""
        if not isinstance(leaf, Tensor):
            leaf = tensor_of(self.executor, leaf, self.who, dtype)
        traced: Any = self.capture(leaf) if self.foreign(leaf) else leaf
        layout = Layout.contiguous(traced.dtype, traced.shape)
        whole = traced.layout == layout == traced.buffer.layout
        taken = traced.buffer.value is not None and traced.buffer.value in {*self.inputs, *self.made}
        if taken or not whole:
            (traced,) = self._record(cast, [traced], {"dtype": traced.dtype.name}, (layout,))
        self.made.append(self._value(traced))
        return self.made[-1]


@frozen(eq=False)
class Body:
    """A traced function: a graph whose inputs are what was captured, then the arguments; the form of its result."""

    graph: Graph
    captured: tuple[Tensor, ...]
    result: Any  # the tree of the result, with tensors of the trace and numbers

    @property
    def made(self) -> list[Layout]:
        """The layouts of the outputs."""
        return [self.graph.layouts[v] for v in self.graph.outputs]


def traced_body(
    executor: Engine,
    who: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    dtypes_of: Callable[[Any], Sequence[DType | None]] | None = None,
) -> Body:
    """A function as it is for tensors like the arguments' leaves; `dtypes_of` its result says what numbers become."""
    recorder = BodyRecorder(executor, who)
    given = [
        mapped(tree, lambda x: recorder.argument(Layout.contiguous(x.dtype, x.shape))) for tree in arguments
    ]
    own = list(recorder.inputs)
    with traced_by(recorder):
        result = function(*given)
        results = [x for x in leaves(result) if x is not None]
        wanted = [None] * len(results) if dtypes_of is None else dtypes_of(result)
        for leaf, dtype in zip(results, wanted, strict=True):
            recorder.value(leaf, dtype)
    inputs = {v: at for v, at in recorder.inputs.items() if v not in own}
    inputs |= {v: recorder.inputs[v] for v in own}
    graph = Graph(inputs, tuple(recorder.nodes), tuple(recorder.made), controls=tuple(recorder.controls))
    return Body(graph, tuple(recorder.captured), result)


def united(bodies: Sequence[Body]) -> tuple[list[Graph], list[Tensor]]:
    """The graphs of bodies with the captured tensors of all of them as first inputs."""
    captured: dict[Any, Tensor] = {}
    for body in bodies:
        captured |= {(id(t.buffer), t.layout): t for t in body.captured}
    graphs = []
    for body in bodies:
        graph = body.graph
        values = iter(graph.inputs)
        own = {(id(t.buffer), t.layout): next(values) for t in body.captured}
        free = 1 + max(graph.layouts, default=0)
        inputs = {}
        for k, (key, tensor) in enumerate(captured.items()):
            inputs[own.get(key, free + k)] = Layout.contiguous(tensor.dtype, tensor.shape)
        graphs.append(replace(graph, inputs=inputs | {v: graph.inputs[v] for v in values}))
    return graphs, list(captured.values())


def executor_of(*trees: Any) -> Engine:
    """The executor of the tensors in trees; else that of who traces, else the default one."""
    for x in leaves(trees):
        if isinstance(x, (Tensor, Buffer)):
            return x.executor  # type: ignore[return-value]
    tracer = tracing()
    return Default.executor(None) if tracer is None else tracer.executor  # type: ignore[return-value]


def tensor_of(engine: Engine, x: Any, who: str, dtype: DType | None = None) -> Tensor:
    """A leaf as a tensor: of Python's numbers, ints are i32 (i64 where they must) and floats f32."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Buffer):
        return tensors.as_tensor(x)
    if isinstance(x, (np.ndarray, list)):
        return tensors.constant(engine, x)
    if isinstance(x, (bool, int, float, np.generic, TracedNumber)):
        number: Any = x
        return tensors.full(engine, (), number, dtype or number_dtype(x), who)
    raise TypeError(f"{who}: tensors, arrays and numbers can be carried through it, got {type(x).__name__}")


def number_dtype(x: Any) -> DType:
    """What a number becomes as a tensor."""
    if isinstance(x, np.generic):
        return dtypes.dtype(x.dtype)
    if isinstance(x, bool):
        return dtypes.bool_
    if is_integer(x):
        return (
            dtypes.i32
            if -(1 << 31) <= (x.known if isinstance(x, TracedNumber) else x) < 1 << 31
            else dtypes.i64
        )
    return dtypes.f32


def _recorded(recorder: Recorder, control: Loop | Choice, operands: Sequence[Any]) -> tuple[Any, ...]:
    """A loop or a choice in a trace; where all branches cost little, all are computed and results chosen."""
    if isinstance(control, Choice) and all(map(_is_cheap, control.branches)):
        engine = recorder.executor
        number, *rest = operands
        with traced_by(recorder):
            results = [evaluated(graph, rest, engine) for graph in control.branches]
            return tuple(_picked(number, each) for each in zip(*results, strict=True))
    return recorder.control(control, operands)


def _is_cheap(graph: Graph) -> bool:
    return not graph.controls and sum(x.size for n in graph.nodes for x in n.layouts) <= CHEAP


def _picked(number: Any, results: Sequence[Any]) -> Any:
    """Of the results the one of a number."""
    if len(results) == 1:
        return results[0]
    if number.dtype is dtypes.bool_:
        return where(number, results[1], results[0])
    chosen = results[-1]
    for k in reversed(range(len(results) - 1)):
        chosen = where(number <= k, results[k], chosen)
    return chosen


RECORDED[run] = _recorded
