"""Fusion: which operations of a graph share a kernel.

Nodes are met from the last to the first, so that everybody who needs a value is known when its own node is met. An
element-wise node moves into the groups that need its result (its operands are then needed there, at layouts composed
with its own), a reduction gives its group a row, and what neither can goes to memory. Because views are layouts, they
compose; nothing is ever read through a division.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hologram.compiler.fusion.boxes import Seen, Within, layout_of, needed, over, through
from hologram.compiler.fusion.cost import A_PIECE, instructions, is_short, weight
from hologram.compiler.fusion.graph import Graph, Node
from hologram.compiler.fusion.groups import (
    Group,
    covers,
    cut_for,
    lanes_in_order,
    lanes_of,
    rows_of,
    same,
    widened_by,
)
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import compose
from hologram.opset.forms.row import Row

CHEAP = 4  # instructions that are rather computed twice than kept in memory
MOST_COPIES = 2  # kernels that compute a cheap value anew
MOST_BOXES = 4  # of a kernel that a value is computed for: chains of padding see it in more and more
LAUNCH = 250_000  # instructions that cost no more than a further launch and the memory between the two
MOST_OPERATIONS = 128  # of one kernel: compilers take more than twice as long for twice as many
MOST_INSTRUCTIONS = (
    4096  # of one kernel, functions counted as what they become: the same, and sin is 230 of them
)
FEW = 8  # operations that are never too long
MOST_SWEEPS = 4  # over rows: each computes anew what those before it did. A CPU keeps a row in its cache
MOST_STREAMS = 40  # buffers of one kernel: each is a stream of memory, and registers


class Fusion:
    """The groups of a graph, in the making."""

    def __init__(self, graph: Graph, limits: Limits) -> None:
        self.graph = graph
        self.limits = limits
        self.groups: list[Group] = []
        self.homes: dict[int, Group] = {}  # of every stored value
        self.kept = frozenset(graph.outputs)
        self.lengths: dict[int, int] = {}  # instructions that nodes become, by their results
        self.rows_behind = self.followed()
        self.of_coordinates = self.from_nothing()
        for node in reversed(graph.nodes):
            users = [g for g in self.groups if any(r in g.needs or r in g.reads for r in node.results)]
            if users or self.kept & set(node.results):
                self.place(node, users)

    # Where a node goes.

    def place(self, node: Node, users: list[Group]) -> None:
        simple = all(n.size for n in node.layouts) and all(r.layout.size for r in node.reads)
        if node.updating:
            self.update(node)
        elif simple and (node.operation.pointwise or joins(node) or (node.placed and is_short(node))):
            self.pointwise(node, users)
        elif simple and isinstance(node.operation, Row) and len(node.results) == 1:
            self.row(node, users)
        else:
            self.alone(node, users)

    def pointwise(self, node: Node, users: list[Group]) -> None:
        """Into the kernels that need it; else to memory, from one of them if it computes every element anyway."""
        (value,) = node.results
        reason = self.why_stored(node, users)
        if not reason:
            for group in users:
                self.inline(group, node)
            return
        size = node.layouts[0].size
        for group in users:
            fits = group.anchor is None and value not in group.reads
            whole = next((at for at in group.needs.get(value, ()) if covers(at, size, group)), None)
            fits = fits and not self.full(group, node) and self.can_store(group, value, users)
            fits = fits and whole is not None and not self.anew(node, [group])
            if isinstance(whole, Layout) and fits and self.composed(group, node) is not None:
                self.inline(group, node)
                self.store(group, value, whole)
                return
        if node.reached:  # its own plan is as good, and serves every shape
            self.alone(node, users)
            return
        group = self.opened(Group(node.layouts[0].shape), reason)
        group.need(value, node.layouts[0])
        self.inline(group, node)
        self.store(group, value, node.layouts[0])

    def why_stored(self, node: Node, users: list[Group]) -> str:
        """Why a value has to be in memory; empty if it need not."""
        (value,) = node.results
        name = node.operation.name
        if value in self.kept:
            return f"{name}: its result is returned"
        for group in users:
            if value in group.reads:
                return f"{name}: {group.reader(value)} reads it from memory"
            if (node.reached or node.pieces) and group.anchor is not None:
                return f"{name}: what finishes a product reads along its rows and columns"
            if not self.follows(group, node):
                return f"{name}: it is read in an order that its operands' axes cannot follow"
            full = self.full(group, node)
            if full:
                return f"{name}: {full}"
        return self.anew(node, users)

    def anew(self, node: Node, users: list[Group]) -> str:
        """Why a value would be computed too often if these kernels compute it; empty if it would not."""
        (value,) = node.results
        name, size = node.operation.name, node.layouts[0].size
        times = sum(self.evaluations(g, node, at) for g in users for at in g.needs[value])
        if value in self.of_coordinates and weight(node) <= CHEAP:
            return ""
        boxes = max((sum(isinstance(at, Within) for at in g.needs[value]) for g in users), default=0)
        further = max(boxes - 1, 0)
        if boxes > MOST_BOXES or further**2 * size > LAUNCH:  # what it is made of is seen in more again
            return f"{name}: it would be computed for {boxes} boxes"
        behind = self.rows_behind.get(value)
        if (
            times > size
            and behind is not None
            and rows_of(behind).count == size
            and not self.takes(behind, users)
        ):
            return f"{name}: it is computed where the rows that it comes from are"
        if times > size and (len(users) > MOST_COPIES or self.is_expensive(node, times - size)):
            return f"{name}: it would be computed {times / size:.3g} times"
        return ""

    def takes(self, node: Node, users: list[Group]) -> bool:
        """Whether one of the kernels goes over the rows of a reduction anyway."""
        rows = rows_of(node)
        return rows.count == 1 and any(group.reduced for group in users)

    @staticmethod
    def is_expensive(node: Node, evaluations: int) -> bool:
        """Whether so many evaluations of a node cost more than to keep its result."""
        each = weight(node)
        return each > CHEAP and evaluations * each > LAUNCH

    def evaluations(self, group: Group, node: Node, at: Seen) -> int:
        """How often a group computes a node at a layout: once a row, if the group will get the rows it comes from."""
        followed = None if group.reduced else self.rows_behind.get(node.results[0])
        if followed is not None:
            rows = rows_of(followed)
            if not rows.keeps_shape and lanes_of(group, at, rows) is not None:
                return rows.count
        return group.evaluations(at)

    def followed(self) -> dict[int, Node]:
        """For every value that comes from a reduction by element-wise operations, that reduction."""
        reductions: dict[int, Node] = {}
        for node in self.graph.nodes:
            if isinstance(node.operation, Row):
                reductions |= dict.fromkeys(node.results, node)
            elif node.operation.pointwise:
                size = node.layouts[0].size
                made = (r.value for r in node.reads if r.value in self.graph.makers)
                before = next((v for v in made if self.graph.layouts[v].size == size), None)
                if before in reductions:
                    reductions[node.results[0]] = reductions[before]
        return reductions

    def update(self, node: Node) -> None:
        """A kernel over what is written into the memory of an operand."""
        (value,) = node.results
        over = Layout.contiguous(node.layouts[0].dtype, node.domain)
        group = self.opened(
            Group(over.shape), f"{node.operation.name}: it writes at positions that it computes"
        )
        group.need(value, over)
        self.inline(group, node)
        self.store(group, value, over)

    def from_nothing(self) -> set[int]:
        """The values that kernels make of coordinates and numbers alone, for which nothing is read from memory."""
        values: set[int] = set()
        for node in self.graph.nodes:
            made = node.placed or (node.operation.pointwise and node.reads)
            if made and all(r.value in values for r in node.reads):
                values.update(node.results)
        return values

    def row(self, node: Node, users: list[Group]) -> None:
        """A reduction becomes the row of a kernel that needs its result, where their domains agree."""
        (value,) = node.results
        name = node.operation.name
        rows = rows_of(node)
        reason = "" if users else f"{name}: its result is returned"
        for group in users:
            widened, why = widened_by(group, value, rows)
            if widened is not None and not self.can_store(group, value, users):
                widened, why = None, "another kernel that needs it comes first"
            if widened is not None and self.full(widened, node):
                widened, why = None, self.full(widened, node)
            if widened is None:
                reason = f"{name}: {why}"
                continue
            group.become(widened)
            placed = rows.over(group.shape)
            assert placed is not None
            placed.enter(group, node)
            if len(users) > 1 or value in self.kept:
                self.store(group, value, placed.result)
            return
        group = self.opened(Group(rows.shape, rows.reduced), reason)
        group.need(value, rows.result)
        rows.enter(group, node)
        self.store(group, value, rows.result)

    def alone(self, node: Node, users: list[Group]) -> None:
        """A plan of its own, with the element-wise code after it where its kernel takes that in."""
        group = Group(node.layouts[0].shape, anchor=node)
        group.reads = frozenset(r.value for r in node.reads)
        after, why = self.epilogue(node, users)
        if after is not None:
            users[0].become(after)
            users[0].anchor, users[0].reads = node, group.reads
            users[0].inlined[node.results[0]] = node
            return
        self.opened(group, f"{node.operation.name}: it has kernels of its own" + (f"; {why}" if why else ""))
        for value, layout in zip(node.results, node.layouts, strict=True):
            self.store(group, value, layout)

    def epilogue(self, node: Node, users: list[Group]) -> tuple[Group | None, str]:
        """The group that needs a product, over rows and columns, if it can be the product's epilogue; else why not."""
        (value, *more), layout = node.results, node.layouts[0]
        matrix = node.operation.matrix(node.inputs, layout) if not more and layout.size else None
        if matrix is None or not users:
            return None, ""
        group = users[0]
        if len(users) > 1 or value in self.kept or value in group.reads:
            return None, "more than its epilogue needs its result"
        boxed = group.reduced or group.reads or group.sees_boxes
        if group.anchor is not None or boxed or len(group.stores) != 1:
            return None, "what follows is no single element-wise result"
        (stored,) = group.stores
        accumulated = layout.dtype.computed
        if not accumulated == self.graph.layouts[stored].dtype.computed in self.limits.tile_dtypes:
            return None, f"kernels that finish products of {layout.dtype} are not here"
        (at, *_) = group.needs[value]
        assert isinstance(at, Layout)
        lanes, along = lanes_in_order(group, at)
        numbering = compose(lanes, matrix) if along == 1 and math.prod(group.shape) == layout.size else None
        changed = group.remap(lambda seen: over(seen, numbering), matrix.shape, 0) if numbering else None
        if changed is None:
            return None, "what follows reads along other axes than rows and columns"
        if not all(same(at, matrix) for at in [*changed.needs[value], *changed.stores.values()]):
            return None, "what follows reads or stores it in another order"
        return changed, ""

    # Steps that several of them take.

    @property
    def most_streams(self) -> int:
        return min(self.limits.max_bindings, MOST_STREAMS)

    def full(self, group: Group, node: Node) -> str:
        """Why a kernel cannot take in a further operation; empty if it can."""
        if group.streams + len(node.reads) > self.most_streams:
            return f"the kernel that needs it sees {group.streams} buffers already"
        before, more = sweeps(group.inlined.values()), sweeps((node,))
        if more and before and before + more > MOST_SWEEPS and not self.limits.host_resident:
            return f"the kernel that needs it goes over its rows {before} times already"
        times = len(group.needs[node.results[0]])
        if group.computed + times > MOST_OPERATIONS:
            return f"the kernel that needs it computes {group.computed} operations already"
        length = self.length(group)
        if length and length + times * self.instructions(node) > MOST_INSTRUCTIONS:
            return f"the kernel that needs it has {length} instructions already"
        return ""

    def length(self, group: Group) -> int:
        """About how many instructions a group's kernel has; 0 where they are few in any case."""
        if group.computed < FEW:
            return 0
        nodes = ((v, node) for v, node in group.inlined.items() if node is not group.anchor)
        return sum(len(group.needs[v]) * self.instructions(node) for v, node in nodes)

    def instructions(self, node: Node) -> int:
        """About how many instructions a node becomes."""
        count = self.lengths.get(node.results[0])
        if count is None:
            count = self.lengths[node.results[0]] = instructions(node)
        return count

    def opened(self, group: Group, reason: str) -> Group:
        group.reasons.append(reason)
        self.groups.append(group)
        return group

    def store(self, group: Group, value: int, layout: Layout) -> None:
        group.stores[value] = layout
        self.homes[value] = group

    def composed(self, group: Group, node: Node) -> list[tuple[int, Seen]] | None:
        """What a group that computes a node needs for it, and how it sees that; None where nothing says how."""
        found: list[tuple[int, Seen]] = []
        for at in group.needs[node.results[0]]:
            operands = needed(node, at)
            if operands is None:
                return None
            found += operands
        return found

    def follows(self, group: Group, node: Node) -> bool:
        """Whether a group can compute a node; its axes are split where those of what the node reads end."""
        while self.composed(group, node) is None:
            shape, seen = node.domain, group.needs[node.results[0]]
            if node.pieces is not None or any(isinstance(at, Within) for at in seen):
                return False
            pairs = [(r.layout.expand(shape), at) for at in seen for r in node.pulled]
            cuts = [cut_for(group, inner, layout_of(at)) for inner, at in pairs if through(inner, at) is None]
            cut = None if None in cuts or group.anchor is not None else cuts[0]
            split = None if cut is None else group.split(*cut)
            if split is None:
                return False
            group.become(split)
        return True

    def inline(self, group: Group, node: Node) -> None:
        """Lets a group compute a node at every layout it needs it at."""
        operands = self.composed(group, node)
        assert operands is not None
        group.inlined[node.results[0]] = node
        for value, layout in operands:
            group.need(value, layout)
        group.reads |= {r.value for r in node.reached}

    def can_store(self, group: Group, value: int, users: list[Group]) -> bool:
        """Whether a group may store what others need: it must not wait for one of them, nor see too many buffers."""
        others = [g for g in users if g is not group]
        return group.streams < self.most_streams and not any(self.waits(group, g) for g in others)

    def waits(self, group: Group, other: Group) -> bool:
        """Whether a group needs, through whatever lies between, what another one stores."""
        seen: set[int] = set()
        queue = [group]
        while queue:
            now = queue.pop()
            if now is other:
                return True
            if id(now) not in seen:
                seen.add(id(now))
                queue += [self.homes[v] for v in now.sources if v in self.homes]
        return False


def joins(node: Node) -> bool:
    """Whether kernels that need a value made of pieces rather choose among these than read it from memory.

    Not where little of much is overwritten: that can be written in place.
    """
    if node.pieces is None or node.pieces.rest:
        return node.pieces is not None
    written = sum(piece.layout.size for piece in node.pieces.pieces[1:])
    left = node.layouts[0].size - written
    return left <= written or left * A_PIECE <= LAUNCH


def sweeps(nodes: Iterable[Node]) -> int:
    """How often a kernel with these nodes goes over its rows to fold them: a softmax or its like does so twice."""
    rows = {node.results[0]: node.operation for node in nodes if isinstance(node.operation, Row)}
    return sum(1 + operation.keeps_shape for operation in rows.values())
