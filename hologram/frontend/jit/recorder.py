"""Traces: what a function asks of an executor becomes nodes of a graph."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.compiler.fusion.graph import Choice, Control, Graph, Loop, Node, Read
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend import tensor as tensors
from hologram.frontend.complex_numbers import with_complex
from hologram.frontend.gradient.tape import ClosedOver, detached
from hologram.frontend.gradient.tracked import Tracked
from hologram.frontend.jit.hosts import Hosted, Source
from hologram.frontend.jit.launching import Launching
from hologram.frontend.jit.number import (
    Formulas,
    TracedInteger,
    TracedNumber,
    Unfit,
    holds,
    is_integer,
    plain,
)
from hologram.frontend.jit.traced import Storage, Traced
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.creation import fill
from hologram.opset.forms.default import without_numbers
from hologram.opset.forms.operation import Operation
from hologram.opset.logic import Comparison
from hologram.opset.movement import cast, overwrite
from hologram.opset.power import Power
from hologram.opset.random import PARAMETERS, Key
from hologram.runtime.dispatch import Request, traced_by
from hologram.runtime.engine import Engine
from hologram.runtime.launches import checks
from hologram.runtime.launches.validation import fitted
from hologram.runtime.memory.buffer import Buffer


@frozen
class Recording:
    """A traced function's graph; its inputs are the arguments, then tensors that the function closes over."""

    graph: Graph
    captured: tuple[Tensor, ...]


