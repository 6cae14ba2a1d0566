"""Cells of recurrent networks: what a step does with its gates, on the way there and back, and the kernels of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Step
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.neural.activation import relu, sigmoid, tanh

Values = Sequence[Value]


@frozen(eq=False)
class Kind:
    """A kind of cell. Hidden state and cell have as many elements as each of its gates; it keeps some for the way back.

    `forward(inputs, hiddens, hidden, cell, bias)` takes the gates' parts that come of the input and of the hidden
    state, and gives the next hidden state, the next cell or None, and what is kept. `backward(kept, by_hidden,
    by_cell)` gives the cotangents of both kinds of parts, of the hidden state but for what goes through the gates (None
    for 0), and of the cell.
    """

    name: str
    gates: int
    kept: int  # 0: the hidden states are all that the way back needs
    forward: Callable[..., tuple[Value, Value | None, Values]]
    backward: Callable[..., tuple[Values, Values, Value | None, Value | None]]
    has_cell: bool = False
    parted: bool = False  # whether the gates' parts have cotangents that differ


def _lstm(inputs: Values, hiddens: Values, hidden: Value, cell: Value, bias: None):
    """Hochreiter and Schmidhuber (1997), with forget gates: Gers et al. (2000)."""
    i, f, g, o = (x + h for x, h in zip(inputs, hiddens, strict=True))
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    grown = f * cell + i * g
    return o * tanh(grown), grown, (i, f, g, o, cell)


def _lstm_back(kept: Values, by_hidden: Value, by_cell: Value):
    i, f, g, o, cell = kept
    inner = tanh(f * cell + i * g)
    by_found = by_cell + by_hidden * o * (1.0 - inner * inner)
    parts = (
        by_found * g * i * (1.0 - i),
        by_found * cell * f * (1.0 - f),
        by_found * i * (1.0 - g * g),
        by_hidden * inner * o * (1.0 - o),
    )
    return parts, parts, None, by_found * f


def _gru(inputs: Values, hiddens: Values, hidden: Value, cell: None, bias: Value | None):
    """Cho et al. (2014), the reset after the product, as in cuDNN; the bias is of what is reset."""
    r, z = (sigmoid(x + h) for x, h in zip(inputs[:2], hiddens[:2], strict=True))
    inner = hiddens[2] if bias is None else hiddens[2] + bias
    n = tanh(inputs[2] + r * inner)
    return n + z * (hidden - n), None, (r, z, n, inner, hidden)


def _gru_back(kept: Values, by_hidden: Value, by_cell: None):
    r, z, n, inner, hidden = kept
    by_z = by_hidden * (hidden - n) * z * (1.0 - z)
    by_n = by_hidden * (1.0 - z) * (1.0 - n * n)
    by_r = by_n * inner * r * (1.0 - r)
    return (by_r, by_z, by_n), (by_r, by_z, by_n * r), by_hidden * z, None


def _plain(activation: Callable[..., Value]) -> Callable[..., tuple[Value, None, Values]]:
    """Elman (1990)."""
    return lambda inputs, hiddens, hidden, cell, bias: (activation(inputs[0] + hiddens[0]), None, ())


def _tanh_back(kept: Values, by_hidden: Value, by_cell: None):
    parts = (by_hidden * (1.0 - kept[0] * kept[0]),)
    return parts, parts, None, None


def _relu_back(kept: Values, by_hidden: Value, by_cell: None):
    parts = (select(kept[0] > 0.0, by_hidden, 0.0),)
    return parts, parts, None, None


LSTM = Kind("lstm", 4, 5, _lstm, _lstm_back, has_cell=True)
GRU = Kind("gru", 3, 5, _gru, _gru_back, parted=True)
TANH = Kind("rnn_tanh", 1, 0, _plain(tanh), _tanh_back)
RELU = Kind("rnn_relu", 1, 0, _plain(relu), _relu_back)


class Cell:
    """A kernel's operands at one element of a state: a lane is a row of the batch and a column of the state."""

    def __init__(self, builder: Builder, operands: dict[str, Operand], row: Value, column: Value) -> None:
        self.builder = builder
        self.operands = operands
        self.row, self.column = row, column
        self.width: Value | int | None = None  # of a state; None: the extent of the columns
        self.active: Value | None = None  # whether the row's sequence has not ended; None: none ends early
        if "lengths" in operands:
            length = operands["lengths"].at(self.row).to(dtypes.index)
            self.active = self.now() < length

    def now(self) -> Value:
        """The step's time."""
        return self.builder.scalar("time", dtypes.index)

    def place(self, name: str, *where: Value) -> tuple[Value, ...]:
        """The coordinates of an operand's element, whose launch has its time."""
        return where

    def of(self, name: str) -> Value | None:
        """The element of an operand, if it is there."""
        operand = self.operands.get(name)
        if operand is None:
            return None
        where = (self.column,) if name == "bias" else (self.row, self.column)
        return operand.at(*self.place(name, *where))

    def parts(self, name: str, count: int) -> list[Value]:
        """The elements of an operand whose rows are several states wide."""
        return [self.operands[name].at(*self.place(name, self.row, self._part(k))) for k in range(count)]

    def put(self, name: str, value: Value | None) -> None:
        """Stores an element of an operand, if it is there."""
        if name in self.operands and value is not None:
            self.operands[name].put(value, *self.place(name, self.row, self.column))

    def put_parts(self, name: str, values: Values) -> None:
        if name in self.operands:
            for k, value in enumerate(values):
                self.operands[name].put(value, *self.place(name, self.row, self._part(k)))

    def chosen(self, active: Value, ended: Value | Number) -> Value:
        """One value where the sequence goes on, another where it has ended."""
        return active if self.active is None else select(self.active, active, ended)

    def _part(self, k: int) -> Value:
        width = self.builder.extent(1) if self.width is None else self.width
        return self.column + k * width if k else self.column


