"""A traced function, compiled for one signature: its plan, ready to replay, and how results are put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from hologram.compiler.fusion.assemble import Assembly, assemble
from hologram.compiler.fusion.graph import Graph
from hologram.foundation.errors import BufferFreed
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.hosts import Hosted, held_elsewhere
from hologram.frontend.jit.number import Formulas, Numbers, TracedNumber
from hologram.frontend.jit.recorder import Recorder
from hologram.frontend.jit.signature import Call, filled
from hologram.frontend.jit.traced import Traced
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import maker, mapped
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan
from hologram.runtime.engine import Engine
from hologram.runtime.launches.recording import Recording, constant
from hologram.runtime.launches.replay import Replay
from hologram.runtime.launches.stages import Stages
from hologram.runtime.memory.buffer import Buffer

recordings = Recording.open


@frozen(eq=False)
class Compiled:
    """Runs for tensors of the layouts it was traced with."""

    who: str
    assembly: Assembly
    captured: tuple[Tensor, ...]
    results: Callable[[Sequence[Buffer]], Any]  # what the function returned, from the outputs of the plan
    replay: Replay | Stages
    numbers: Numbers | None  # of each call, where kernels read any
    asked: Mapping[
        int, str
    ]  # numbers among the arguments for whose values alone it was traced, and who asked
    in_order: bool = False  # the results are the outputs, all of each, in order
    donated: tuple[int, ...] = ()  # numbers of the tensors that a call frees
    hosted: tuple[Hosted, ...] = ()  # arrays that it closes over

    def __call__(self, tensors: Sequence[Tensor], numbers: Sequence[float] = ()) -> Any:
        """The function's result for tensors and floats in the order of the signature; raises BufferFreed."""
        if self.captured:
            tensors = [*tensors, *self._living()]
        if self.numbers is not None:
            tensors = [*tensors, *self.numbers(numbers)]
        outputs = self.replay(tensors)
        for number in self.donated:
            buffer = tensors[number].buffer
            if buffer.block is not None:  # nobody has its memory now
                buffer.free()
        if self.numbers is not None and self.numbers.results is not None:
            outputs = [*outputs, *self.numbers.results(numbers)]
        return self.results(outputs)

    def over(self, buffers: Sequence[Buffer], numbers: Sequence[float]) -> bool:
        """As a call, but the first tensors stay, and become the results, each the one of its number.

        `buffers` are those of the tensors of the signature. False if nothing was done: see Replay.over.
        """
        if self.captured or not self.in_order:
            return False
        if self.numbers is not None:
            buffers = [*buffers, *[t.buffer for t in self.numbers(numbers)]]
        return self.replay.over(buffers)

    def _living(self) -> tuple[Tensor, ...]:
        for hosted in self.hosted:
            hosted.renew(self.who)
        for tensor in self.captured:
            if tensor.buffer.block is None:
                raise BufferFreed(
                    f"{self.who}: a tensor of shape {tensor.shape} that it closes over was freed"
                )
            if recordings:
                constant(tensor.buffer)
        return self.captured

    @property
    def dispatches(self) -> int:
        """Kernels that a call launches; those of a loop's body count once."""
        return self.replay.dispatches if isinstance(self.replay, Stages) else len(self.assembly.plan.steps)


def shown(output: int, layout: Layout) -> Callable[[Sequence[Buffer]], Tensor]:
    """A tensor of the result: an output of the plan, seen through a layout."""
    return lambda outputs: Tensor(outputs[output], layout)


@frozen(eq=False)
class Trace:
    """What a function did with tensors of a call's layouts, before anything is chosen for a device."""

    who: str
    graph: Graph
    captured: tuple[Tensor, ...]
    tree: Any  # of what it returned, with tensors and numbers of the trace
    positions: tuple[int, ...]  # which output of the graph each tensor in it is
    formulas: Formulas
    donated: tuple[int, ...]


def traced(
    function: Callable[..., Any],
    who: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    call: Call,
    donated: Sequence[int],
    fixed: Collection[int],
) -> Trace:
    """Has a function run on tensors of a call's layouts and notes what it does.

    `donated` are numbers of tensors, `fixed` of floats that are known to be asked for.
    """
    formulas = Formulas(call.numbers)
    recorder = Recorder(call.executor, who, formulas)
    arguments = [recorder.argument(t.layout) for t in call.tensors]
    positional, named = filled(args, kwargs, arguments, formulas.numbers(call.numbers, fixed))
    returned = recorder.recorded(function, positional, named)
    tree = mapped(returned, recorder.returned)
    recording, positions = recorder.finish(donated)
    graph = recording.graph
    return Trace(who, graph, recording.captured, tree, positions, formulas, tuple(donated))


def compile_traced(
    function: Callable[..., Any],
    who: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    call: Call,
    donated: Sequence[int],
    fixed: Collection[int],
    fast_math: bool = False,
) -> Compiled:
    """Traces a function, see `traced`, and compiles what it did."""
    call.executor.bound.made.add("traced")
    trace = traced(function, who, args, kwargs, call, donated, fixed)
    places = iter(trace.positions)
    layouts: list[Layout] = []

    def made(leaf: Any) -> Callable[[Sequence[Buffer]], Any]:
        if isinstance(leaf, TracedNumber):
            trace.formulas.returned.append(leaf)
            return itemgetter(len(trace.graph.outputs) + len(trace.formulas.returned) - 1)
        if not isinstance(leaf, Traced):
            return lambda outputs: leaf
        layouts.append(leaf.layout)
        return shown(next(places), leaf.layout)

    make = maker(trace.tree, made)
    outputs = [trace.graph.layouts[v] for v in trace.graph.outputs]
    in_order = trace.positions == tuple(range(len(outputs))) and layouts == outputs
    compiled = ready(trace, call.executor, call.numbers, make, fast_math, in_order)
    hosted = held_elsewhere(trace.formulas.hosted)
    trace.formulas.hosted.clear()  # with the copies of the others
    return replace(compiled, asked={**dict.fromkeys(fixed, ""), **compiled.asked}, hosted=hosted)


def ready(
    trace: Trace,
    executor: Engine,
    given: Sequence[Any],
    make: Callable[[Sequence[Buffer]], Any],
    fast_math: bool = False,
    in_order: bool = False,
) -> Compiled:
    """A trace made ready to run on a device; `given` are numbers like those of calls, `make` gives what is returned."""
    graph, formulas = trace.graph, trace.formulas
    outputs = [graph.layouts[v] for v in graph.outputs]
    if graph.controls:  # each part of it has an assembly of its own
        assembly = Assembly(graph, graph, (), Plan(()), (), {})
        replay: Replay | Stages = Stages(executor, graph, fast_math)
    else:
        assembly = assemble(graph, executor.target, fast_math)
        replay = Replay(executor, assembly.plan, list(graph.inputs.values()), outputs, assembly.donations)
    wanted = formulas.wanted or formulas.returned
    numbers = Numbers(formulas, executor, given) if wanted else None
    return Compiled(
        trace.who, assembly, trace.captured, make, replay, numbers, formulas.asked, in_order, trace.donated
    )