class Recorder(Launching):
    """Takes the requests of a thread that traces a function, and records them as nodes of a graph."""

    def __init__(self, executor: Engine, who: str, formulas: Formulas) -> None:
        self.executor = executor
        self.who = who
        self.formulas = formulas
        self._places: dict[DType, int] = {}  # values that hold the numbers of a call
        self.inputs: dict[int, Layout] = {}
        self.captured: list[Tensor] = []
        self.nodes: list[Node] = []
        self.controls: list[Control] = []
        self._numbers = itertools.count()
        self._known: dict[Any, Traced] = {}  # tensors of the executor, by key
        self._returned: list[Traced] = []

    @property
    def root(self) -> Recorder:
        return self

    # What it is asked for: see hologram.runtime.dispatch.

    def take(self, request: Request, action: str, arguments: tuple[Any, ...]) -> Any:
        """Records a request that RECORDED knows; raises TraceError for any other."""
        record = RECORDED.get(request)
        if record is None:
            raise TraceError(
                f"{self.who}: {action} would happen once, while the function is traced, and not when it is called: do "
                "it outside, or use functions that return new tensors"
            )
        engine, *rest = arguments
        if engine is not self.executor:
            raise TraceError(
                f"{self.who}: {action} on {engine} in a function that is traced for {self.executor}: its tensors must "
                "belong to one executor"
            )
        return record(self, *rest)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Traced:
        """A tensor of zeros where it is read before it is written: what memory would hold nobody could tell."""
        layout = Layout.contiguous(dtype, shape)
        return Traced(self._storage(None, layout), layout)

    def full(self, shape: tuple[int, ...], value: bool | int | float, dtype: DType) -> Traced:
        """A tensor filled with a number."""
        if isinstance(value, TracedNumber) and self._readable(value, dtype):
            at = Layout(dtype, (), (), self.formulas.offset(value, dtype))
            shown, layout = self._number(dtype, at).expand(shape), Layout.contiguous(dtype, shape)
            return self._record(cast, [shown], {"dtype": dtype.name}, (layout,))[0]
        value = fitted(plain(value), dtype, "full")
        return self.apply(fill, (), {"value": value, "shape": shape, "dtype": dtype.name})

    def constant(self, values: np.ndarray, source: Source | None = None) -> Traced:
        """A constant of the function; `source` is the array that it is made of, if there is one."""
        with traced_by(None):
            made = tensors.constant(self.executor, values)
        if source is not None:
            self.formulas.hosted.append(Hosted(source, made))
        return self.capture(made)

    def apply(self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """New tensors with an operation's results."""
        given = self._operands(operation, operands)
        attributes = self._attributes(operation, given, attributes)
        layouts = self._infer(operation, given, attributes)
        if operation.parts is not None:
            taken_apart = operation.parts(operation, *given, **attributes)
            if taken_apart is not None:
                return taken_apart
        results = tuple(self._record(operation, given, attributes, layouts))
        return results[0] if len(results) == 1 else results

    def copy(self, source: Any, target: Tensor) -> None:
        """Writes a tensor into another: the storage has another value from now on."""
        storage = self._writable(target).buffer
        layout, (read,) = target.layout, self._operands(cast, [source])
        assert isinstance(read, Traced)
        shown = read.expand(layout.shape)
        if layout.is_contiguous and layout.size == storage.layout.size and not layout.offset:
            attributes = {"dtype": layout.dtype.name}
            (new,) = self._record(cast, [shown], attributes, (Layout.contiguous(layout.dtype, layout.shape),))
        elif (order := _order(layout)) is not None and layout.size == storage.layout.size:
            turned = shown.permute(order)
            (new,) = self._record(
                cast, [turned], {"dtype": layout.dtype.name}, (Layout.contiguous(layout.dtype, turned.shape),)
            )
        else:
            whole = Traced(storage, storage.layout)
            (new,) = self._record(overwrite, [whole, shown], {"part": layout}, (storage.layout,))
        storage.value = new.buffer.value

    # Recording.

    def control(self, what: Loop | Choice, operands: Sequence[Any]) -> tuple[Traced, ...]:
        """New tensors with the results of a loop or a choice."""
        reads = [self._whole(self.capture(o) if self.foreign(o) else o) for o in operands]
        layouts = what.infer()
        results = tuple(next(self._numbers) for _ in layouts)
        self.controls.append(Control(what, tuple(reads), results, layouts))
        return tuple(Traced(self._storage(v, at), at) for v, at in zip(results, layouts, strict=True))

    def _whole(self, tensor: Traced) -> Read:
        """A value that holds a tensor's elements and no others, contiguous."""
        layout = Layout.contiguous(tensor.dtype, tensor.shape)
        given, held = tensor.layout, tensor.buffer.layout
        alike = (given.dtype, given.size, given.offset, held.offset) == (held.dtype, held.size, 0, 0)
        if not (alike and given.is_contiguous and held.is_contiguous):
            (tensor,) = self._record(cast, [tensor], {"dtype": tensor.dtype.name}, (layout,))
        return Read(self._value(tensor), layout)

    def foreign(self, operand: Any) -> bool:
        """Whether an operand is a tensor that the function closes over."""
        return type(operand) in (Tensor, Tracked)

    def recorded(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a function returns; all that this thread asks of the executor meanwhile is recorded."""
        with traced_by(self):
            return function(*args, **kwargs)

    def argument(self, layout: Layout) -> Traced:
        """The next input of the graph."""
        value = next(self._numbers)
        self.inputs[value] = layout
        return Traced(self._storage(value, layout, is_input=True), layout)

    def capture(self, tensor: Tensor) -> Traced:
        """A tensor from outside, as an input: what it holds when the function runs is what counts."""
        if isinstance(tensor, Tracked):
            raise ClosedOver(f"{self.who}: it closes over a tensor that is differentiated")
        if tensor.executor is not self.executor:
            raise TraceError(
                f"{self.who}: its tensors must belong to {self.executor}, got one of {tensor.executor}"
            )
        checks.view(self.executor, self.who, tensor)
        traced = self._known.get(tensor.key)
        if traced is None:
            traced = self._known[tensor.key] = self.argument(tensor.layout)
            self.captured.append(tensor)
        return traced

    def returned(self, leaf: Any) -> Any:
        """What a leaf of the function's result is to the trace: a tensor is kept, a number its value of this call."""
        if isinstance(leaf, Tensor):
            kept: Any = self.capture(leaf) if self.foreign(leaf) else leaf
            self._returned.append(kept)
            return self._returned[-1]
        if isinstance(leaf, TracedNumber):
            return leaf
        if isinstance(leaf, (Iterator, Awaitable, AsyncIterator)) or any(
            isinstance(x, Traced) for x in _inside(leaf)
        ):
            raise TraceError(
                f"{self.who}: tensors are returned in tuples, lists, named tuples and dicts, got {type(leaf).__name__}"
            )
        return leaf

    def finish(self, donated: Sequence[int] = ()) -> tuple[Recording, tuple[int, ...]]:
        """The recording that keeps the values of tensors that were returned, and which output each of them is.

        `donated` are numbers of arguments that give their memory away.
        """
        values = [self._kept(tensor) for tensor in self._returned]
        distinct = tuple(dict.fromkeys(values))
        given = list(self.inputs)
        for dtype, value in self._places.items():
            self.inputs[value] = Layout.contiguous(dtype, (len(self.formulas.wanted[dtype]),))
        given_away = frozenset(given[k] for k in donated)
        graph = Graph(self.inputs, tuple(self.nodes), distinct, given_away, tuple(self.controls))
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
        given: list[Any] = []
        operands = with_complex(operands, self.constant)
        for name, operand in zip(operation.operand_names(len(operands)), operands, strict=True):
            if isinstance(operand, np.ndarray):
                operand = self.constant(operand, (operand, None))
            elif isinstance(operand, (Buffer, list, tuple)) or self.foreign(operand):
                plain = operand if isinstance(operand, Tensor) else self._plain(operand)
                operand = self.capture(plain)
            elif isinstance(operand, np.generic):
                operand = operand.item()
            tensors.check_operand(operation, name, operand, Traced)
            if isinstance(operand, Traced) and operand.buffer.trace is not self:
                raise TraceError(f"{self.who}: a tensor of another trace is used ({operation.name}, {name})")
            given.append(operand)
        if not operation.takes_numbers:
            return without_numbers(self.executor, given)
        return self._told(operation, given) if any(isinstance(o, TracedNumber) for o in given) else given

    def _told(self, operation: Operation, operands: list[Any]) -> list[Any]:
        """Operands with those integers by value that the operation must know: exponents, and what no dtype holds."""
        taken = operation.taken([o.layout if isinstance(o, Traced) else o for o in operands], {})

        def told(name: str, x: Any) -> Any:
            if not isinstance(x, TracedInteger):
                return x
            data = self._readable(x, taken.get(name)) and not isinstance(operation, Power)
            return x if data else x.value

        values = list(map(told, operation.operand_names(len(operands)), operands))
        if isinstance(operation, Comparison):  # which takes what is too large for infinite
            values = list(operation.bind(tuple(values), {})[0])
        return values

    def _attributes(
        self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Attributes as an operation infers from: traced numbers by value, but for those that kernels can read."""
        given = dict(attributes)
        if "seed" in given and any(isinstance(given[name], TracedInteger) for name in ("seed", "offset")):
            given |= self._keyed(given["seed"], given["offset"])
        taken: Mapping[str, DType] = {}
        if any(isinstance(x, TracedNumber) for x in given.values()):
            taken = operation.taken([o.layout if isinstance(o, Traced) else o for o in operands], given)
        return {name: x if name in taken else plain(x) for name, x in given.items()}

    def _keyed(self, seed: Any, offset: Any) -> dict[str, Any]:
        """A seed or an offset that is another at each call, as the attributes of random numbers."""
        dtype = PARAMETERS["seed"]
        assert dtype is not None
        seed_read, offset_read = (
            isinstance(x, TracedInteger) and self._readable(x, dtype) for x in (seed, offset)
        )
        if not (seed_read or offset_read):
            return {}
        key = seed if seed_read else self.formulas.constant(plain(seed))
        first = offset if offset_read else self.formulas.constant(0)
        words = self._number(dtype, Layout(dtype, (2,), (1,), self.formulas.pair(key, first, dtype)))
        return {"seed": Key(words), "offset": 0 if offset_read else offset}

    def _readable(self, number: TracedNumber, dtype: DType | None) -> bool:
        """Whether kernels can read a number as one of a dtype; raises Unfit where that holds, but not of this one."""
        if dtype is None or dtype.is_float:
            return dtype is not None
        if not dtype.is_integer or not is_integer(number):
            return False
        if not holds(dtype, number.known):
            raise Unfit(number.behind, f"a number of a call: {dtype} cannot hold {number.known}")
        return True

    def _number(self, dtype: DType, layout: Layout) -> Traced:
        """Numbers of a call as a tensor."""
        if dtype not in self._places:
            self._places[dtype] = next(self._numbers)
        return Traced(self._storage(self._places[dtype], layout, is_input=True), layout)

    def _plain(self, operand: Any) -> Tensor:
        if isinstance(operand, Buffer):
            return tensors.as_tensor(operand)
        with traced_by(None):
            return tensors.constant(self.executor, operand)

    def _storage(self, value: int | None, layout: Layout, is_input: bool = False) -> Storage:
        return Storage(self.executor, self, self.who, value, layout, is_input)

    def _infer(self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        inputs = [o.layout if isinstance(o, Traced) else o for o in operands]
        layouts = operation.infer(inputs, attributes)
        taken = operation.taken(inputs, attributes)
        given = dict(zip(operation.operand_names(len(operands)), operands, strict=True)) | dict(attributes)
        for name, dtype in taken.items():
            number = given[name].known if isinstance(given[name], TracedNumber) else given[name]
            if isinstance(number, (bool, int, float)) and not dtype.is_float:
                fitted(number, dtype, f"{operation.name}, {name}")  # as a launch would refuse it
        for layout in (*(o.layout for o in operands if isinstance(o, Traced)), *layouts):
            checks.check_dtype(self.executor, operation, layout.dtype)
        return layouts

    def _record(
        self,
        operation: Operation,
        operands: Sequence[Any],
        attributes: Mapping[str, Any],
        layouts: Sequence[Layout],
    ) -> list[Traced]:
        reads = [Read(self._value(o), o.layout) if isinstance(o, Traced) else o for o in operands]
        settings = dict(attributes)
        if any(isinstance(x, TracedNumber) for x in (*reads, *settings.values())):
            reads, settings = self._with_numbers(operation, reads, settings)
        results = tuple(next(self._numbers) for _ in layouts)
        self.nodes.append(Node(operation, tuple(reads), settings, results, tuple(layouts)))
        return [Traced(self._storage(v, at), at) for v, at in zip(results, layouts, strict=True)]

    def _with_numbers(
        self, operation: Operation, operands: list[Any], attributes: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Operands and attributes with numbers of a call as reads where the operation takes numbers, else by value."""
        inputs = [o.layout if isinstance(o, Read) else o for o in operands]
        taken = operation.taken(inputs, attributes)

        def read(name: str, x: Any) -> Any:
            if not isinstance(x, TracedNumber):
                return x
            dtype = taken.get(name)
            if dtype is None or not self._readable(x, dtype):
                return x.value
            number = self._number(dtype, Layout(dtype, (), (), self.formulas.offset(x, dtype)))
            return Read(self._value(number), number.layout, weak=int if is_integer(x) else float)

        names = operation.operand_names(len(operands))
        return list(map(read, names, operands)), {n: read(n, x) for n, x in attributes.items()}

    def _value(self, tensor: Traced) -> int:
        storage = tensor.buffer
        if storage.value is None:
            at = storage.layout
            storage.value = self.full(at.shape, 0, at.dtype).buffer.value
            assert storage.value is not None
        return storage.value

    def __repr__(self) -> str:
        return f"the trace of {self.who} on {self.executor}"


def _order(layout: Layout) -> list[int] | None:
    """The order of axes in which a layout is contiguous from the beginning on; None if there is none."""
    order = sorted(range(layout.ndim), key=lambda k: (layout.strides[k], layout.shape[k]), reverse=True)
    return order if not layout.offset and layout.permute(order).is_contiguous else None


def _inside(leaf: Any) -> Iterable[Any]:
    """What a leaf of a result holds, as far as one can see."""
    if isinstance(leaf, (tuple, list, set, frozenset)):
        return leaf
    return vars(leaf).values() if hasattr(leaf, "__dict__") and not isinstance(leaf, type) else ()


RECORDED: dict[Request, Callable[..., Any]] = {
    tensors.make_empty: Recorder.empty,
    tensors.make_full: Recorder.full,
    tensors.make_constant: Recorder.constant,
    tensors.evaluated: Recorder.apply,
    Engine._copy_elements: Recorder.copy,
    Engine._launch: Recorder.launch,
    detached: lambda recorder, x: x,
}
