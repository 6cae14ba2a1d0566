"""A group of fused operations as one Atlas program: values are pulled from what is stored back to what is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, BufferParameter, Program
from hologram.compiler.fusion.boxes import Box, Seen, Within, box_of, coordinate, layout_of, needed, pieces_at
from hologram.compiler.fusion.graph import PLACES, Graph, Node, Read
from hologram.compiler.fusion.groups import Group, rows_of, same
from hologram.compiler.fusion.reached import Pulled, Reached, scalar
from hologram.foundation import dtypes
from hologram.foundation.frozen import frozen
from hologram.machine.axes import row_major
from hologram.machine.layout import Layout
from hologram.machine.merging import collapse, collapse_apart
from hologram.opset.forms.expression import converted
from hologram.opset.forms.row import Row

MOST_NAMES = 4  # operations that a kernel is named after


@frozen
class Kernel:
    """A program and what a launch of it needs: the graph's values for its buffers, its scalars and its grid.

    A buffer that is read and written is one of a result, and holds what it is computed from before.
    """

    program: Program
    values: tuple[int, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, ...]


def kernel(group: Group, graph: Graph, in_place: Mapping[int, int]) -> Kernel:
    """The program of a group without an anchor; `in_place` gives results the loaded values whose memory they take."""
    layouts = list(dict.fromkeys(layout_of(at) for several in _positions(group) for at in several))
    layouts += [at for at in group.stores.values() if at not in layouts]
    # Axes of which boxes are a part stay apart, so that their coordinates can be asked for.
    layouts += [at for at in _asked(group) if at not in layouts]
    grid, reduced, simple = _collapsed(layouts, group)
    writer = _Writer(group, graph, Builder(name_of(group, graph), rank=len(grid), reduced=reduced))
    writer.places = {at: _Scalars(writer.builder, grid, reduced, s) for at, s in simple.items()}
    return writer.kernel(grid, in_place)


def epilogue(group: Group, graph: Graph) -> Kernel:
    """What follows a product as the program that its tile takes: it reads `value` and writes `result`."""
    assert group.anchor is not None
    builder = Builder(name_of(group, graph), rank=2)
    writer = _Writer(group, graph, builder)
    layouts = [layout_of(at) for several in _positions(group) for at in several]
    writer.places = {
        at: _Constants(builder, rows) for at, rows in zip(layouts, _rows_of(layouts), strict=True)
    }
    return writer.epilogue(group.anchor.results[0])


def _positions(group: Group) -> list[list[Seen]]:
    """How a kernel sees that whose positions it computes: what it loads, and its coordinates."""
    return [*group.loads.values(), group.needs.get(PLACES, [])]


def _asked(group: Group) -> list[Layout]:
    """The coordinates that say whether a lane is inside of a box."""
    boxed = [at for several in group.needs.values() for at in several]
    for value, node in group.inlined.items():
        if node.pieces is not None:
            boxed += [at for seen in group.needs[value] for _, at in pieces_at(node, seen) or ()]
    axes = {axis for at in boxed if isinstance(at, Within) for axis in at.partial}
    return [coordinate(axis, group.shape) for axis in sorted(axes)]


def _rows_of(layouts: Sequence[Layout]) -> list[Layout]:
    """Layouts over a matrix, with as few axes of rows as describe them all, and one of columns."""
    if not layouts:
        return []
    rows = collapse([Layout(at.dtype, at.shape[:-1], at.strides[:-1], at.offset) for at in layouts])
    return [
        Layout(at.dtype, (*r.shape, at.shape[-1]), (*r.strides, at.strides[-1]), r.offset)
        for r, at in zip(rows, layouts, strict=True)
    ]


def name_of(group: Group, graph: Graph) -> str:
    """The entry point's name: after the first operations, and the dtype of a result."""
    inside = sorted((n for n in group.inlined.values() if n is not group.anchor), key=lambda n: n.results)
    names = list(dict.fromkeys(n.operation.name for n in inside))
    more = [f"{len(names) - MOST_NAMES}_more"] if len(names) > MOST_NAMES else []
    return "_".join(["atlas", *names[:MOST_NAMES], *more, str(graph.layouts[next(iter(group.stores))].dtype)])


def _collapsed(layouts: Sequence[Layout], group: Group) -> tuple[tuple[int, ...], int, dict[Layout, Layout]]:
    """The domain with as few axes as describe every layout, and the layouts over it."""
    if group.reduced:
        simple, outer = collapse_apart(layouts, len(group.shape) - group.reduced)
        reduced = simple[0].ndim - outer
    else:
        simple, reduced = collapse(layouts), 0
    return simple[0].shape, reduced, dict(zip(layouts, simple, strict=True))


