"""The stand-in for an executor while a function is traced: what it is asked to do becomes nodes of a graph."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from hologram import dtypes
from hologram.compiler.fusion.graph import Graph, Node, Read
from hologram.device import Device
from hologram.errors import TraceError
from hologram.frontend import arguments
from hologram.frontend.executor import Executor
from hologram.frontend.jit.traced import Storage, Traced
from hologram.frontend.tensor import Tensor
from hologram.layout import Layout
from hologram.limits import Limits
from hologram.opset.arrange import fill
from hologram.opset.forms.operation import Operation
from hologram.opset.movement import cast, overwrite
from hologram.runtime.buffer import Buffer
from hologram.runtime.validation import sizes


@dataclass(frozen=True)
class Recording:
    """A traced function's graph; its inputs are the arguments, then tensors that the function closes over."""

    graph: Graph
    captured: tuple[Tensor, ...]


class Recorder:
    """Records operations on traced tensors; has the methods of an Executor that tensors and operations use."""

    def __init__(self, executor: Executor, who: str) -> None:
        self.executor = executor
        self.who = who
        self.inputs: dict[int, Layout] = {}
        self.captured: list[Tensor] = []
        self.nodes: list[Node] = []
        self.closed = False
        self._numbers = itertools.count()
        self._known: dict[Any, Traced] = {}  # tensors of the executor, by key

    # As an executor.

    @property
    def device(self) -> Device:
        return self.executor.device

    @property
    def limits(self) -> Limits:
        return self.executor.limits

    @property
    def backend(self) -> str:
        return self.executor.backend

    def check_open(self) -> None:
        """Raises TraceError once the trace has ended."""
        if self.closed:
            raise TraceError(
                f"{self.who}: a tensor of its trace was kept and used after it; return what is to be used outside"
            )

    def empty(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Traced:
        """A tensor that is written before it is read."""
        layout = Layout.contiguous(dtypes.dtype(dtype), sizes(shape, "empty"))
        return Traced(Storage(self, None, layout), layout)

    def full(self, shape: Sequence[int], value: bool | int | float, dtype: Any = dtypes.f32) -> Traced:
        """A tensor filled with a number."""
        kind = dtypes.dtype(dtype)
        return self.apply(fill, (), {"value": value, "shape": sizes(shape, "full"), "dtype": kind.name})

    def zeros(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Traced:
        """A tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Sequence[int], dtype: Any = dtypes.f32) -> Traced:
        """A tensor of ones."""
        return self.full(shape, 1, dtype)

    def tensor(self, array: Any, dtype: Any = None) -> Traced:
        """A constant of the function."""
        return self.capture(self.executor.tensor(array, dtype))

    def apply(self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """New tensors with an operation's results."""
        self.check_open()
        given = self._operands(operation, operands)
        layouts = self._infer(operation, given, attributes)
        if operation.parts is not None:
            taken_apart = operation.parts(operation, *given, **attributes)
            if taken_apart is not None:
                return taken_apart
        results = tuple(self._record(operation, given, attributes, layouts))
        return results[0] if len(results) == 1 else results

    def refuse(self, operation: Operation) -> NoReturn:
        """Says that results cannot be written to given tensors."""
        raise TraceError(
            f"{self.who}: {operation.name} writes to a tensor that it is given, which a trace does not see; use the "
            "function that returns a new one"
        )

    def copy(self, source: Any, target: Tensor) -> None:
        """Writes a tensor into another: the storage has another value from now on."""
        self.check_open()
        if not isinstance(target, Traced):
            raise TraceError(
                f"{self.who}: a tensor of shape {target.shape} that it closes over is written to; return the new value"
            )
        storage = target.buffer
        if storage.is_input:
            raise TraceError(
                f"{self.who}: an argument is written to; return the new value instead, "
                "and name the argument in `donate` to use its memory again"
            )
        layout, (read,) = target.layout, self._operands(cast, [source])
        assert isinstance(read, Traced)
        shown = read.expand(layout.shape)
        if layout.is_contiguous and layout.size == storage.layout.size and not layout.offset:
            attributes = {"dtype": layout.dtype.name}
            (new,) = self._record(cast, [shown], attributes, (Layout.contiguous(layout.dtype, layout.shape),))
        elif storage.value is None:
            raise TraceError(f"{self.who}: a part of a new tensor is written before the whole: fill it first")
        else:
            whole = Traced(storage, storage.layout)
            (new,) = self._record(overwrite, [whole, shown], {"part": layout}, (storage.layout,))
        storage.value = new.buffer.value

    # Recording.

    def recorded(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a function returns; all that this thread asks of the executor meanwhile is recorded."""
        thread, recording = threading.get_ident(), self.executor.recording
        before = recording.get(thread)
        recording[thread] = self
        try:
            return function(*args, **kwargs)
        except BaseException:
            self.closed = True
            raise
        finally:
            if before is None:
                del recording[thread]
            else:
                recording[thread] = before

    def argument(self, layout: Layout) -> Traced:
        """The next input of the graph."""
        value = next(self._numbers)
        self.inputs[value] = layout
        return Traced(Storage(self, value, layout, is_input=True), layout)

    def capture(self, tensor: Tensor) -> Traced:
        """A tensor from outside, as an input: what it holds when the function runs is what counts."""
        if tensor.executor is not self.executor:
            raise TraceError(
                f"{self.who}: its tensors must belong to {self.executor}, got one of {tensor.executor}"
            )
        arguments.view(self.executor, self.who, tensor)
        found = self._known.get(tensor.key)
        if found is None:
            found = self._known[tensor.key] = self.argument(tensor.layout)
            self.captured.append(tensor)
        return found

    def finish(
        self, outputs: Sequence[Traced], donated: Sequence[int] = ()
    ) -> tuple[Recording, tuple[int, ...]]:
        """The recording that keeps these tensors' values, and which output each of them is.

        `donated` are numbers of arguments that give their memory away.
        """
        values = [self._kept(tensor) for tensor in outputs]
        distinct = tuple(dict.fromkeys(values))
        self.closed = True
        given = list(self.inputs)
        graph = Graph(self.inputs, tuple(self.nodes), distinct, frozenset(given[k] for k in donated))
        return Recording(graph, tuple(self.captured)), tuple(distinct.index(v) for v in values)

    def _kept(self, tensor: Traced) -> int:
        """The value of a tensor that is returned; a copy of what belongs to somebody else."""
        if tensor.buffer.is_input:
            (new,) = self._record(
                cast, [tensor], {"dtype": tensor.dtype.name}, (Layout.contiguous(tensor.dtype, tensor.shape),)
            )
            tensor.buffer, tensor.layout = new.buffer, new.layout
        return self._value(tensor)

    def _operands(self, operation: Operation, operands: Sequence[Any]) -> list[Any]:
        """Operands as traced tensors, numbers and None."""
        found: list[Any] = []
        for name, operand in zip(operation.operand_names(len(operands)), operands, strict=True):
            if isinstance(operand, (Buffer, np.ndarray, list, tuple)) or type(operand) is Tensor:
                plain = operand if isinstance(operand, Tensor) else self._plain(operand)
                operand = self.capture(plain)
            elif isinstance(operand, np.generic):
                operand = operand.item()
            missing = operand is None and name in operation.optional
            if not (missing or isinstance(operand, (Traced, bool, int, float))):
                raise TypeError(
                    f"{operation.name}: {name} must be a Tensor or a number, got {type(operand).__name__}"
                )
            if isinstance(operand, Traced) and operand.buffer.executor is not self:
                raise TraceError(f"{self.who}: a tensor of another trace is used ({operation.name}, {name})")
            found.append(operand)
        return found

    def _plain(self, operand: Any) -> Tensor:
        return (
            self.executor.as_tensor(operand) if isinstance(operand, Buffer) else self.executor.tensor(operand)
        )

    def _infer(self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        layouts = operation.infer([o.layout if isinstance(o, Traced) else o for o in operands], attributes)
        for layout in (*(o.layout for o in operands if isinstance(o, Traced)), *layouts):
            arguments.check_dtype(self.executor, operation.name, layout.dtype)
        return layouts

    def _record(
        self,
        operation: Operation,
        operands: Sequence[Any],
        attributes: Mapping[str, Any],
        layouts: Sequence[Layout],
    ) -> list[Traced]:
        reads = tuple(Read(self._value(o), o.layout) if isinstance(o, Traced) else o for o in operands)
        results = tuple(next(self._numbers) for _ in layouts)
        self.nodes.append(Node(operation, reads, dict(attributes), results, tuple(layouts)))
        return [Traced(Storage(self, v, at), at) for v, at in zip(results, layouts, strict=True)]

    def _value(self, tensor: Traced) -> int:
        value = tensor.buffer.value
        if value is None:
            raise TraceError(f"{self.who}: a tensor of shape {tensor.shape} is read before it is written")
        return value

    def __repr__(self) -> str:
        return f"the trace of {self.who} on {self.executor}"
