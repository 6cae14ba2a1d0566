"""A graph that PyTorch gives: for each signature of its arguments one function of hg.jit's, which runs all of it.

The function is traced by running the graph itself on tensors of the device whose memory is a trace's. So kernels,
views and decompositions are those of tensors outside.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.errors import HologramError, TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.jit.compiled import Compiled
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.random import Key
from hologram_torch.compile.graph import draws, has_sizes, moved, on_host, takes_memory, writes
from hologram_torch.compile.heads import folded
from hologram_torch.compile.host import on_executor, to_host
from hologram_torch.compile.stages import Run, emptying, staged
from hologram_torch.compile.strides import as_counted_on
from hologram_torch.compile.written import are_own, over_arguments, settle
from hologram_torch.device.devices import devices
from hologram_torch.device.generator import Traced, draw, drawn_by
from hologram_torch.kernels.errors import refusal
from hologram_torch.tensors.memory import HOST_KEYS, as_strided, fresh, hologram_tensor, is_ours, torch_tensor
from hologram_torch.watch import Complaint, flagged, unread

MAX_SIGNATURES = 64  # that one graph is kept compiled for
RARE = 8  # calls that sizes are met in before a graph is compiled for them, where it is for others
MAX_MET = 4096  # signatures whose calls are counted

# A result of a call, from its arguments, what the function returned, and the results before.
Give = Callable[[Sequence[Any], Sequence[Tensor], Sequence[Any]], Any]


@frozen
class Variant:
    """A graph compiled for one signature."""

    run: Compiled
    gives: tuple[Give, ...]
    drawn: int  # random numbers of a call
    complaints: tuple[Complaint, ...]  # about arguments, by the flags that come after the results
    written: int  # how many of the first tensors are written to; what they become comes before the results

    def __call__(self, args: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
        outputs = self.run(tensors)
        for target, result in zip(tensors[: self.written], outputs, strict=False):
            settle(target, result)
        if self.complaints:
            unread.leave(outputs[-1], self.complaints)
        results: list[Any] = []
        for give in self.gives:
            results.append(give(args, outputs, results))
        return results


class Asks(Exception):
    """An operator asks for an element that only a run tells."""

    def __init__(self, node: torch.fx.Node) -> None:
        super().__init__(str(node))
        self.node = node.name


class Operators(torch.fx.Interpreter):
    """A graph's operators one by one, as they are traced; raises Asks for one that asks for an element."""

    def run_node(self, n: torch.fx.Node) -> Any:
        try:
            return as_counted_on(n, super().run_node(n))
        except TypeError as error:
            if isinstance(error.__cause__, TraceError):
                raise Asks(n) from error
            raise


def whole(graph: torch.fx.GraphModule) -> Run:
    """A graph as one function; as its operators where no tensor among its arguments says on which device."""
    return CompiledGraph(graph) if takes_memory(graph) else emptying(graph.forward)


