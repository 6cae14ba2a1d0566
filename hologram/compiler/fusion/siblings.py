"""Kernels beside each other become one: reductions of the same rows, updates of many tensors in one launch."""

from __future__ import annotations

import math
from collections import Counter

from hologram.compiler.fusion.fuse import MOST_INSTRUCTIONS, MOST_OPERATIONS, Fusion
from hologram.compiler.fusion.graph import Node, Read, matched
from hologram.compiler.fusion.groups import Group, ordered

TINY = 16  # lanes: whatever they compute, a launch costs more


class Siblings:
    """The groups of a fusion, those over one domain joined where none waits for the other.

    Where a launch is dear (any GPU) that holds for all of them; where it is cheap, on a CPU, for those that read a
    value in common, which is then read once.
    """

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        for group in fusion.groups:
            if group.anchor is None:
                group.become(group.squeezed())
        self.launches_are_expensive = not fusion.limits.cheap_launches
        self.readers = Counter(v for group in fusion.groups for v in group.sources)
        # Sets of groups as bits, by the identity of a group: what it is made of, and what it waits for.
        self.made_of = {id(group): 1 << k for k, group in enumerate(fusion.groups)}
        self.behind: dict[int, int] = {}
        for group in ordered(fusion.groups):
            homes = {id(fusion.homes[v]) for v in group.sources if v in fusion.homes} - {id(group)}
            behind = 0
            for home in homes:
                behind |= self.made_of[home] | self.behind[home]
            self.behind[id(group)] = behind
        self.groups: list[Group] = []
        for group in fusion.groups:
            # Those that read the same first: one kernel that alone reads a donated input may overwrite it.
            sources = group.sources
            order = sorted(self.possible(group), key=lambda other: other.sources.isdisjoint(sources))
            host = next((other for other in order if self.fits(other, group)), None)
            if host is None:
                self.groups.append(group)
            else:
                self.join(host, group)

    def in_place(self, group: Group) -> dict[int, int]:
        """The outputs that a group stores where it alone reads a donated input, lane by lane; with these inputs."""
        graph = self.fusion.graph
        if not graph.donated:
            return {}
        if group.anchor is not None:
            return self.updated(group, group.anchor)
        free = [
            v for v in group.loads if v in graph.donated and self.readers[v] == 1 and v not in group.reads
        ]
        updating = {v: n.base.value for v, n in group.inlined.items() if n.updating and n.base is not None}
        written = [value for value in group.stores if value in graph.outputs and value not in updating]
        pairs = [
            (value, source)
            for value in written
            for source in free
            if graph.may_take(value, source) and group.loads[source] == [group.stores[value]]
        ]
        return matched(graph, pairs) | updating

    def updated(self, group: Group, node: Node) -> dict[int, int]:
        """The output that is a donated input but for what is written into it, which nobody else reads."""
        graph, base = self.fusion.graph, node.operation.updates(node.inputs)
        source = None if base is None else node.operands[base]
        if not isinstance(source, Read) or source.value not in graph.donated:
            return {}
        (value,) = node.results
        others = [o for o in node.reads if o is not source and o.value == source.value]
        alone = self.readers[source.value] == 1 and not others and list(group.stores) == [value]
        whole = source.layout.is_contiguous and graph.may_take(value, source.value)
        return {value: source.value} if alone and whole and value in graph.outputs else {}

    def streams(self, group: Group) -> int:
        """Buffers that a group's kernel sees; a result in the memory of an input is no further one."""
        return len((group.sources | group.stores.keys()) - set(self.in_place(group).values()))

    def possible(self, group: Group) -> list[Group]:
        """The groups that may become one with this one by what is asked quickly; in a long chain there are few."""
        if group.anchor is not None:
            return []
        alike = (other for other in self.groups if other.anchor is None and other.reduced == group.reduced)
        return [other for other in alike if not (self.waits(other, group) or self.waits(group, other))]

    def fits(self, host: Group, group: Group) -> bool:
        """Whether two groups that possibly may do become one."""
        size = math.prod(host.shape)
        if size != math.prod(group.shape):
            return False
        if host.reduced and host.shape != group.shape:
            return False
        shared = host.sources & group.sources
        if (
            not (self.launches_are_expensive or shared or size <= TINY)
            or host.computed + group.computed > MOST_OPERATIONS
        ):
            return False
        if self.fusion.length(host) + self.fusion.length(group) > MOST_INSTRUCTIONS:
            return False
        most = self.fusion.limits.max_bindings if size <= TINY else self.fusion.most_streams
        if self.streams(host) + self.streams(group) - len(shared) > most:
            return False
        return host.shape == group.shape or self.aligned(host, group)

    @staticmethod
    def aligned(host: Group, group: Group) -> bool:
        """Whether the axes of one are parts of the other's, which is then split into them."""
        first, other = sorted((host, group), key=lambda g: len(g.shape))
        refined = first.refined(other.shape)
        if refined is not None:
            first.become(refined)
        return refined is not None

    def waits(self, group: Group, other: Group) -> bool:
        """Whether a group needs, through whatever lies between, what another one stores."""
        return bool(self.behind[id(group)] & self.made_of[id(other)])

    def join(self, host: Group, group: Group) -> None:
        """Moves a group into another."""
        self.readers.subtract(host.sources & group.sources)
        both = self.made_of[id(host)] | self.made_of[id(group)]
        behind = self.behind[id(host)] | self.behind[id(group)]
        self.made_of[id(host)], self.behind[id(host)] = both, behind
        for waiting, groups in self.behind.items():
            if groups & both:
                self.behind[waiting] = groups | both | behind
        for value, layouts in group.needs.items():
            for layout in layouts:
                host.need(value, layout)
        host.inlined |= group.inlined
        host.reads |= group.reads
        host.reasons += group.reasons
        for value, layout in group.stores.items():
            self.fusion.store(host, value, layout)
