"""A graph as one plan: its groups in an order that works, each as launches, and the memory between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hologram.compiler.fuse import Fusion, Group
from hologram.compiler.fused import Kernel, epilogue, kernel
from hologram.compiler.graph import Graph
from hologram.compiler.siblings import merged
from hologram.limits import Limits
from hologram.opset.form_map import step_of
from hologram.opset.layout import Layout
from hologram.opset.plan import Plan
from hologram.opset.steps import Steps


@dataclass(frozen=True)
class Assembly:
    """A graph's plan, whose operands are the graph's inputs, its outputs, then scratch; and how it came about."""

    graph: Graph
    groups: tuple[Group, ...]  # in the order they run
    plan: Plan
    counts: tuple[int, ...]  # the steps of each group

    def may_share(self, given: int, output: int) -> bool:
        """Whether an output may lie in an input's memory: when it is written, the input is not needed any more.

        One kernel may do both, if each lane, or row, reads the elements it writes and no others.
        """
        target = len(self.graph.inputs) + output
        source, value = list(self.graph.inputs)[given], self.graph.outputs[output]
        homes = [group for group, count in zip(self.groups, self.counts, strict=True) for _ in range(count)]
        reading = [k for k, step in enumerate(self.plan.steps) if given in step.operands]
        writing = [k for k, step in enumerate(self.plan.steps) if target in step.operands]
        last, first = max(reading, default=-1), min(writing, default=len(homes))
        if last != first:
            return last < first
        group = homes[first]
        return group.anchor is None and all(at == group.stores.get(value) for at in group.needs.get(source, ()))


def assemble(graph: Graph, limits: Limits, fast_math: bool = False) -> Assembly:
    """Fuses a graph for a device and plans its launches."""
    fusion = Fusion(graph, limits)
    groups = tuple(_ordered(merged(fusion)))
    steps = Steps(len(graph.inputs) + len(graph.outputs))
    places = {value: k for k, value in enumerate((*graph.inputs, *graph.outputs))}
    for group in groups:
        for value in group.stores:
            if value not in places:
                layout = graph.layouts[value]
                places[value] = steps.place(layout.dtype, layout.shape).position
    counts = []
    for group in groups:
        before = len(steps.steps)
        _emit(group, graph, limits, steps, places)
        counts.append(len(steps.steps) - before)
    return Assembly(graph, groups, steps.plan(), tuple(counts))


def _emit(group: Group, graph: Graph, limits: Limits, steps: Steps, places: dict[int, int]) -> None:
    node = group.anchor
    if node is None:
        found = kernel(group, graph)
        numbers = {s.name: x for s, x in zip(found.program.scalars, found.scalars, strict=True)}
        step = step_of(found.program, range(len(found.values)), numbers, found.grid)
        steps.add(step, [places[v] for v in found.values])
        return
    reads = [places[r.value] for r in node.reads]
    if node.results[0] in group.inlined:
        after: Kernel = epilogue(group, graph)
        (stored,) = group.stores
        layout = Layout.contiguous(graph.layouts[stored].dtype, node.layouts[0].shape)
        plan = node.operation.finished(node.inputs, layout, limits, after.program)
        steps.extend(plan, [*reads, *(places[v] for v in after.values), places[stored]])
        return
    plan = node.operation.plan(node.inputs, node.layouts, node.attributes, limits)
    positions = iter(reads)
    operands = [next(positions) if isinstance(i, Layout) else 0 for i in node.inputs]
    steps.extend(plan, [*operands, *(places[v] for v in node.results)])


def _ordered(groups: list[Group]) -> Iterator[Group]:
    """The groups, each after those whose values it loads; otherwise in the order of the graph."""
    homes = {value: group for group in groups for value in group.stores}
    done: set[int] = set()
    for last in reversed(groups):
        stack = [last]
        while stack:
            group = stack[-1]
            waiting = [
                homes[v] for v in sorted(group.sources) if v in homes and id(homes[v]) not in done and homes[v] is not group
            ]
            if id(group) in done or not waiting:
                stack.pop()
                if id(group) not in done:
                    done.add(id(group))
                    yield group
            else:
                stack += reversed(waiting)
