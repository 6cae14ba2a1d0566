"""A traced function, compiled for one signature: its plan, ready to replay, and how results are put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hologram.compiler.fusion.assemble import Assembly, assemble
from hologram.errors import BufferFreed, TraceError
from hologram.frontend.jit.number import Formulas, Numbers, TracedNumber
from hologram.frontend.jit.recorder import Recorder
from hologram.frontend.jit.signature import Call, filled
from hologram.frontend.jit.traced import Traced
from hologram.frontend.jit.tree import mapped
from hologram.frontend.tensor import Tensor
from hologram.layout import Layout
from hologram.runtime.buffer import Buffer
from hologram.runtime.replay import Replay


@dataclass(frozen=True)
class Slot:
    """Where a tensor of the result comes from: an output of the plan, and the layout it is seen through."""

    output: int
    layout: Layout
    layout_id: int


@dataclass(frozen=True, eq=False)
class Compiled:
    """Runs for tensors of the layouts it was traced with."""

    who: str
    assembly: Assembly
    captured: tuple[Tensor, ...]
    results: Any  # the tree that the function returned, with a Slot for every tensor
    replay: Replay
    numbers: Numbers | None  # of each call, where kernels read any
    asked: frozenset[int]  # floats among the arguments for whose values alone it was traced
    donated: tuple[int, ...] = ()  # numbers of the tensors that a call frees

    def __call__(self, tensors: Sequence[Tensor], numbers: Sequence[float] = ()) -> Any:
        """The function's result for tensors and floats in the order of the signature; raises BufferFreed."""
        if self.captured:
            tensors = [*tensors, *self._living()]
        if self.numbers is not None:
            tensors = [*tensors, *self.numbers(numbers)]
        outputs = self.replay(tensors)
        for number in self.donated:
            tensors[number].buffer.free()
        results = self.results
        if type(results) is Slot:
            return Tensor(outputs[results.output], results.layout, results.layout_id)
        return mapped(results, lambda leaf: _seen(outputs, leaf) if type(leaf) is Slot else leaf)

    def _living(self) -> tuple[Tensor, ...]:
        for tensor in self.captured:
            if tensor.key is None:
                raise BufferFreed(
                    f"{self.who}: a tensor of shape {tensor.shape} that it closes over was freed"
                )
        return self.captured

    @property
    def dispatches(self) -> int:
        """Kernels that a call launches."""
        return len(self.assembly.plan.steps)


def _seen(outputs: Sequence[Buffer], slot: Slot) -> Tensor:
    return Tensor(outputs[slot.output], slot.layout, slot.layout_id)


def _inside(leaf: Any) -> Iterable[Any]:
    """What a leaf of a result holds, as far as one can see."""
    if isinstance(leaf, (tuple, list, set, frozenset)):
        return leaf
    return vars(leaf).values() if hasattr(leaf, "__dict__") and not isinstance(leaf, type) else ()


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
    """Traces a function on tensors of a call's layouts and compiles what it did.

    `donated` are numbers of tensors, `fixed` of floats that are known to be asked for.
    """
    executor = call.tensors[0].executor
    formulas = Formulas(call.numbers)
    recorder = Recorder(executor, who, formulas)
    arguments = [recorder.argument(t.layout) for t in call.tensors]
    floats = [
        x if k in fixed else TracedNumber(formulas, k, x, frozenset({k})) for k, x in enumerate(call.numbers)
    ]
    positional, named = filled(args, kwargs, arguments, floats)
    returned = recorder.recorded(function, positional, named)
    leaves: list[Traced] = []

    def gather(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            leaves.append(leaf if isinstance(leaf, Traced) else recorder.capture(leaf))
            return leaves[-1]
        if isinstance(leaf, Iterator) or any(isinstance(x, Traced) for x in _inside(leaf)):
            raise TraceError(
                f"{who}: tensors are returned in tuples, lists, named tuples and dicts, got {type(leaf).__name__}"
            )
        return leaf.value if type(leaf) is TracedNumber else leaf

    tree = mapped(returned, gather)
    recording, positions = recorder.finish(leaves, donated)
    places = iter(zip(positions, leaves, strict=True))

    def slot(leaf: Any) -> Any:
        if not isinstance(leaf, Traced):
            return leaf
        position, tensor = next(places)
        return Slot(position, tensor.layout, executor.layout_id(tensor.layout))

    graph = recording.graph
    assembly = assemble(graph, executor.target, fast_math)
    outputs = [graph.layouts[v] for v in graph.outputs]
    replay = Replay(executor, assembly.plan, len(graph.inputs), outputs, assembly.donations)
    found = mapped(tree, slot)
    numbers = Numbers(formulas, executor.tensor) if formulas.wanted else None
    asked = formulas.asked.union(fixed)
    return Compiled(
        who,
        assembly,
        recording.captured,
        found,
        replay,
        numbers,
        frozenset(asked),
        tuple(donated),
    )