@frozen
class _Scalars:
    """A position from strides that are extents where they can be, else scalars of the launch."""

    builder: Builder
    grid: tuple[int, ...]
    reduced: int
    layout: Layout

    def position(self, scalars: dict[str, int]) -> Value:
        b, layout = self.builder, self.layout
        whole = not self.reduced and layout.strides == row_major(self.grid)
        total = b.position(Opcode.LANE) if whole and len(self.grid) > 1 else None
        for axis, stride in enumerate(layout.strides if total is None else ()):
            if stride and self.grid[axis] > 1:
                term = (
                    b.coordinate(axis)
                    if stride == 1
                    else b.coordinate(axis) * self._stride(stride, axis, scalars)
                )
                total = term if total is None else total + term
        if layout.offset:
            offset = scalar(b, "offset", layout.offset, scalars)
            return offset if total is None else total + offset
        return b.constant(0, dtypes.index) if total is None else total

    def _stride(self, stride: int, axis: int, scalars: dict[str, int]) -> Value:
        """The extents of the axes behind, where the axis steps over them all."""
        if stride == math.prod(self.grid[axis + 1 :]):
            extents = [self.builder.extent(k) for k in range(axis + 1, len(self.grid))]
            product = extents[0]
            for extent in extents[1:]:
                product = product * extent
            return product
        return scalar(self.builder, "stride", stride, scalars)


