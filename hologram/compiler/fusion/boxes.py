"""How kernels see values: everywhere in their domain, or within a box of it, as what is padded lies in its result."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.compiler.fusion.graph import Node, Read
from hologram.foundation.dtypes import DType, index
from hologram.foundation.frozen import frozen
from hologram.machine.axes import row_major
from hologram.machine.layout import Layout
from hologram.machine.merging import compose, digits
from hologram.opset.forms.pieces import Piece

Box = tuple[tuple[int, int], ...]  # of each axis of a domain the first coordinate, and one past the last


@frozen(slots=True)
class Within:
    """A value that a kernel needs in a box of its domain alone.

    `layout` is over the whole domain. Outside of the box it says nothing, and may step out of the value.
    """

    layout: Layout
    box: Box

    @property
    def dtype(self) -> DType:
        return self.layout.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def partial(self) -> tuple[int, ...]:
        """The axes along which it is not needed everywhere."""
        return tuple(k for k, n in enumerate(self.shape) if self.box[k] != (0, n))


Seen = Layout | Within


def box_of(seen: Seen) -> Box:
    """Where in its domain a value is needed."""
    return seen.box if isinstance(seen, Within) else tuple((0, n) for n in seen.shape)


def layout_of(seen: Seen) -> Layout:
    """How a value lies over the whole domain; see Within."""
    return seen.layout if isinstance(seen, Within) else seen


def contains(seen: Seen, other: Seen) -> bool:
    """Whether a value that is seen one way is also seen the other way, wherever that one counts."""
    if isinstance(other, Layout) or layout_of(seen) is not other.layout:
        return seen == other
    return all(a <= c and d <= b for (a, b), (c, d) in zip(box_of(seen), other.box, strict=True))


def coordinate(axis: int, shape: Sequence[int]) -> Layout:
    """The coordinates along an axis of a domain, as positions."""
    return Layout(index, tuple(shape), tuple(int(k == axis) for k in range(len(shape))))


def through(inner: Layout, seen: Seen) -> Seen | None:
    """How `inner` lies at the positions that a kernel sees; None where no layout says that."""
    if isinstance(seen, Layout):
        return compose(inner, seen)
    composed = compose(inner, _cut(seen))
    return None if composed is None else _around(composed, seen.box, seen.shape)


def over(seen: Seen, numbering: Layout) -> Seen | None:
    """The same over another domain, whose lanes have these numbers in the one before; None where no box says that."""
    if isinstance(seen, Layout):
        return compose(seen, numbering)
    piece = Piece(0, tuple(start for start, _ in seen.box), _cut(seen))
    return within(piece, seen.shape, numbering)[0]


def within(piece: Piece, shape: Sequence[int], seen: Seen) -> tuple[Seen | None, bool]:
    """How a piece of a result of that shape lies where a kernel sees the result; and whether anything of it is seen.

    None where it lies in no box of the domain, or no layout says how.
    """
    found = _within(_axes(piece, shape), piece, seen)
    return found if found[0] is not None or not found[1] else _within(_merged(piece, shape), piece, seen)


# Of each axis of a result and of a piece of it: the result's size, where the piece begins, its size and its stride.
Axes = Sequence[tuple[int, int, int, int]]


def _within(axes: Axes, piece: Piece, seen: Seen) -> tuple[Seen | None, bool]:
    box, whole = box_of(seen), _cut(seen)
    weights = row_major([n for n, *_ in axes])
    starts = digits(whole.offset, weights)
    steps = [digits(s if n > 1 else 0, weights) for n, s in zip(whole.shape, whole.strides, strict=True)]
    reach: list[tuple[int, int]] = []  # of the coordinates along each axis
    for k, (n, *_) in enumerate(axes):
        moves = [step[k] * (count - 1) for step, count in zip(steps, whole.shape, strict=True)]
        low, high = (starts[k] + sum(f(move, 0) for move in moves) for f in (min, max))
        if low < 0 or high >= n:
            return None, True
        reach.append((low, high))
    ends = [(first, first + size) for _, first, size, _ in axes]
    if any(high < a or low >= b for (low, high), (a, b) in zip(reach, ends, strict=True)):
        return None, False
    kept = [(0, n) for n in whole.shape]  # of the box
    for k, ((first, end), (low, high)) in enumerate(zip(ends, reach, strict=True)):
        if first <= low and high < end:
            continue
        moving = [(j, step[k]) for j, step in enumerate(steps) if step[k]]
        if len(moving) > 1:
            return None, True
        ((j, step),) = moving
        # As many steps forward as lead to the first place inside, and to the last.
        near, far = first - starts[k], end - 1 - starts[k]
        if step < 0:
            near, far, step = -far, -near, -step
        kept[j] = max(kept[j][0], -(-near // step)), min(kept[j][1], far // step + 1)
    if any(a >= b for a, b in kept):
        return None, False
    strides = [sum(d * axis[3] for d, axis in zip(step, axes, strict=True)) for step in steps]
    offset = piece.layout.offset + sum(
        (d - first) * stride for d, (_, first, _, stride) in zip(starts, axes, strict=True)
    )
    offset += sum(a * s for (a, _), s in zip(kept, strides, strict=True))
    sizes = tuple(b - a for a, b in kept)
    seen_there = tuple((a + start, b + start) for (a, b), (start, _) in zip(kept, box, strict=True))
    return _around(Layout(piece.layout.dtype, sizes, tuple(strides), offset), seen_there, seen.shape), True


def needed(node: Node, seen: Seen) -> list[tuple[int, Seen]] | None:
    """The values that a kernel computes an element-wise node from, and how it sees them; None where nothing says that.

    Of a node made of pieces those that are seen, in order, then its attributes.
    """
    found: list[tuple[int, Seen]] = []
    pulled: Sequence[Read] = node.pulled
    if node.pieces is not None:
        parts = pieces_at(node, seen)
        if parts is None:
            return None
        found += parts
        pulled = node.told
    for read in pulled:
        at = through(read.layout.expand(node.domain), seen)
        if at is None:
            return None
        found.append((read.value, at))
    return found


def pieces_at(node: Node, seen: Seen) -> list[tuple[int, Seen]] | None:
    """The pieces of a node that are seen where the node is; None where one lies in no box."""
    assert node.pieces is not None
    found: list[tuple[int, Seen]] = []
    for piece in node.pieces.pieces:
        read = node.operands[piece.operand]
        assert isinstance(read, Read)
        at, is_seen = within(piece, node.domain, seen)
        if at is not None:
            hidden = box_of(at) == box_of(seen)  # what lies below
            found = [*([] if hidden else found), (read.value, at)]
        elif is_seen:
            return None
    return found


def _cut(seen: Seen) -> Layout:
    """The layout over the box alone, where it lies in the value."""
    if isinstance(seen, Layout):
        return seen
    layout = seen.layout
    offset = layout.offset + sum(s * a for s, (a, _) in zip(layout.strides, seen.box, strict=True))
    return Layout(layout.dtype, tuple(b - a for a, b in seen.box), layout.strides, offset)


def _around(cut: Layout, box: Box, shape: tuple[int, ...]) -> Seen:
    """What lies in a box of a domain by a layout over the box; along axes of one place there it moves nowhere."""
    strides = tuple(s if n > 1 else 0 for n, s in zip(cut.shape, cut.strides, strict=True))
    offset = cut.offset - sum(s * a for s, (a, _) in zip(strides, box, strict=True))
    layout = Layout(cut.dtype, shape, strides, offset)
    return layout if cut.shape == shape else Within(layout, box)


def _axes(piece: Piece, shape: Sequence[int]) -> Axes:
    return list(zip(shape, piece.start, piece.layout.shape, piece.layout.strides, strict=True))


def _merged(piece: Piece, shape: Sequence[int]) -> Axes:
    """The same in as few axes as can be."""
    axes: list[tuple[int, int, int, int]] = []
    for n, start, size, stride in _axes(piece, shape):
        before = axes[-1] if axes else None
        if n > 1 and before is not None and size == n and (before[3] == n * stride or before[2] == 1):
            axes[-1] = (before[0] * n, before[1] * n, before[2] * n, stride)
        elif n > 1:
            axes.append((n, start, size, stride))
    return axes
