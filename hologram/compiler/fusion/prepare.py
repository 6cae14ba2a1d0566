"""A graph made ready for fusion: what is there twice is there once, small products are reductions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.compiler.fusion.graph import Graph, Node, Read
from hologram.foundation.sizes import Real, Size
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.opset.movement import joined_rows
from hologram.opset.reduce import dot_along

MOST_JOINED = 4  # products, which is as many matrices as joined_rows takes


def prepared(graph: Graph, limits: Limits) -> Graph:
    """The same graph, for a device of these limits."""
    return updates(joined_products(reductions(without_repeats(maps(graph)), limits)))


def maps(graph: Graph) -> Graph:
    """Launches of programs of one's own that are maps become such operations, which fuse."""
    return replace(graph, nodes=tuple(map(_as_map, graph.nodes)))


def _as_map(node: Node) -> Node:
    found = node.operation.as_map()
    if found is None:
        return node
    operation, read = found
    return replace(
        node,
        operation=operation,
        operands=tuple(o if k in read else None for k, o in enumerate(node.operands)),
    )


def without_repeats(graph: Graph) -> Graph:
    """Nodes that compute what an earlier one does go, but for values that are returned, in memory of their own."""
    instead: dict[int, tuple[int, int]] = {}
    first: dict[Any, Node] = {}
    nodes: list[Node] = []
    kept = set(graph.outputs)
    for node in graph.nodes:
        node = _read_parts(node, instead)
        key = _key(node)
        earlier = first.setdefault(key, node) if key is not None else node
        if earlier is node or kept & set(node.results):
            nodes.append(node)
        else:
            instead |= {a: (b, 0) for a, b in zip(node.results, earlier.results, strict=True)}
    return replace(graph, nodes=tuple(nodes))


def updates(graph: Graph) -> Graph:
    """Writes into donated inputs that nothing else reads, whose memory their results then are."""
    if not graph.donated:
        return graph
    readers = Counter(r.value for node in graph.nodes for r in node.reads)
    return replace(graph, nodes=tuple(_updating(node, graph, readers) for node in graph.nodes))


def _updating(node: Node, graph: Graph, readers: Mapping[int, int]) -> Node:
    base = node.base
    if base is None or base.value not in graph.donated or readers[base.value] != 1:
        return node
    (value,) = node.results
    whole = base.layout.is_contiguous and graph.may_take(value, base.value) and value in graph.outputs
    inside = (
        whole
        and node.operation.written_over(node.inputs) is not None
        and all(r.layout.size for r in node.reads)
    )
    return replace(node, updating=True) if inside else node


def reductions(graph: Graph, limits: Limits) -> Graph:
    """Products that are as quick as reductions become these."""
    return replace(graph, nodes=tuple(_as_rows(node, limits) for node in graph.nodes))


def _as_rows(node: Node, limits: Limits) -> Node:
    if len(node.results) != 1 or any(not isinstance(o, Read) for o in node.operands):
        return node
    rows = node.operation.as_rows(node.inputs, node.layouts[0], limits)
    if rows is None:
        return node
    operation, inputs, attributes = rows
    assert operation.infer(inputs, attributes)[0].shape == node.layouts[0].shape
    operands = tuple(
        Read(o.value, i)
        for o, i in zip(node.operands, inputs, strict=True)
        if isinstance(o, Read) and isinstance(i, Layout)
    )
    return Node(operation, operands, attributes, node.results, node.layouts)


def _key(node: Node) -> Hashable:
    """What nodes that compute the same have in common."""
    named = ((n, exactly(x)) for n, x in sorted(node.attributes.items()))
    return id(node.operation), tuple(map(exactly, node.operands)), tuple(named), node.layouts


def exactly(x: Any) -> Hashable:
    """A value such that 1, 1.0, True, 0.0 and -0.0 differ."""
    if isinstance(x, (list, tuple)):
        return tuple(map(exactly, x))
    return x if isinstance(x, (Read, Layout, str, Size, Real)) else (type(x), repr(x))


def joined_products(graph: Graph) -> Graph:
    """Products of one row by several matrices that are given, not all alike, as one product by all of their rows.

    Alike ones run over one domain, so that they become one kernel without that.
    """
    together: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if _may_join(node, graph):
            left, right = node.reads
            together.setdefault((left, right.layout.shape[-1], right.layout.dtype), []).append(node)
    joins = {
        id(nodes[0]): nodes[:MOST_JOINED]
        for nodes in together.values()
        if len({n.layouts[0].size for n in nodes[:MOST_JOINED]}) > 1
    }
    inside = {id(n) for nodes in joins.values() for n in nodes}
    places: dict[
        int, tuple[int, int]
    ] = {}  # of a value that is a part of another now: that one, and where it begins
    free = max((*graph.inputs, *(r for n in graph.nodes for r in n.results)), default=0) + 1
    made: list[Node] = []
    for node in graph.nodes:
        if id(node) in joins:
            made += _joined(joins[id(node)], free)
            start = 0
            for each in joins[id(node)]:
                places[each.results[0]] = (free + 1, start)
                start += each.layouts[0].size
            free += 2
        elif id(node) not in inside:
            made.append(_read_parts(node, places))
    return replace(graph, nodes=tuple(made))


def _may_join(node: Node, graph: Graph) -> bool:
    if node.operation is not dot_along or node.results[0] in graph.outputs or len(node.reads) != 2:
        return False
    left, right = node.reads
    return (
        right.value in graph.inputs
        and right.layout.ndim > 1
        and right.layout.size == math.prod(right.layout.shape[-2:])
        and left.layout.size == left.layout.shape[-1]
    )


def _joined(nodes: Sequence[Node], free: int) -> Iterator[Node]:
    """The matrices below each other, and the product; their values are `free` and the next."""
    left = nodes[0].reads[0]
    k, dtype = left.layout.shape[-1], left.layout.dtype
    matrices: list[Read | None] = []
    for node in nodes:
        right = node.reads[1]
        at = right.layout
        matrices.append(Read(right.value, Layout(at.dtype, at.shape[-2:], at.strides[-2:], at.offset)))
    count = sum(node.layouts[0].size for node in nodes)
    whole, result = (
        Layout.contiguous(dtype, (count, k)),
        Layout.contiguous(nodes[0].layouts[0].dtype, (count,)),
    )
    matrices += [None] * (MOST_JOINED - len(matrices))
    yield Node(joined_rows, tuple(matrices), {}, (free,), (whole,))
    row = Read(left.value, Layout(dtype, (1, k), (0, left.layout.strides[-1]), left.layout.offset))
    yield Node(dot_along, (row, Read(free, whole)), nodes[0].attributes, (free + 1,), (result,))


def _read_parts(node: Node, places: Mapping[int, tuple[int, int]]) -> Node:
    """The node reading parts of values in place of those that are such parts now."""
    if not any(r.value in places for r in node.reads):
        return node

    def changed(x: Any) -> Any:
        if not isinstance(x, Read) or x.value not in places:
            return x
        value, start = places[x.value]
        return replace(x, value=value, layout=replace(x.layout, offset=x.layout.offset + start))

    attributes = {n: changed(x) for n, x in node.attributes.items()}
    return replace(node, operands=tuple(map(changed, node.operands)), attributes=attributes)