@frozen
class _Constants:
    """A position in a matrix with its strides written into the program; several axes of rows are found by division."""

    builder: Builder
    layout: Layout

    def position(self, scalars: dict[str, int]) -> Value:
        b, (*rows, columns) = self.builder, self.layout.shape
        total = b.constant(self.layout.offset, dtypes.index)
        rest = b.coordinate(0)
        terms = [(b.coordinate(1), self.layout.strides[-1], columns)]
        for axis in reversed(range(len(rows))):
            place, rest = (rest % rows[axis], rest // rows[axis]) if axis else (rest, rest)
            terms.append((place, self.layout.strides[axis], rows[axis]))
        for place, stride, n in terms:
            if stride and n > 1:
                total = total + place * stride
        return total


class _Writer:
    """One program in the making."""

    def __init__(self, group: Group, graph: Graph, builder: Builder) -> None:
        self.group, self.graph, self.builder = group, graph, builder
        self.places: dict[Layout, _Scalars] | dict[Layout, _Constants] = {}
        self.scalars: dict[str, int] = {}
        self.buffers: dict[int, BufferParameter] = {}
        self.known: dict[tuple[int, Seen], Value] = {}

    def kernel(self, grid: tuple[int, ...], in_place: Mapping[int, int]) -> Kernel:
        stores, taken = self.group.stores, set(in_place.values())
        self._declare(
            [v for v in dict.fromkeys((*self.group.loads, *sorted(self.group.reads))) if v not in taken]
        )
        values = [*self.buffers, *stores]
        targets = {}
        for k, value in enumerate(stores):
            name = "out" if len(stores) == 1 else f"out{k}"
            access = Access.READ_WRITE if value in in_place else Access.WRITE
            targets[value] = self.builder.buffer(name, self.graph.layouts[value].dtype, access)
        self.buffers |= {source: targets[value] for value, source in in_place.items()}
        updating = [value for value in stores if self.group.inlined[value].updating]
        results = {value: self.pull(value, at) for value, at in stores.items() if value not in updating}
        for value in updating:
            self._update(value, stores[value], targets[value])
        for value, at in stores.items():
            if value in updating:
                continue
            self.builder.store(targets[value], self.places[at].position(self.scalars), results[value])
        return Kernel(self.builder.build(), tuple(values), tuple(self.scalars.values()), grid)

    def epilogue(self, product: int) -> Kernel:
        (stored, at), b = next(iter(self.group.stores.items())), self.builder
        dtype = self.graph.layouts[product].dtype
        accumulated = dtype.computed
        lane = b.position(Opcode.LANE)
        # Rounded as if it had been stored.
        value = b.load(b.buffer("value", accumulated, Access.READ), lane).to(dtype)
        self.known |= {(product, seen): value for seen in self.group.needs[product]}
        self._declare(self.group.loads)
        result = self.pull(stored, at)
        b.store(b.buffer("result", accumulated, Access.WRITE), lane, result.to(accumulated))
        return Kernel(b.build(), tuple(self.buffers), (), at.shape)

    def _declare(self, values: Iterable[int]) -> None:
        for k, value in enumerate(values):
            self.buffers[value] = self.builder.buffer(f"x{k}", self.graph.layouts[value].dtype, Access.READ)

    def pull(self, value: int, at: Seen) -> Value:
        """A value at a layout over the group's domain, and what it is made of before it."""
        stack = [(value, at)]
        while stack:
            wanted = stack[-1]
            if wanted not in self.known:
                operands = self._operands(*wanted)
                missing = [o for o in operands if o not in self.known]
                if missing:
                    stack += reversed(missing)
                    continue
                self.known[wanted] = self._value(*wanted)
            stack.pop()
        return self.known[value, at]

    def _operands(self, value: int, at: Seen) -> list[tuple[int, Seen]]:
        """The values, and how they are seen, that one is computed from; none where it is loaded."""
        node = self.group.inlined.get(value)
        if node is None:
            return []
        if isinstance(node.operation, Row):
            return self._rows(node)
        operands = needed(node, at)
        assert operands is not None
        return [(v, self.group.seen_as(v, seen) or seen) for v, seen in operands]

    def _value(self, value: int, at: Seen) -> Value:
        """A value whose operands are known."""
        if value == PLACES:
            return self.places[layout_of(at)].position(self.scalars)
        node = self.group.inlined.get(value)
        if node is None:
            return self._loaded(value, at)
        operands = self._operands(value, at)
        if node.pieces is not None:
            return self._joined(node, at, operands)
        known = iter([self.known[wanted] for wanted in operands])
        if node.placed:
            return self._placed(node, known)
        operands = [next(known) if isinstance(o, Read) else o for o in node.operands]
        attributes = {n: next(known) if isinstance(x, Read) else x for n, x in node.attributes.items()}
        return node.operation.fused(self.builder, operands, node.inputs, attributes)[0]

    def _loaded(self, value: int, at: Seen) -> Value:
        """A value from memory; where its layout may miss it, which is outside of the box, its first element."""
        position = self.places[layout_of(at)].position(self.scalars)
        if isinstance(at, Within):
            (low, high), whole = at.layout.span, self.graph.layouts[value].span
            inside = self._inside(at.box, box_of(coordinate(0, at.shape)))
            if inside is not None and not (whole[0] <= low and high <= whole[1]):
                position = select(inside, position, 0)
        return self.builder.load(self.buffers[value], position)

    def _joined(self, node: Node, at: Seen, operands: Sequence[tuple[int, Seen]]) -> Value:
        """A node made of pieces: each over what lies below it."""
        assert node.pieces is not None
        dtype, b = node.layouts[0].dtype, self.builder
        parts = pieces_at(node, at)
        assert parts is not None
        result: Value | None = None
        if node.pieces.rest:
            number = node.attributes[node.pieces.rest]
            told = dict(zip(node.told, operands[len(parts) :], strict=True))
            rest = self.known[told[number]] if isinstance(number, Read) else number
            result = converted(b, converted(b, rest, dtype.computed), dtype)
        for (_, seen), held in zip(parts, operands, strict=False):
            piece = self.known[held].to(dtype)
            inside = self._inside(box_of(seen), box_of(at))
            result = piece if inside is None or result is None else select(inside, piece, result)
        assert result is not None
        return result

    def _inside(self, box: Box, known: Box) -> Value | None:
        """Whether the lane lies in a box, if it lies in the other; None where it does then."""
        answer: Value | None = None
        for axis, ((first, end), (least, most)) in enumerate(zip(box, known, strict=True)):
            if (first, end) == (least, most):
                continue
            place = self.places[coordinate(axis, self.group.shape)].position(self.scalars)
            asked = []
            if first > least:
                asked.append(place >= scalar(self.builder, "bound", first, self.scalars))
            if end < most:
                asked.append(place < scalar(self.builder, "bound", end, self.scalars))
            for more in asked:
                answer = more if answer is None else answer & more
        return answer

    def _update(self, value: int, at: Layout, target: BufferParameter) -> None:
        """Writes what a node writes into memory that holds the rest of its result."""
        node, b = self.group.inlined[value], self.builder
        known = iter([self.pull(*wanted) for wanted in self._operands(value, at)])
        places = [next(known) for _ in node.domain]
        out, base = Reached(b, target, node.layouts[0], self.scalars), node.base
        operands = [
            out if o is base else Pulled(next(known)) if isinstance(o, Read) else o for o in node.operands
        ]
        attributes = {n: next(known) if isinstance(x, Read) else x for n, x in node.attributes.items()}
        node.operation.write_at(b, places, out, operands, attributes)

    def _placed(self, node: Node, known: Iterator[Value]) -> Value:
        """What is made of coordinates, which are known, then attributes."""
        layout = node.layouts[0]
        at = [next(known) for _ in layout.shape] or [self.builder.constant(0, dtypes.index)]
        operands = [
            Reached(self.builder, self.buffers[o.value], o.layout, self.scalars) if isinstance(o, Read) else o
            for o in node.operands
        ]
        attributes = {n: next(known) if isinstance(x, Read) else x for n, x in node.attributes.items()}
        return node.operation.made_at(self.builder, at, operands, layout.dtype, attributes)

    def _rows(self, node: Node) -> list[tuple[int, Seen]]:
        rows = rows_of(node).over(self.group.shape)
        assert rows is not None
        layouts = [o for o in rows.operands if isinstance(o, Layout)]
        # As they were met, which may step otherwise along axes of one element.
        return [
            (r.value, next(at for at in self.group.needs[r.value] if same(at, o)))
            for r, o in zip(node.pulled, layouts, strict=True)
        ]
