"""Graphs with loops and choices: cut into stages, put behind one another, told apart by what they compute."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.compiler.fusion.graph import Choice, Control, Graph, Loop, Node, Read
from hologram.compiler.fusion.prepare import exactly
from hologram.machine.layout import Layout
from hologram.opset.logic import where

Step = Node | Control


def in_order(graph: Graph) -> list[Step]:
    """What a graph computes, each after what it reads."""
    return sorted((*graph.nodes, *graph.controls), key=lambda step: step.results[0] if step.results else -1)


def staged(graph: Graph) -> list[Graph | Control]:
    """A graph as parts without controls, and the controls between them, in an order that works.

    A part's inputs are values of the whole graph, by their numbers, and so are its outputs.
    """
    makers = {result: step for step in (*graph.nodes, *graph.controls) for result in step.results}
    known = set(graph.inputs)
    parts: list[tuple[list[Node], Control | None]] = []
    for goal in (*in_order(replace(graph, nodes=())), None):
        wanted = graph.outputs if goal is None else [r.value for r in goal.reads]
        parts.append((_needed(wanted, makers, known), goal if isinstance(goal, Control) else None))
        known.update(() if goal is None else goal.results)
    stages: list[Graph | Control] = []
    used = set(graph.outputs)
    for nodes, control in reversed(parts):
        if control is not None:
            stages.append(control)
            used.update(r.value for r in control.reads)
        if nodes:
            made = [v for node in nodes for v in node.results]
            inside = set(made)
            read = dict.fromkeys(r.value for node in nodes for r in node.reads if r.value not in inside)
            inputs = {v: graph.layouts[v] for v in read}
            stages.append(Graph(inputs, tuple(nodes), tuple(v for v in made if v in used)))
            used.update(read)
    return stages[::-1]


def parts_of(graph: Graph) -> list[Graph]:
    """The graphs without controls that a graph is made of, bodies of loops and branches among them."""
    if not graph.controls:
        return [graph]
    parts: list[Graph] = []
    for stage in staged(graph):
        if isinstance(stage, Graph):
            parts.append(stage)
        elif isinstance(stage.what, Loop):
            ends = () if stage.what.condition is None else (stage.what.condition,)
            parts += [part for each in (*ends, stage.what.body) for part in parts_of(each)]
        else:
            parts += [part for each in stage.what.branches for part in parts_of(each)]
    return parts


def _needed(wanted: Iterable[int], makers: Mapping[int, Step], known: set[int]) -> list[Node]:
    """The nodes that values wait for which are not known yet, in order; they are known then."""
    nodes: dict[int, Node] = {}
    waiting = [v for v in wanted if v not in known]
    while waiting:
        value = waiting.pop()
        step = makers[value]
        if value in known or not isinstance(step, Node):
            continue
        known.update(step.results)
        nodes[step.results[0]] = step
        waiting += [r.value for r in step.reads if r.value not in known]
    return [nodes[k] for k in sorted(nodes)]


def behind(first: Graph, second: Graph, given: Sequence[int]) -> tuple[Graph, tuple[int, ...]]:
    """A graph with the steps of another behind its own, whose inputs are values `given`; and the other's outputs."""
    free = 1 + max((*first.layouts, *second.layouts), default=0)
    places = dict(zip(second.inputs, given, strict=True))
    for step in in_order(second):
        places |= {v: free + v for v in step.results}

    def moved(x: Any) -> Any:
        return replace(x, value=places[x.value]) if isinstance(x, Read) else x

    nodes = tuple(
        replace(
            n,
            operands=tuple(map(moved, n.operands)),
            attributes={name: moved(x) for name, x in n.attributes.items()},
            results=tuple(places[v] for v in n.results),
        )
        for n in second.nodes
    )
    controls = tuple(
        replace(c, operands=tuple(map(moved, c.operands)), results=tuple(places[v] for v in c.results))
        for c in second.controls
    )
    whole = replace(first, nodes=(*first.nodes, *nodes), controls=(*first.controls, *controls))
    return whole, tuple(places[v] for v in second.outputs)


