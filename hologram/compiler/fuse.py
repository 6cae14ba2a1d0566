"""Fusion: which operations of a graph share a kernel.

Nodes are met from the last to the first, so that everybody who needs a value is known when its own node is met. A group
is a kernel in the making: a domain (axes, of which the last `reduced` form a row), the layouts over that domain at which
it needs values, and the values it stores. An element-wise node moves into the groups that need its result (its operands
are then needed there, at layouts composed with its own), a reduction gives its group a row, and what neither can goes
to memory. Because views are layouts, they compose; nothing is ever read through a division.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hologram.compiler.graph import Graph, Node, Read
from hologram.compiler.weigh import weight
from hologram.errors import ShapeError
from hologram.limits import Limits
from hologram.opset.form_row import Row
from hologram.opset.layout import Layout, compose, row_major, settled
from hologram.opset.operation import Number

CHEAP = 4  # instructions that are rather computed twice than kept in memory
MOST_COPIES = 2  # kernels that compute a cheap value anew
LAUNCH = 250_000  # instructions that cost no more than a further launch and the memory between the two
MOST_STREAMS = 40  # buffers of one kernel: each is a stream of memory, and registers


@dataclass(eq=False)
class Group:
    """A kernel in the making. Layouts are over its domain, `shape`; an anchored group runs the plan of its anchor."""

    shape: tuple[int, ...]
    reduced: int = 0
    anchor: Node | None = None
    needs: dict[int, list[Layout]] = field(default_factory=dict)
    inlined: dict[int, Node] = field(default_factory=dict)  # of the values needed, those computed here
    stores: dict[int, Layout] = field(default_factory=dict)
    reads: frozenset[int] = frozenset()  # values the anchor's plan reads
    reasons: list[str] = field(default_factory=list)  # why it is a kernel of its own

    @property
    def loads(self) -> dict[int, list[Layout]]:
        """The values that come from memory, with the layouts they are read at."""
        return {v: layouts for v, layouts in self.needs.items() if v not in self.inlined}

    @property
    def sources(self) -> set[int]:
        """Every value that comes from memory."""
        return {v for v in self.needs if v not in self.inlined} | self.reads

    @property
    def streams(self) -> int:
        """Buffers that the kernel sees."""
        return len(self.sources | set(self.stores))

    def need(self, value: int, layout: Layout) -> None:
        layouts = self.needs.setdefault(value, [])
        if layout not in layouts:
            layouts.append(layout)

    def evaluations(self, layout: Layout) -> int:
        """How often a value at this layout is computed: once per row if it is the same along the row."""
        cut = len(self.shape) - self.reduced
        return math.prod(self.shape if any(layout.strides[cut:]) else self.shape[:cut])

    def remap(
        self, change: Callable[[Layout], Layout | None], shape: tuple[int, ...], reduced: int
    ) -> Group | None:
        """The group over another domain; None where a layout has no counterpart there."""
        needs: dict[int, list[Layout]] = {}
        for value, layouts in self.needs.items():
            changed = [change(layout) for layout in layouts]
            needs[value] = [c for c in changed if c is not None]
            if len(needs[value]) != len(changed):
                return None
        stores = {v: change(layout) for v, layout in self.stores.items()}
        if any(c is None for c in stores.values()):
            return None
        kept = {v: c for v, c in stores.items() if c is not None}
        return Group(shape, reduced, self.anchor, needs, self.inlined, kept, self.reads, self.reasons)

    def become(self, other: Group) -> None:
        self.shape, self.reduced, self.anchor = other.shape, other.reduced, other.anchor
        self.needs, self.stores, self.reads = other.needs, other.stores, other.reads


def covers(layout: Layout, group: Group) -> bool:
    """Whether the group's lanes, or its rows, number the value's elements one by one."""
    cut = len(group.shape) - group.reduced
    axes = sorted(
        ((s, n) for s, n in zip(layout.strides, layout.shape, strict=True) if n > 1), key=lambda a: -a[0]
    )
    if group.reduced and not any(layout.strides[cut:]):
        pairs = zip(layout.strides[:cut], layout.shape[:cut], strict=True)
        axes = sorted(((s, n) for s, n in pairs if n > 1), key=lambda a: -a[0])
    return not layout.offset and tuple(s for s, _ in axes) == row_major([n for _, n in axes])


class Fusion:
    """The groups of a graph, in the making."""

    def __init__(self, graph: Graph, limits: Limits) -> None:
        self.graph = graph
        self.limits = limits
        self.groups: list[Group] = []
        self.homes: dict[int, Group] = {}  # of every stored value
        self.kept = frozenset(graph.outputs)
        for node in reversed(graph.nodes):
            users = [g for g in self.groups if any(r in g.needs or r in g.reads for r in node.results)]
            if users or self.kept & set(node.results):
                self.place(node, users)

    # Where a node goes.

    def place(self, node: Node, users: list[Group]) -> None:
        simple = all(n.size for n in node.layouts) and all(r.layout.size for r in node.reads)
        if simple and node.operation.pointwise:
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
        for group in users:
            fits = group.anchor is None and any(covers(at, group) for at in group.needs.get(value, ()))
            if fits and self.can_store(group, value, users) and self.composed(group, node) is not None:
                self.inline(group, node)
                group.stores[value] = next(at for at in group.needs[value] if covers(at, group))
                self.homes[value] = group
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
                assert group.anchor is not None
                return f"{name}: {group.anchor.operation.name} reads it from memory"
            if self.composed(group, node) is None:
                return f"{name}: it is read in an order that its operands' axes cannot follow"
            if group.streams + len(node.reads) > self.most_streams:
                return f"{name}: the kernel that needs it sees {group.streams} buffers already"
        size = node.layouts[0].size
        times = sum(self.evaluations(g, node, at) for g in users for at in g.needs[value])
        if times > size and (weight(node) > CHEAP or len(users) > MOST_COPIES):
            if (times - size) * weight(node) > LAUNCH or len(users) > MOST_COPIES:
                return f"{name}: it would be computed {times / size:.3g} times"
        return ""

    def evaluations(self, group: Group, node: Node, at: Layout) -> int:
        """How often a group computes a node at a layout: once a row, if the group will get the rows it comes from."""
        followed = None if group.reduced else self.followed(node)
        if followed is not None:
            rows = rows_of(followed)
            if not rows.keeps_shape and lanes_of(group, at, rows) is not None:
                return rows.count
        return group.evaluations(at)

    def followed(self, node: Node) -> Node | None:
        """The reduction that a value comes from by element-wise operations, if there is one."""
        while node.operation.pointwise:
            size = node.layouts[0].size
            makers = [self.graph.makers.get(r.value) for r in node.reads]
            before = [m for m in makers if m is not None and m.layouts[0].size == size]
            if not before:
                return None
            node = before[0]
        return node if isinstance(node.operation, Row) else None

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
            if widened is not None and widened.streams + len(node.reads) > self.most_streams:
                widened, why = None, f"the kernel that needs it sees {group.streams} buffers already"
            if widened is None:
                reason = f"{name}: {why}"
                continue
            group.become(widened)
            rows.over(group.shape).enter(group, node)
            if len(users) > 1 or value in self.kept:
                self.store(group, value, rows.over(group.shape).result)
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
        """The group that needs a product, over (rows, columns), if it can be the product's epilogue."""
        if not node.operation.takes_epilogue or not users:
            return None, ""
        (value,), (group, *others) = node.results, users
        layout = node.layouts[0]
        if others or value in self.kept:
            return None, "more than its epilogue needs the product"
        if any(r.layout.ndim < 2 for r in node.reads):
            return None, "products with vectors are finished apart"
        if group.anchor is not None or group.reduced or len(group.stores) != 1:
            return None, "what follows is no single element-wise result"
        if not layout.size or not layout.ndim or layout.dtype not in self.limits.tile_dtypes:
            return None, f"products of {layout.dtype} are finished apart"
        shape = (layout.size // layout.shape[-1], layout.shape[-1])
        if math.prod(group.shape) != layout.size:
            return None, "what follows has another size"
        changed = group.remap(lambda at: compose(at, Layout.contiguous(at.dtype, shape)), shape, 0)
        if changed is None:
            return None, "what follows reads along other axes than rows and columns"
        (stored,) = changed.stores
        plain = Layout.contiguous(layout.dtype, shape)
        if not all(_same(at, plain) for at in [*changed.needs[value], *changed.stores.values()]):
            return None, "what follows reads or stores it in another order"
        if self.graph.layouts[stored].dtype != layout.dtype:
            return None, "what follows has another dtype"
        return changed, ""

    # Steps that several of them take.

    @property
    def most_streams(self) -> int:
        return min(self.limits.max_bindings, MOST_STREAMS)

    def opened(self, group: Group, reason: str) -> Group:
        group.reasons.append(reason)
        self.groups.append(group)
        return group

    def store(self, group: Group, value: int, layout: Layout) -> None:
        group.stores[value] = layout
        self.homes[value] = group

    def composed(self, group: Group, node: Node) -> list[tuple[int, Layout]] | None:
        """The layouts at which a group needs a node's operands if it computes the node itself; None where one has none."""
        found: list[tuple[int, Layout]] = []
        shape = node.layouts[0].shape
        for at in group.needs[node.results[0]]:
            for read in node.reads:
                layout = compose(read.layout.expand(shape), at)
                if layout is None:
                    return None
                found.append((read.value, layout))
        return found

    def inline(self, group: Group, node: Node) -> None:
        """Lets a group compute a node at every layout it needs it at."""
        operands = self.composed(group, node)
        assert operands is not None
        group.inlined[node.results[0]] = node
        for value, layout in operands:
            group.need(value, layout)

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


@dataclass(frozen=True)
class Rows:
    """A reduction over its domain: its result there, and its operands."""

    shape: tuple[int, ...]
    reduced: int
    result: Layout
    operands: tuple[Layout | Number | None, ...]
    keeps_shape: bool

    @property
    def count(self) -> int:
        """How many rows there are."""
        return math.prod(self.shape[: len(self.shape) - self.reduced])

    def over(self, shape: tuple[int, ...]) -> Rows:
        """The same over other axes, which hold as many rows of as many elements."""
        if shape == self.shape:
            return self
        operands = tuple(_renumbered(o, shape) if isinstance(o, Layout) else o for o in self.operands)
        return Rows(shape, self.reduced, _renumbered(self.result, shape), operands, self.keeps_shape)

    def enter(self, group: Group, node: Node) -> None:
        """Lets a group over this domain compute the reduction."""
        group.inlined[node.results[0]] = node
        for operand, layout in zip(node.operands, self.operands, strict=True):
            if isinstance(operand, Read) and isinstance(layout, Layout):
                group.need(operand.value, layout)


def rows_of(node: Node) -> Rows:
    """A reduction's rows."""
    operation = node.operation
    assert isinstance(operation, Row)
    found = operation.arranged([i for i in node.inputs if i is not None], node.layouts, node.attributes)
    shape = next(i.shape for i in found.inputs if isinstance(i, Layout))
    present = iter(found.inputs)
    operands = tuple(None if i is None else next(present) for i in node.inputs)
    reduced = found.reduced
    if not reduced:  # an array without axes is a row of one element
        shape, reduced = (*shape, 1), 1
        operands = tuple(_extended(o, shape) if isinstance(o, Layout) else o for o in operands)
    result = _extended(found.outputs[0], shape)
    return Rows(shape, reduced, result, operands, operation.keeps_shape)


def widened_by(group: Group, value: int, rows: Rows) -> tuple[Group | None, str]:
    """The group over the domain of a reduction that it needs; or None and the reason."""
    if group.anchor is not None:
        return None, f"{group.anchor.operation.name} reads it from memory"
    if group.reduced:
        outer = math.prod(group.shape[: len(group.shape) - group.reduced])
        if outer == rows.count and math.prod(group.shape) == math.prod(rows.shape):
            over = rows.over(group.shape)
            if all(_same(at, over.result) for at in group.needs[value]):
                return group, ""
        return None, "the kernel that needs it runs over other rows"
    (at, *_) = group.needs[value]
    numbering = lanes_of(group, at, rows)
    if numbering is None:
        return None, "the kernel that needs it runs over other rows"
    changed = group.remap(lambda at: _over(at, numbering, rows.shape), rows.shape, rows.reduced)
    if changed is None or not all(_same(at, rows.result) for at in changed.needs[value]):
        return None, "the kernel that needs it runs over other rows, or along several"
    return changed, ""


def lanes_of(group: Group, at: Layout, rows: Rows) -> Layout | None:
    """The group's lane for each element, or each row, of a reduction that it needs at a layout; None if there is none.

    The axes along which the group needs the same result are the row; the others number the result.
    """
    axes = [k for k, n in enumerate(group.shape) if n > 1]
    along = [k for k in axes if not at.strides[k]]
    across = sorted((k for k in axes if at.strides[k]), key=lambda k: -at.strides[k])
    weights = row_major(group.shape)
    order = (*across, *along)
    lanes = Layout(at.dtype, tuple(group.shape[k] for k in order), tuple(weights[k] for k in order))
    cut = len(rows.shape) - rows.reduced
    outer, inner = rows.result.strides[:cut], math.prod(rows.shape[cut:])
    size = math.prod(group.shape)
    if rows.keeps_shape:
        return None if along or size != math.prod(rows.shape) else compose(lanes, rows.result)
    if size == rows.count and not along:
        return compose(lanes, Layout(at.dtype, rows.shape[:cut], outer))
    if size != math.prod(rows.shape) or math.prod(group.shape[k] for k in along) != inner:
        return None
    strides = (*(s * inner for s in outer), *row_major(rows.shape[cut:]))
    return compose(lanes, Layout(at.dtype, rows.shape, strides))


def _same(a: Layout, b: Layout) -> bool:
    return settled(a).strides == settled(b).strides and a.offset == b.offset


def _renumbered(layout: Layout, shape: tuple[int, ...]) -> Layout:
    found = compose(layout, Layout.contiguous(layout.dtype, shape))
    if found is None:
        raise ShapeError(f"a layout of shape {layout.shape} has no counterpart over {shape}")
    return found


def _extended(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """A result of rows over the rows' whole domain: the same all along."""
    return Layout(layout.dtype, shape, layout.strides + (0,) * (len(shape) - layout.ndim), layout.offset)


def _over(at: Layout, numbering: Layout, shape: tuple[int, ...]) -> Layout | None:
    """A layout over the domain whose lanes `numbering` gives, over the axes of `shape`."""
    found = compose(at, numbering)
    return None if found is None else _extended(found, shape)
