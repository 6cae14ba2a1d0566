"""A traced function, compiled for one signature: its plan, ready to replay, and how results are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hologram.compiler.fusion.assemble import Assembly, assemble
from hologram.errors import BufferFreed, TraceError
from hologram.frontend.jit.recorder import Recorder
from hologram.frontend.jit.signature import filled
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
    donated: tuple[int, ...] = ()  # numbers of the tensors that a call frees

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """The function's result for tensors in the order of the signature; raises BufferFreed."""
        if self.captured:
            tensors = [*tensors, *self._living()]
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
    tensors: Sequence[Tensor],
    donated: Sequence[int],
    fast_math: bool = False,
) -> Compiled:
    """Traces a function on tensors of these layouts and compiles what it did. `donated` are numbers of tensors."""
    executor = tensors[0].executor
    recorder = Recorder(executor, who)
    arguments = [recorder.argument(t.layout) for t in tensors]
    positional, named = filled(args, kwargs, arguments)
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
        return leaf

    tree = mapped(returned, gather)
    recording, positions = recorder.finish(leaves, donated)
    places = iter(zip(positions, leaves, strict=True))

    def slot(leaf: Any) -> Any:
        if not isinstance(leaf, Traced):
            return leaf
        position, tensor = next(places)
        return Slot(position, tensor.layout, executor.layout_id(tensor.layout))

    graph = recording.graph
    assembly = assemble(graph, executor.limits, fast_math)
    outputs = [graph.layouts[v] for v in graph.outputs]
    replay = Replay(executor, assembly.plan, len(graph.inputs), outputs, assembly.donations)
    found = mapped(tree, slot)
    return Compiled(who, assembly, recording.captured, found, replay, tuple(donated))