def without_first(loop: Loop) -> Loop | None:
    """A loop without the first value that it carries, whose last nobody asks for; None where others come from it."""
    body = loop.body
    first, rest = list(body.inputs)[loop.constants], body.outputs[1:]
    if not rest:
        return None
    makers = {result: step for step in (*body.nodes, *body.controls) for result in step.results}
    needed: set[int] = set()
    waiting = list(rest)
    while waiting:
        value = waiting.pop()
        if value == first:
            return None
        if value not in needed:
            needed.add(value)
            waiting += [r.value for r in makers[value].reads] if value in makers else []
    nodes = tuple(n for n in body.nodes if not needed.isdisjoint(n.results))
    controls = tuple(c for c in body.controls if not needed.isdisjoint(c.results))
    inputs = {v: at for v, at in body.inputs.items() if v != first}
    fewer = replace(body, inputs=inputs, nodes=nodes, controls=controls, outputs=rest)
    return replace(loop, body=fewer, carried=loop.carried - 1)


def stepping(loop: Loop, guarded: bool) -> Loop:
    """A loop with a condition as one whose body carries it too, first of all: whether there is another turn.

    If `guarded`, a turn that should not be changes nothing.
    """
    assert loop.condition is not None
    body = loop.body
    values = list(body.inputs)
    constants, state = values[: loop.constants], values[loop.constants :]
    (flag,) = (loop.condition.layouts[v] for v in loop.condition.outputs)
    free = 1 + max((*body.layouts, *loop.condition.layouts), default=0)
    inputs = {v: body.layouts[v] for v in constants} | {free: flag} | {v: body.layouts[v] for v in state}
    carried: Sequence[int] = body.outputs
    whole = replace(body, inputs=inputs)
    if guarded:
        kept = []
        for k, (before, after) in enumerate(zip(state, body.outputs, strict=True)):
            layout = body.layouts[after]
            reads = (Read(free, flag), Read(after, layout), Read(before, body.layouts[before]))
            kept.append(Node(where, reads, where.attributes, (free + 1 + k,), (layout,)))
        carried = [node.results[0] for node in kept]
        whole = replace(whole, nodes=(*whole.nodes, *kept))
    whole, (again,) = behind(whole, loop.condition, [*constants, *carried])
    if guarded:  # a condition that held once more after the end would begin anew
        both = 1 + max(whole.layouts)
        off = Node(where, (Read(free, flag), Read(again, flag), False), where.attributes, (both,), (flag,))
        whole, again = replace(whole, nodes=(*whole.nodes, off)), both
    whole = replace(whole, outputs=(again, *carried))
    return Loop(loop.who, whole, loop.constants, loop.carried + 1)


def identity(graph: Graph) -> Hashable:
    """What graphs that compute the same, numbered alike, have in common."""
    steps = []
    for step in in_order(graph):
        if isinstance(step, Control):
            steps.append((what(step.what), tuple(map(exactly, step.operands)), step.results))
            continue
        named = tuple((n, exactly(x)) for n, x in sorted(step.attributes.items()))
        steps.append((step.operation, tuple(map(exactly, step.operands)), named, step.results, step.layouts))
    return tuple(graph.inputs.items()), tuple(steps), graph.outputs


def what(control: Loop | Choice) -> Hashable:
    """What loops, or choices, that compute the same have in common."""
    if isinstance(control, Choice):
        return tuple(map(identity, control.branches))
    ends = None if control.condition is None else identity(control.condition)
    counts = (control.constants, control.carried, control.length, control.reverse)
    return (counts, identity(control.body), ends)


def whole_of(layout: Layout) -> Layout:
    """How the elements of a layout lie in memory of their own."""
    return Layout.contiguous(layout.dtype, layout.shape)
