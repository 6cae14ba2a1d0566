"""What a traced function becomes: operations on values, in an order they can run in.

A value is storage, known by a number: an input of the graph, or a result of a node, which lies contiguous. Views are
not nodes: an operand names a value and the layout it is read through, so reshaping, slicing and broadcasting cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from hologram.foundation import dtypes
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.opset.forms.operation import Operation
from hologram.opset.forms.pieces import Pieces


@frozen(slots=True)
class Read:
    """Elements of a value, seen through a layout over its storage.

    One that is `weak` holds a Python number of a kind, for the operation too: it has hardly a say in dtypes.
    """

    value: int
    layout: Layout
    weak: type[int] | type[float] | None = None


Operand = Read | Number | None
PLACES = -1  # a value that no memory holds: its element n is n. What is made of coordinates reads it.


@frozen(eq=False)
class Node:
    """One operation; `layouts` are those of its results, contiguous. Attributes passed at launch may be reads."""

    operation: Operation
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    results: tuple[int, ...]
    layouts: tuple[Layout, ...]
    updating: bool = (
        False  # whether the result is in the memory of the operand that it is a copy of, but for some of it
    )

    @property
    def reads(self) -> tuple[Read, ...]:
        """The operands, then the attributes, that are values."""
        return tuple(o for o in (*self.operands, *self.attributes.values()) if isinstance(o, Read))

    @property
    def domain(self) -> tuple[int, ...]:
        """The shape of what is computed: of the result, or of what is written into it."""
        over = self.operation.written_over(self.inputs) if self.updating else None
        return self.layouts[0].shape if over is None else over

    @property
    def base(self) -> Read | None:
        """The operand that the result is a copy of, but for what is written into it then."""
        place = self.operation.updates(self.inputs)
        operand = None if place is None else self.operands[place]
        return operand if isinstance(operand, Read) else None

    @cached_property
    def pieces(self) -> Pieces | None:
        """What the result consists of, if it consists of operands side by side."""
        pieces = self.operation.pieces
        return None if pieces is None or self.updating else pieces(self.inputs, self.attributes)

    @property
    def placed(self) -> bool:
        """Whether it is made of coordinates and what it reads where it likes."""
        return self.operation.placed and self.pieces is None

    @property
    def told(self) -> tuple[Read, ...]:
        """The attributes that are values."""
        return tuple(x for x in self.attributes.values() if isinstance(x, Read))

    @property
    def reached(self) -> tuple[Read, ...]:
        """What is read from memory, at positions that the operation computes."""
        return tuple(o for o in self.operands if isinstance(o, Read)) if self.placed else ()

    @property
    def pulled(self) -> tuple[Read, ...]:
        """What a kernel that computes an element needs at a layout, composed with the element's own.

        For what is made of coordinates these, of every axis, and attributes.
        """
        if self.updating:
            base = self.base
            return (*self._coordinates, *(r for r in self.reads if r is not base))
        return (*self._coordinates, *self.told) if self.placed else self.reads

    @property
    def _coordinates(self) -> Iterator[Read]:
        shape = self.domain
        for axis in range(len(shape)):
            strides = tuple(int(k == axis) for k in range(len(shape)))
            yield Read(PLACES, Layout(dtypes.index, shape, strides))

    @property
    def inputs(self) -> tuple[Layout | Number | None, ...]:
        """The operands as an operation sees them."""
        return tuple(_seen(o) for o in self.operands)

    @property
    def settings(self) -> dict[str, Any]:
        """The attributes as an operation sees them."""
        return {name: _seen(x) for name, x in self.attributes.items()}


def _seen(x: Any) -> Any:
    if isinstance(x, Read):
        return x.layout if x.weak is None else x.weak(1)
    return x


@frozen(eq=False)
class Loop:
    """A body that runs again and again.

    Its inputs are `constants` values, then those that are `carried` from one turn to the next, then a row of each of
    the operands behind; its outputs are what is carried on, then a row of each of the results behind. There are
    `length` turns, over the rows from the last to the first if `reverse`; or, where there is a `condition`, a graph
    over the constants and what is carried, as many as that is true before.
    """

    who: str
    body: Graph
    constants: int
    carried: int
    length: int = 0
    reverse: bool = False
    condition: Graph | None = None

    def infer(self) -> tuple[Layout, ...]:
        """Layouts of the results."""
        made = [self.body.layouts[v] for v in self.body.outputs]
        rows = [Layout.contiguous(x.dtype, (self.length, *x.shape)) for x in made[self.carried :]]
        return (*made[: self.carried], *rows)


@frozen(eq=False)
class Choice:
    """Graphs over the same inputs, with results alike, of which one runs: that of the first operand's number.

    The other operands are the inputs. Numbers outside count as the nearest inside; a bool is 0 or 1.
    """

    who: str
    branches: tuple[Graph, ...]

    def infer(self) -> tuple[Layout, ...]:
        """Layouts of the results."""
        first = self.branches[0]
        return tuple(first.layouts[v] for v in first.outputs)


@frozen(eq=False)
class Control:
    """A loop or a choice on whole values, each contiguous."""

    what: Loop | Choice
    operands: tuple[Read, ...]
    results: tuple[int, ...]
    layouts: tuple[Layout, ...]

    @property
    def reads(self) -> tuple[Read, ...]:
        return self.operands


@frozen(eq=False)
class Graph:
    """Nodes over `inputs` (values with the layouts they are given in), whose `outputs` somebody wants, each once.

    `donated` are inputs whose memory outputs may take; where `carried` says which, no others may. Loops and choices are
    `controls`: values are numbered in the order in which they are made, whatever makes them.
    """

    inputs: Mapping[int, Layout]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    donated: frozenset[int] = frozenset()
    controls: tuple[Control, ...] = ()
    carried: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def layouts(self) -> dict[int, Layout]:
        """The layout of every value; an input's is the one it is given in."""
        layouts = dict(self.inputs)
        for node in (*self.nodes, *self.controls):
            layouts |= zip(node.results, node.layouts, strict=True)
        return layouts

    @cached_property
    def makers(self) -> dict[int, Node]:
        """The node of every value that is no input."""
        return {result: node for node in self.nodes for result in node.results}

    def may_take(self, output: int, source: int) -> bool:
        """Whether an output fits into the memory of an input, which is all that it sees of it."""
        if self.carried and self.carried.get(output) != source:
            return False
        given, result = self.inputs[source], self.layouts[output]
        whole = given.is_contiguous and not given.offset
        return whole and (given.dtype, given.size) == (result.dtype, result.size)


def matched(graph: Graph, pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Of pairs of outputs and inputs, those that give each output an input of its own.

    Where they may, an output and an input of the same number come together: what a function makes of its arguments in
    turn can then be written over them.
    """
    inputs, outputs = ({v: k for k, v in enumerate(values)} for values in (graph.inputs, graph.outputs))
    sources: dict[int, int] = {}
    taken: set[int] = set()
    for value, source in sorted(pairs, key=lambda pair: outputs[pair[0]] != inputs[pair[1]]):
        if value not in sources and source not in taken:
            sources[value] = source
            taken.add(source)
    return sources