def forward(kind: Kind, cell: Cell) -> None:
    """A step. Without `hidden` it gives what is projected before it is the next hidden state."""
    before, held, bias = cell.of("hidden"), cell.of("cell"), cell.of("bias")
    inputs, hiddens = cell.parts("gates", kind.gates), cell.parts("product", kind.gates)
    state, grown, kept = kind.forward(inputs, hiddens, before, held, bias)
    if held is not None and grown is not None:
        cell.put("cell", cell.chosen(grown, held))
    if before is None:
        cell.put("inner", state)
        kept = (*kept, state)
    else:
        settled(kind, cell, state)
    cell.put_parts("kept", kept)


def settled(kind: Kind, cell: Cell, state: Value | None = None) -> None:
    """The next hidden state, as state and as output; that before it where the sequence has ended."""
    before, state = cell.of("hidden"), cell.of("product") if state is None else state
    assert before is not None
    assert state is not None
    after = cell.chosen(state, before)
    cell.put("hidden", after)
    cell.put("out", after)


def _arrived(cell: Cell) -> Value:
    """The cotangent of a step's hidden state: by the output, by the state, and by the next step's gates."""
    by_hidden = cell.of("by_hidden")
    assert by_hidden is not None
    for name in ("cotangent", "product"):
        more = cell.of(name)
        by_hidden = by_hidden if more is None else by_hidden + more
    return by_hidden


def gathered(kind: Kind, cell: Cell) -> None:
    """Of a projected hidden state, the cotangent that goes on through the projection, and what passes by."""
    total = _arrived(cell)
    nothing = total.builder.constant(0, total.dtype)
    through = cell.chosen(total, 0)
    cell.put("total", through)
    cell.put("projected", through)
    cell.put("by_hidden", nothing if cell.active is None else select(cell.active, nothing, total))


def backward(kind: Kind, cell: Cell) -> None:
    """A step's way back. Without `by_hidden` the cotangent has come through the projection."""
    through = cell.of("inner")
    by_hidden, by_cell = _arrived(cell) if through is None else through, cell.of("by_cell")
    kept = cell.parts("kept", max(kind.kept, 1))
    inputs, hiddens, direct, before = kind.backward(kept, by_hidden, by_cell)
    if by_cell is not None and before is not None:
        cell.put("by_cell", cell.chosen(before, by_cell))
    if through is None:
        direct = cell.builder.constant(0, by_hidden.dtype) if direct is None else direct
        cell.put("by_hidden", cell.chosen(direct, by_hidden))
    inputs, hiddens = ([cell.chosen(x, 0) for x in parts] for parts in (inputs, hiddens))
    cell.put_parts("grown", inputs)
    cell.put_parts("grown_hidden", hiddens)
    cell.put_parts("parts", hiddens)


WRITES = {"inner", "out", "kept", "total", "projected", "grown", "grown_hidden", "parts"}
KEEPS = {"hidden", "cell", "by_hidden", "by_cell"}
MOVING = {
    "gates",
    "out",
    "kept",
    "cotangent",
    "total",
    "grown",
    "grown_hidden",
}  # have an entry for each time
Way = Callable[[Kind, Cell], None]


@frozen(eq=False)
class Kernel:
    """A kernel of the steps, and where its operands lie."""

    program: Program
    names: tuple[str, ...]
    places: tuple[Place, ...]
    grid: tuple[int, ...]

    def at(self, time: int) -> Step:
        """Its launch for one time."""
        layouts = [
            p.layout.select(0, time) if n in MOVING else p.layout
            for n, p in zip(self.names, self.places, strict=True)
        ]
        step = step_of(
            self.program, range(len(layouts)), numbers_of(self.names, layouts, {"time": time}), self.grid
        )
        return Step(step.kernel, tuple(p.position for p in self.places), step.scalars, step.grid)


def kernel(
    kind: Kind, way: Way, operands: dict[str, Place | None], grid: tuple[int, ...], reads: str = ""
) -> Kernel:
    """A kernel over the operands that are there; those in `reads` are read here, though others write them."""
    given = {name: place for name, place in operands.items() if place is not None}
    described = tuple((n, _address(n, p.layout), _access(n, reads)) for n, p in given.items())
    return Kernel(_program(kind, way, described), tuple(given), tuple(given.values()), grid)


def _access(name: str, reads: str) -> Access:
    if name in KEEPS:
        return Access.READ_WRITE
    return Access.WRITE if name in WRITES and name not in reads.split() else Access.READ


def _address(name: str, layout: Layout) -> Address:
    """One for all times, the first included, whose offset is 0."""
    address = Address.of(layout.select(0, 0) if name in MOVING else layout)
    return Address(address.dtype, address.steps, shifted=name in MOVING or address.shifted)


@lru_cache(maxsize=1024)
def _program(kind: Kind, way: Way, described: tuple[tuple[str, Address, Access], ...]) -> Program:
    dtype = described[0][1].dtype
    builder = Builder(f"atlas_{kind.name}_{way.__name__}_{dtype}", rank=2)
    operands = {
        name: Operand(builder, name, address, access, address.dtype.computed)
        for name, address, access in described
    }
    way(kind, Cell(builder, operands, builder.coordinate(0), builder.coordinate(1)))
    return builder.build()


def repeated(steps: Steps, add: Callable[[], None]) -> tuple[Step, ...]:
    """The steps that `add` would append, with their scratch memory, to be appended as often as needed."""
    count = len(steps.steps)
    add()
    appended = tuple(steps.steps[count:])
    del steps.steps[count:]
    return appended
