"""Kernels in the making: the domain they run over, and where on it each value is needed.

A reduction gives a kernel rows. Whether a kernel that needs the result can be the one that computes it is a question of
layouts: the axes along which it needs the same result must be those that are reduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hologram.compiler.fusion.boxes import Seen, Within, contains, layout_of, over, pieces_at
from hologram.compiler.fusion.graph import PLACES, Node, Read
from hologram.foundation.dtypes import Number, index
from hologram.foundation.frozen import frozen
from hologram.machine.axes import row_major
from hologram.machine.layout import Layout
from hologram.machine.merging import collapse, compose, without_unit_strides
from hologram.opset.forms.row import Row

MOST_ANEW = 1 << 16  # elements of a row that each row of a kernel goes over again: less than a launch costs


@dataclass(eq=False)
class Group:
    """A kernel in the making. What it sees is over its domain, `shape`; an anchored group runs its anchor's plan."""

    shape: tuple[int, ...]
    reduced: int = 0
    anchor: Node | None = None
    needs: dict[int, list[Seen]] = field(default_factory=dict)
    inlined: dict[int, Node] = field(default_factory=dict)  # of the values needed, those computed here
    stores: dict[int, Layout] = field(default_factory=dict)
    # Values that must lie in memory whole: the anchor's plan reads them, or a kernel does at positions it computes.
    reads: frozenset[int] = frozenset()
    reasons: list[str] = field(default_factory=list)  # why it is a kernel of its own

    @property
    def loads(self) -> dict[int, list[Seen]]:
        """The values that come from memory, with the layouts they are read at."""
        return {v: at for v, at in self.needs.items() if v not in self.inlined and v != PLACES}

    @property
    def sources(self) -> set[int]:
        """Every value that comes from memory."""
        return self.loads.keys() | self.reads

    @property
    def streams(self) -> int:
        """Buffers that the kernel sees."""
        return len(self.sources | set(self.stores))

    @property
    def computed(self) -> int:
        """How many operations the kernel computes, each once for every layout that it is needed at."""
        return sum(len(self.needs[v]) for v in self.inlined)

    def need(self, value: int, seen: Seen) -> None:
        """Notes how a value is seen; what lies alike is seen once, in the largest box."""
        several = self.needs.setdefault(value, [])
        if self.seen_as(value, seen) is None:
            several[:] = [each for each in several if not contains(seen, each)]
            several.append(seen)

    def seen_as(self, value: int, seen: Seen) -> Seen | None:
        """What the kernel sees of a value that holds what is needed so; None where it sees no such thing."""
        return next((each for each in self.needs.get(value, ()) if contains(each, seen)), None)

    @property
    def sees_boxes(self) -> bool:
        """Whether it needs values in a part of its domain alone."""
        return any(isinstance(at, Within) for several in self.needs.values() for at in several)

    def evaluations(self, seen: Seen) -> int:
        """How often a value that is seen so is computed: once per row if it is the same along the row."""
        cut = len(self.shape) - self.reduced
        moves = any(layout_of(seen).strides[cut:])
        moves = moves or (isinstance(seen, Within) and any(axis >= cut for axis in seen.partial))
        return math.prod(self.shape if moves else self.shape[:cut])

    def remap(
        self, change: Callable[[Seen], Seen | None], shape: tuple[int, ...], reduced: int
    ) -> Group | None:
        """The group over another domain; None where what it sees has no counterpart there."""
        needs: dict[int, list[Seen]] = {}
        for value, several in self.needs.items():
            changed = [change(seen) for seen in several]
            needs[value] = [c for c in changed if c is not None]
            if len(needs[value]) != len(changed):
                return None
        joined = ((v, node) for v, node in self.inlined.items() if node.pieces is not None)
        if any(pieces_at(node, seen) is None for v, node in joined for seen in needs[v]):
            return None
        stores = {v: change(layout) for v, layout in self.stores.items()}
        kept = {v: c for v, c in stores.items() if isinstance(c, Layout)}
        if len(kept) != len(stores):
            return None
        return Group(shape, reduced, self.anchor, needs, self.inlined, kept, self.reads, self.reasons)

    def squeezed(self) -> Group:
        """The same kernel without axes of one lane, but for those along rows."""
        cut = len(self.shape) - self.reduced
        kept = [k for k, n in enumerate(self.shape) if n > 1 or k >= cut]

        def fewer(x: Layout) -> Layout:
            shape, strides = (tuple(each[k] for k in kept) for each in (x.shape, x.strides))
            return Layout(x.dtype, shape, strides, x.offset)

        def change(seen: Seen) -> Seen:
            if isinstance(seen, Layout):
                return fewer(seen)
            return Within(fewer(seen.layout), tuple(seen.box[k] for k in kept))

        group = self.remap(change, tuple(self.shape[k] for k in kept), self.reduced)
        assert group is not None
        return group

    def refined(self, shape: tuple[int, ...]) -> Group | None:
        """The same kernel over axes that its own are split into; None where `shape` does not do that."""
        group, axis, rest = self, len(self.shape) - 1, list(shape)
        while axis >= 0:
            inner = rest.pop() if rest else 0
            if inner < 2 or group.shape[axis] % inner:
                return None
            if group.shape[axis] == inner:
                axis -= 1
                continue
            split = group.split(axis, inner)
            if split is None:
                return None
            group = split
        return None if rest else group

    def reader(self, value: int) -> str:
        """The operation that needs a value in memory."""
        if self.anchor is not None:
            return self.anchor.operation.name
        return next(n.operation.name for n in self.inlined.values() if value in {r.value for r in n.reached})

    def split(self, axis: int, inner: int) -> Group | None:
        """The same kernel with an axis as two, the second of `inner` elements; None where it sees a part of it."""

        def halves(layout: Layout) -> Layout:
            (*before, _), after = layout.shape[: axis + 1], layout.shape[axis + 1 :]
            step = layout.strides[axis]
            strides = (*layout.strides[:axis], step * inner, step, *layout.strides[axis + 1 :])
            count = self.shape[axis] // inner
            return Layout(layout.dtype, (*before, count, inner, *after), strides, layout.offset)

        def change(seen: Seen) -> Seen | None:
            if isinstance(seen, Layout):
                return halves(seen)
            if axis in seen.partial:
                return None
            layout = halves(seen.layout)
            both = ((0, n) for n in layout.shape[axis : axis + 2])
            return Within(layout, (*seen.box[:axis], *both, *seen.box[axis + 1 :]))

        return self.remap(change, halves(Layout.contiguous(index, self.shape)).shape, self.reduced)

    def become(self, other: Group) -> None:
        self.shape, self.reduced, self.anchor = other.shape, other.reduced, other.anchor
        self.needs, self.stores, self.reads = other.needs, other.stores, other.reads