class CompiledGraph:
    """Takes a list of arguments, which it empties, so that nobody else holds what nobody needs after the call.

    Sizes among the arguments are part of the signature. A graph of dynamic shapes is compiled for the first that it
    meets, and for others when they come again and again: until then its operators run one by one, which is planned by
    class (docs/design/shapes.md). Of others the last MAX_SIGNATURES are kept. Around an operator that asks for an
    element when it is traced the graph falls into stages.
    """

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self._boxed_call = (
            True  # PyTorch asks whether arguments come as a list; what wraps this copies the attribute
        )
        self._graph, self._writes = writes(folded(graph))
        self._draws = draws(graph)
        self._on_host = on_host(graph)
        self._index: int | None = None
        self._stages: Run | None = None
        self._variants: OrderedDict[Any, Variant] = OrderedDict()
        self._met: FIFOCache[Any, int] | None = None  # how often signatures were
        if has_sizes(graph) and not self._draws and not any(self._on_host):
            self._met = FIFOCache(MAX_MET)

    def __call__(self, args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        try:
            return self._run(given)
        except HologramError as error:
            raise refusal("compiled graph", error) from error

    def _run(self, given: list[Any]) -> list[Any]:
        if self._stages is not None:
            return self._in_turn(given)
        if self._index is None:
            self._settle(given)
        tensors = []
        key = []
        plain: dict[
            int, torch.Tensor
        ] = {}  # by their places, of arguments that are conjugated or negated lazily
        copies: list[tuple[Tensor, torch.Tensor]] = []  # of what is written to on the host
        for k, x in enumerate(given):
            if isinstance(x, torch.Tensor):
                if x.is_conj() or x.is_neg():
                    x = plain[k] = without_bits(x)
                own = hologram_tensor(x) if x.device.type == "hologram" else on_executor(x, self.executor)
                if k in self._writes and not is_ours(x) and not self.executor.limits.host_resident:
                    copies.append((own, x))
                tensors.append(own)
                key.append(own.layout)
            else:
                key.append(x)
        if self._writes:
            tensors = self._ordered(given, tensors)
            key.append(are_own(tensors, len(self._writes)))
        variant = self._variants.get(tuple(key))
        if variant is None and self._is_rare(tuple(key), given):
            return self._in_turn(given)
        if variant is None:
            try:
                variant = self._variants[tuple(key)] = self.variant(given, tensors)
            except Asks as asks:
                name = asks.node
                self._stages = staged(self._graph, whole, lambda node: node.name == name)
                return self._in_turn(given)
            if len(self._variants) > MAX_SIGNATURES:
                self._variants.popitem(last=False)
        if self._draws:
            tensors.append(self._key(variant.drawn))
        if self._writes:
            torch.autograd.graph.increment_version(
                [x for k in self._writes if not (x := given[k]).is_inference()]
            )
        results = variant(given, tensors)
        for copy, x in copies:
            x.copy_(to_host(copy, x.stride()))
        for k in plain.keys() & set(self._writes):
            write_back(plain[k], given[k])
        return results

    def _is_rare(self, key: tuple[Any, ...], given: Sequence[Any]) -> bool:
        """Whether a signature was met too seldom to be compiled for, or there is no room for another."""
        if self._met is None or not self._variants or not all(map(is_ours, filter(torch.is_tensor, given))):
            return False
        if len(self._variants) >= MAX_SIGNATURES:
            return True
        met = (self._met.get(key) or 0) + 1
        self._met.keep(key, met)
        return met <= RARE

    def _in_turn(self, given: Sequence[Any]) -> list[Any]:
        """By stages if there are any, else operator by operator."""
        with torch.no_grad():
            results = list(self._stages(list(given)) if self._stages else self._graph(*given))
            for k, result in zip(self._writes, results, strict=False):
                given[k].copy_(result)
        return results[len(self._writes) :]

    def _ordered(self, args: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
        """What belongs to the tensors among the arguments, those that are written to first."""
        rest = iter(tensors)
        by_place = {k: next(rest) for k, x in enumerate(args) if isinstance(x, torch.Tensor)}
        first = [by_place.pop(k) for k in self._writes]
        return [*first, *by_place.values()]

    @property
    def executor(self) -> Executor:
        """What it runs on."""
        assert self._index is not None
        return devices.executor(self._index)

    def _settle(self, args: Sequence[Any]) -> None:
        """Chooses the device: that of the arguments; the current one where all are on the host."""
        index = next((x.device.index for x in args if is_ours(x)), devices.current)
        self._graph = moved(self._graph, index)
        self._index = index

    def _key(self, count: int) -> Tensor:
        assert self._index is not None
        return self.executor.tensor(np.array(draw(self._index, count), np.uint64))

    def variant(self, args: Sequence[Any], tensors: Sequence[Tensor]) -> Variant:
        """Compiles the graph for a signature: that of the arguments, to which the tensors belong."""
        gives: list[Give] = []
        drawn = None
        complaints: list[Complaint] = []

        count = len(self._writes)
        numbers = [k for k, x in enumerate(args) if isinstance(x, torch.Tensor)]
        order = self._ordered(args, numbers)

        def graph(*traced: Tensor) -> list[Tensor]:
            nonlocal drawn
            rest = iter(traced)
            of_argument = dict(zip(order, rest, strict=False))
            inputs = [within(of_argument[k]) if k in of_argument else x for k, x in enumerate(args)]
            drawn = Traced(Key(traced[-1])) if self._draws else None
            given = Given(inputs)
            with torch.no_grad(), drawn_by(drawn), flagged() as flags:
                results = [without_bits(x) for x in Operators(self._graph).run(*inputs)]
            given.write(results[:count])
            pairs = zip(results[count:], self._on_host[count:], strict=True)
            gives[:] = [given.by(r, host) for r, host in pairs]
            complaints[:] = flags.complaints
            return [*given.returned, *flags.together]

        keys = [self.executor.tensor(np.zeros(2, np.uint64))] if self._draws else []
        run = over_arguments(graph, [*tensors, *keys], count if are_own(tensors, count) else 0)
        return Variant(run, tuple(gives), 0 if drawn is None else drawn.drawn, tuple(complaints), count)


def without_bits(x: Any) -> Any:
    """A tensor whose elements lie in memory as they are; all else as it is."""
    return x.resolve_conj().resolve_neg() if isinstance(x, torch.Tensor) else x


def write_back(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copies to a tensor with a bit set, as to the memory that it lies in: a first call is in a mode of PyTorch's."""
    if target.is_conj():
        source, target = source.conj_physical(), target.conj()
    if target.is_neg():
        source, target = source.neg(), torch.ops.aten._neg_view(target)
    target.copy_(source)


def within(traced: Tensor) -> torch.Tensor:
    """A tensor over a trace's memory, which lies there as an argument does."""
    layout = traced.layout
    if layout.is_contiguous and not layout.offset:
        return torch_tensor(traced)
    whole = Layout.contiguous(layout.dtype, (layout.span[1],))
    flat = fresh(traced.buffer, whole, devices.number(traced.executor))
    return as_strided(HOST_KEYS, flat, layout.shape, layout.strides, layout.offset)


class Given:
    """How a call gives what the traced graph gave, and what the traced function must return for it.

    What was an argument is that argument, and what was given twice is one tensor, so that a change in place to one is
    seen by PyTorch where the other is kept for the way back.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        tensors = [hologram_tensor(x) if isinstance(x, torch.Tensor) else None for x in inputs]
        self._inputs = {id(x.buffer): (k, x.layout) for k, x in enumerate(tensors) if x is not None}
        self._known: dict[tuple[int, Layout], int] = {}  # places among the results
        self._count = 0
        self._written: set[int] = set()  # storages of what arguments become
        self.returned: list[Tensor] = []

    def write(self, results: Sequence[torch.Tensor]) -> None:
        """Returns what arguments become, each in memory of its own, which may be that of the argument."""
        for result in results:
            tensor = hologram_tensor(result)
            layout = tensor.layout
            whole = layout.is_contiguous and not layout.offset and layout.size == tensor.buffer.size
            if not whole or id(tensor.buffer) in (self._inputs.keys() | self._written):
                tensor = tensor.clone()
            self._written.add(id(tensor.buffer))
            self.returned.append(tensor)

    def by(self, result: Any, host: bool) -> Give:
        """Of the next result."""
        self._count += 1
        if not isinstance(result, torch.Tensor):
            return lambda args, outputs, results: result
        tensor = hologram_tensor(result)
        if id(tensor.buffer) in self._written:
            tensor = tensor.clone()
        layout = tensor.layout
        shape, strides, offset = layout.shape, layout.strides, layout.offset
        place, given = self._inputs.get(id(tensor.buffer), (None, None))
        if place is not None:
            if layout is given:
                return lambda args, outputs, results: args[place]
            return lambda args, outputs, results: as_strided(HOST_KEYS, args[place], shape, strides, offset)
        before = self._known.setdefault((id(tensor.buffer), layout), self._count - 1)
        if before != self._count - 1:
            return lambda args, outputs, results: results[before]
        number = len(self.returned)
        self.returned.append(tensor)
        if host:
            return lambda args, outputs, results: to_host(outputs[number], strides)
        return lambda args, outputs, results: torch_tensor(outputs[number])
