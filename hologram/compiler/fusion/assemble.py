"""A graph as one plan: its groups in an order that works, each as launches, and the memory between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hologram.atlas.program import Program
from hologram.compiler.canonical.form import identity_of
from hologram.compiler.fusion.bundle import bundled, bundles
from hologram.compiler.fusion.fuse import Fusion
from hologram.compiler.fusion.fused import epilogue, kernel
from hologram.compiler.fusion.graph import Graph, matched
from hologram.compiler.fusion.groups import Group, ordered
from hologram.compiler.fusion.prepare import prepared
from hologram.compiler.fusion.repeated import shared
from hologram.compiler.fusion.siblings import Siblings
from hologram.compiler.pipeline import canonical
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.expression import step_of
from hologram.opset.forms.steps import Steps

IDENTITY_DIGITS = 6


@frozen
class Assembly:
    """A graph's plan, whose operands are the graph's inputs, its outputs, then scratch; and how it came about.

    `donations` gives, by position, outputs the inputs whose memory they take: such an output starts with the contents
    of its input.
    """

    graph: Graph  # as it was traced
    prepared: Graph  # as it was fused
    groups: tuple[Group, ...]  # in the order they run
    plan: Plan
    counts: tuple[int, ...]  # the steps that begin in each group; one may run in the launch of an earlier one
    donations: Mapping[int, int]


def assemble(traced: Graph, target: Target, fast_math: bool = False) -> Assembly:
    """Fuses a graph for a device and plans its launches."""
    graph = prepared(traced, target.limits)
    siblings = Siblings(Fusion(graph, target.limits))
    groups = tuple(ordered(siblings.groups))
    steps = Steps(len(graph.inputs) + len(graph.outputs))
    places = {value: k for k, value in enumerate((*graph.inputs, *graph.outputs))}
    for group in groups:
        for value in group.stores:
            if value not in places:
                layout = graph.layouts[value]
                places[value] = steps.place(layout.dtype, layout.shape).position
    counts: list[int] = []
    in_place: dict[int, int] = {}
    for group in groups:
        before, pairs = len(steps.steps), siblings.in_place(group)
        _emit(group, graph, target, steps, places, pairs, fast_math)
        counts.append(len(steps.steps) - before)
        in_place |= pairs
    plan = steps.plan()
    plan = Plan(shared(plan.steps), plan.scratch)
    plan, counts = _together(plan, counts, target.limits, siblings.fusion.most_streams)
    donations = {places[v] - len(graph.inputs): places[s] for v, s in in_place.items()}
    donations |= _others(graph, plan, donations)
    return Assembly(traced, graph, groups, plan, tuple(counts), donations)


def _together(plan: Plan, counts: Sequence[int], limits: Limits, most_buffers: int) -> tuple[Plan, list[int]]:
    """The plan with small launches bundled, and how many begin in each group; one that joins another's counts there."""
    together = bundles(plan.steps, limits, most_buffers)
    owners = [group for group, count in enumerate(counts) for _ in range(count)]
    first = [owners[bundle[0]] for bundle in together]
    merged = tuple(bundled([plan.steps[k] for k in bundle]) for bundle in together)
    return Plan(merged, plan.scratch), [first.count(group) for group in range(len(counts))]


def _others(graph: Graph, plan: Plan, known: Mapping[int, int]) -> dict[int, int]:
    """Outputs that are first written when a donated input has been read for the last time; with these inputs."""
    inputs, outputs = ({v: k for k, v in enumerate(values)} for values in (graph.inputs, graph.outputs))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, step in enumerate(plan.steps):
        for operand in step.operands:
            first.setdefault(operand, k)
            last[operand] = k
    pairs = [
        (value, source)
        for source, position in inputs.items()
        if source in graph.donated and position not in known.values()
        for value, k in outputs.items()
        if k not in known
        and graph.may_take(value, source)
        and last.get(position, -1) < first.get(len(inputs) + k, -1)
    ]
    return {outputs[value]: inputs[source] for value, source in matched(graph, pairs).items()}


def _named(program: Program) -> Program:
    """A fused program with a part of its identity in its name: others are made of operations of the same names."""
    return replace(program, name=f"{program.name}_{identity_of(program)[:IDENTITY_DIGITS]}")


def _emit(
    group: Group,
    graph: Graph,
    target: Target,
    steps: Steps,
    places: Mapping[int, int],
    in_place: Mapping[int, int],
    fast_math: bool,
) -> None:
    """Appends a group's launches."""
    node = group.anchor
    if node is None:
        fused = kernel(group, graph, in_place)
        numbers = {s.name: x for s, x in zip(fused.program.scalars, fused.scalars, strict=True)}
        program = _named(canonical(fused.program, fast_math=fast_math))
        step = step_of(program, range(len(fused.values)), numbers, fused.grid)
        steps.add(step, [places[v] for v in fused.values])
        return
    reads = [places[r.value] for r in node.reads]
    if node.results[0] in group.inlined:
        after = epilogue(group, graph)
        (stored,) = group.stores
        layout = Layout.contiguous(graph.layouts[stored].dtype, node.layouts[0].shape)
        program = _named(canonical(after.program, fast_math=fast_math))
        plan = node.operation.finished(node.inputs, layout, node.settings, target, program)
        steps.extend(plan, [*reads, *(places[v] for v in after.values), places[stored]])
        return
    planned = node.operation.update_plan if in_place else node.operation.plan
    plan = planned(node.inputs, node.layouts, node.settings, target)
    positions = iter(reads)
    operands = [next(positions) if isinstance(i, Layout) else 0 for i in node.inputs]
    steps.extend(plan, [*operands, *(places[v] for v in node.results)])