def covers(layout: Seen, size: int, group: Group) -> bool:
    """Whether the group's lanes, or its rows, number the elements of a value of that size one by one."""
    if isinstance(layout, Within):
        return False
    cut = len(group.shape) - group.reduced
    axes = sorted(
        ((s, n) for s, n in zip(layout.strides, layout.shape, strict=True) if n > 1), key=lambda a: -a[0]
    )
    if group.reduced and not any(layout.strides[cut:]):
        pairs = zip(layout.strides[:cut], layout.shape[:cut], strict=True)
        axes = sorted(((s, n) for s, n in pairs if n > 1), key=lambda a: -a[0])
    sizes = [n for _, n in axes]
    return not layout.offset and math.prod(sizes) == size and tuple(s for s, _ in axes) == row_major(sizes)


@frozen
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

    def over(self, shape: tuple[int, ...]) -> Rows | None:
        """The same over other axes, which hold as many rows of as many elements; None where there are none."""
        if shape == self.shape:
            return self
        if self.count == 1 and shape[-self.reduced :] == self.shape[-self.reduced :]:
            return self._for_each(shape)
        result = _renumbered(self.result, shape)
        operands = tuple(_renumbered(o, shape) if isinstance(o, Layout) else o for o in self.operands)
        lost = any(
            now is None and before is not None for now, before in zip(operands, self.operands, strict=True)
        )
        return (
            None if lost or result is None else Rows(shape, self.reduced, result, operands, self.keeps_shape)
        )

    def _for_each(self, shape: tuple[int, ...]) -> Rows:
        """The only row there is, for every row of a domain."""

        def alike(layout: Layout) -> Layout:
            outer = (0,) * (len(shape) - self.reduced)
            return Layout(layout.dtype, shape, (*outer, *layout.strides[-self.reduced :]), layout.offset)

        operands = tuple(alike(o) if isinstance(o, Layout) else o for o in self.operands)
        return Rows(shape, self.reduced, alike(self.result), operands, self.keeps_shape)

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
    arrangement = operation.arranged([i for i in node.inputs if i is not None], node.layouts, node.settings)
    shape = next(i.shape for i in arrangement.inputs if isinstance(i, Layout))
    present = iter(arrangement.inputs)
    operands = tuple(None if i is None else next(present) for i in node.inputs)
    reduced = arrangement.reduced
    if not reduced:  # an array without axes is a row of one element
        shape, reduced = (*shape, 1), 1
        operands = tuple(_extended(o, shape) if isinstance(o, Layout) else o for o in operands)
    result = _extended(arrangement.outputs[0], shape)
    return Rows(shape, reduced, result, operands, operation.keeps_shape)


def widened_by(group: Group, value: int, rows: Rows) -> tuple[Group | None, str]:
    """The group over the domain of a reduction that it needs; or None and the reason."""
    if group.anchor is not None or value in group.reads:
        return None, f"{group.reader(value)} reads it from memory"
    if group.reduced:
        outer = math.prod(group.shape[: len(group.shape) - group.reduced])
        anew = rows.count == 1 < outer <= MOST_ANEW // math.prod(rows.shape) and not rows.keeps_shape
        if (
            anew
            and group.reduced == rows.reduced
            and group.shape[-rows.reduced :] == rows.shape[-rows.reduced :]
        ):
            over = rows.over(group.shape)
            if over is not None and all(same(at, over.result) for at in group.needs[value]):
                return group, ""
        if outer == rows.count and math.prod(group.shape) == math.prod(rows.shape):
            over = rows.over(group.shape)
            if over is not None and all(same(at, over.result) for at in group.needs[value]):
                return group, ""
        return None, "the kernel that needs it runs over other rows"
    (at, *_) = group.needs[value]
    numbering = lanes_of(group, at, rows)
    if numbering is None:
        return None, "the kernel that needs it runs over other rows"
    changed = group.remap(lambda seen: over_axes(seen, numbering, rows.shape), rows.shape, rows.reduced)
    if changed is None or not all(same(at, rows.result) for at in changed.needs[value]):
        return None, "the kernel that needs it runs over other rows, or along several"
    return changed, ""


def cut_for(group: Group, inner: Layout, outer: Layout) -> tuple[int, int] | None:
    """Where `inner` has no layout at `outer`, because a lane axis runs over several axes of it: how to split that one.

    Gives the axis, and how many elements go into the inner part; None where no split helps.
    """
    (plain,) = collapse([inner])
    weights = row_major(plain.shape)
    for axis in range(len(group.shape) - group.reduced):
        n, step = group.shape[axis], outer.strides[axis]
        if n == 1 or step <= 0:
            continue
        for size, weight in zip(plain.shape, weights, strict=True):
            count = size * weight // step
            if step % weight == 0 and size * weight % step == 0 and 1 < count < n and n % count == 0:
                return axis, count
    return None


def lanes_in_order(group: Group, at: Layout) -> tuple[Layout, int]:
    """The group's lane for each element of a value that it needs at a layout, and how many lanes need the same element.

    The axes along which all need the same come last.
    """
    axes = [k for k, n in enumerate(group.shape) if n > 1]
    along = [k for k in axes if not at.strides[k]]
    order = (*sorted((k for k in axes if at.strides[k]), key=lambda k: -at.strides[k]), *along)
    weights = row_major(group.shape)
    lanes = Layout(at.dtype, tuple(group.shape[k] for k in order), tuple(weights[k] for k in order))
    return lanes, math.prod(group.shape[k] for k in along)


def lanes_of(group: Group, at: Seen, rows: Rows) -> Layout | None:
    """The group's lane for each element, or each row, of a reduction that it needs at a layout; None if there is none.

    The axes along which the group needs the same result are the row; the others number the result.
    """
    if isinstance(at, Within):
        return None
    lanes, along = lanes_in_order(group, at)
    cut = len(rows.shape) - rows.reduced
    outer, inner = rows.result.strides[:cut], math.prod(rows.shape[cut:])
    size = math.prod(group.shape)
    if rows.keeps_shape:
        return None if along > 1 or size != math.prod(rows.shape) else compose(lanes, rows.result)
    if size == rows.count and along == 1:
        return compose(lanes, Layout(at.dtype, rows.shape[:cut], outer))
    if size != math.prod(rows.shape) or along != inner:
        return None
    strides = (*(s * inner for s in outer), *row_major(rows.shape[cut:]))
    return compose(lanes, Layout(at.dtype, rows.shape, strides))


def same(a: Seen, b: Layout) -> bool:
    """Whether a value is seen everywhere, and lies so."""
    if isinstance(a, Within):
        return False
    return without_unit_strides(a).strides == without_unit_strides(b).strides and a.offset == b.offset


def _renumbered(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    return compose(layout, Layout.contiguous(layout.dtype, shape))


def _extended(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """A result of rows over the rows' whole domain: the same all along."""
    return Layout(layout.dtype, shape, layout.strides + (0,) * (len(shape) - layout.ndim), layout.offset)


def over_axes(seen: Seen, numbering: Layout, shape: tuple[int, ...]) -> Seen | None:
    """What is seen over the domain whose lanes `numbering` gives, over the axes of `shape`."""
    moved = over(seen, numbering)
    if isinstance(moved, Within):
        more = tuple((0, n) for n in shape[len(moved.box) :])
        return Within(_extended(moved.layout, shape), (*moved.box, *more))
    return None if moved is None else _extended(moved, shape)


def ordered(groups: Sequence[Group]) -> Iterator[Group]:
    """The groups, each after those whose values it loads; otherwise in the order of the graph."""
    homes = {value: group for group in groups for value in group.stores}
    done: set[int] = set()
    for last in reversed(groups):
        stack = [last]
        while stack:
            group = stack[-1]
            waiting = [
                homes[v]
                for v in sorted(group.sources)
                if v in homes and id(homes[v]) not in done and homes[v] is not group
            ]
            if id(group) in done or not waiting:
                stack.pop()
                if id(group) not in done:
                    done.add(id(group))
                    yield group
            else:
                stack += reversed(waiting)
