"""What a unit, a matrix of a stack, works with: the launch's words, its room, and the loops of sweeps.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.linear_algebra.numbers import Field, Matrix, Number
from hologram.backends.cpu.linear_algebra.sweeps import Sweeps
from hologram.backends.cpu.llvm.arguments import load_slot
from hologram.backends.cpu.llvm.listening import ask
from hologram.backends.cpu.llvm.writer import Writer
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

BUFFERS = tuple(f"buffer{k}" for k in range(5))
SIZES = ("m", "n", "width", "right")  # rows, columns, columns of q, and of what is solved for
# `apart`: matrices after which a thread asks for interrupts.
# Elements: from row to row, of a list, from a real part to the imaginary, and where the room's parts begin.
PLACES = ("row", "list", "plane", "second", "third", "lists", "reals")
WORDS = (*BUFFERS, "room", *SIZES, *PLACES, "room_bytes", "slice", "apart")
LISTS, REALS = 4, 7  # in a unit's room


Span = tuple[str, str]  # of rows or columns: the first, and the one behind the last


@frozen
class Kind:
    """What a module is written for."""

    stem: str
    dtype: DType
    lanes: int
    flag: bool = False  # `upper`; of singular values whether there are more columns than rows


@frozen(eq=False)
class Cell:
    """A variable."""

    w: Writer
    type: str
    address: str

    @property
    def value(self) -> str:
        return self.w(f"load {self.type}, ptr {self.address}, align 8")

    def put(self, value: str) -> None:
        self.w.do(f"store {self.type} {value}, ptr {self.address}, align 8")


class Desk:
    """A unit's words and matrices, in the function being written."""

    def __init__(self, f: Field, a: dict[str, str], unit: str, room: str) -> None:
        self.f, self.w, self.size, self._unit, self._room = f, f.w, a, unit, room

    def given(self, k: int, rows: str, columns: str = "", is_real: bool = False) -> Matrix:
        """The unit's part of a buffer: a matrix, or a list without `columns`."""
        f, w = self.f, self.w
        count = w.i64("mul", rows, columns) if columns else rows
        first = w.i64("mul", self._unit, count)
        if not is_real:
            first = w.i64("mul", first, f.count)
        address = w.element(self.size[BUFFERS[k]], f.scalar, first)
        return Matrix(f, address, columns or "0", "0", is_real)

    def told(self, k: int, code: str) -> None:
        """Stores what is told of the unit, an i32."""
        self.w.do(
            f"store i32 {code}, ptr {self.w.element(self.size[BUFFERS[k]], 'i32', self._unit)}, align 4"
        )

    def _part(self, first: str, row: str) -> Matrix:
        f = self.f
        return Matrix(f, self.w.element(self._room, f.scalar, first), row, self.size["plane"])

    def first(self) -> Matrix:
        """The matrix at the room's beginning."""
        return self._part("0", self.size["row"])

    def second(self) -> Matrix:
        """Lists, one below the other."""
        return self._part(self.size["second"], self.size["list"])

    def third(self) -> Matrix:
        """More of them."""
        return self._part(self.size["third"], self.size["list"])

    def list(self, k: int) -> Matrix:
        place = self.w.i64("add", self.size["lists"], self.w.i64("mul", self.size["list"], k))
        return self._part(place, "0")

    def reals(self, k: int) -> Matrix:
        """A list of real numbers."""
        place = self.w.i64("add", self.size["reals"], self.w.i64("mul", self.size["list"], k))
        return Matrix(self.f, self.w.element(self._room, self.f.scalar, place), "0", "0", is_real=True)

    def start(self, i: str) -> str:
        """The first column of the vector that a column is in."""
        return self.w.i64("and", i, -self.f.lanes)

    def each(self, start: str, stop: str, body: Callable[[str], object]) -> None:
        self.f.each(start, stop, body)

    def over(self, start: str, stop: str, body: Callable[[str], object]) -> None:
        """For each vector."""
        self.f.each(start, stop, body, self.f.lanes)

    def falling(self, count: str, body: Callable[[str], object]) -> None:
        """From count - 1 down to 0."""
        last = self.w.i64("sub", count, 1)
        self.each("0", count, lambda k: body(self.w.i64("sub", last, k)))

    def when(self, condition: str, then: Callable[[], object]) -> None:
        inside, after = self.w.label("then"), self.w.label("after")
        self.w.branch(condition, inside, after)
        self.w.place(inside)
        then()
        self.w.jump(after)
        self.w.place(after)

    def unless(self, condition: str, then: Callable[[], object]) -> None:
        self.when(self.w(f"xor i1 {condition}, true"), then)

    def repeat(self, body: Callable[[], str]) -> None:
        """The body, again while it says so."""
        again, after = self.w.label("again"), self.w.label("after")
        self.w.jump(again)
        self.w.place(again)
        self.w.branch(body(), again, after)
        self.w.place(after)

    def cell(self, type_: str, first: str) -> Cell:
        """What loops change, as LLVM likes: memory, of which it makes registers."""
        made = Cell(self.w, type_, self.w.alloca(type_, 1))
        made.put(first)
        return made

    # Calls of sweeps.

    def _matrix(self, a: Matrix, rows: Span, columns: Span) -> str:
        bounds = ", ".join(f"i64 {x}" for x in (*rows, *columns))
        return f"ptr {a.address}, i64 {a.row}, i64 {a.plane}, {bounds}"

    def along(
        self,
        a: Matrix,
        rows: Span,
        columns: Span,
        v: Matrix,
        out: Matrix,
        factor: Number,
        name: str = "along",
    ) -> None:
        """out = factor (v^H a)."""
        given = ", ".join(f"{self.f.scalar} {x}" for x in factor.parts)
        where = self._matrix(a, rows, columns)
        self.w.do(f"call void @{name}({where}, ptr {v.address}, ptr {out.address}, {given})")

    def across(self, a: Matrix, rows: Span, columns: Span, v: Matrix, out: Matrix, factor: Number) -> None:
        """out = factor (a v)."""
        self.along(a, rows, columns, v, out, factor, "across")

    def less(self, a: Matrix, rows: Span, columns: Span, *pairs: tuple[Matrix, Matrix]) -> None:
        """a = a - v w for each pair."""
        name = "less" if len(pairs) == 1 else "less_both"
        lists = ", ".join(f"ptr {x.address}" for pair in pairs for x in pair)
        self.w.do(f"call void @{name}({self._matrix(a, rows, columns)}, {lists})")

    def reflected(self, v: Matrix, first: str, stop: str, told: Matrix) -> tuple[str, Number]:
        """Makes a list that of a reflection; its beta and tau."""
        self.w.do(
            f"call void @reflected(ptr {v.address}, i64 {v.plane}, i64 {first}, i64 {stop}, ptr {told.address})"
        )
        tau = Number(self.f, tuple(told.item(str(k + 1)).real for k in range(self.f.count)))
        return told.item("0").real, tau


Unit = Callable[[Desk], None]


def module(sweeps: Sweeps, functions: Sequence[str], body: Unit) -> str:
    """The text of a module whose function `each` runs a unit for each matrix of a slice, in room of the slice's own."""
    w = Writer(sweeps.metadata)
    a = {word: load_slot(w, k, "ptr" if k <= len(BUFFERS) else "i64") for k, word in enumerate(WORDS)}
    number = w(f"udiv i64 %begin, {a['slice']}")
    room = w.element(a["room"], "i8", w(f"mul i64 {number}, {a['room_bytes']}"))
    place = w(f"ptrtoint ptr {room} to i64")
    aligned = w(f"and i64 {w(f'add i64 {place}, 63')}, -64")
    room = w(f"inttoptr i64 {aligned} to ptr")
    size = w.i64("sub", a["room_bytes"], 64)
    w.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")

    def each(unit: str, _: list[str]) -> list[str]:
        w.do(f"call void @llvm.memset.p0.i64(ptr align 64 {room}, i8 0, i64 {size}, i1 false)")
        body(Desk(Field(w, sweeps.dtype, sweeps.lanes), a, unit, room))
        return []

    w.loop("%begin", "%end", "1", [], each, kept=True)
    w.do("ret void")
    some = w.function("internal void @some(ptr %arguments, i64 %begin, i64 %end)", "nounwind noinline")
    main = _in_parts(w)
    declarations = sorted(sweeps.declarations | w.declarations)
    metadata = [f"!{k} = {node}" for k, node in enumerate(sweeps.metadata)]
    return "\n".join([*functions, some, main, *declarations, *metadata, ""])


def _in_parts(some: Writer) -> str:
    """The function that asks for interrupts between some matrices and the next."""
    w = Writer(some.metadata)
    again, more, done = w.label("again"), w.label("more"), w.label("done")
    w.jump(again)
    w.place(again)
    first, stop = w.name("first"), w.name("stop")
    slot = len(w.lines)
    w.lines.append("")
    after = w.i64("add", first, load_slot(w, WORDS.index("apart"), "i64"))
    w.do(f"{stop} = call i64 @llvm.smin.i64(i64 {after}, i64 %end)")
    w.do(f"call void @some(ptr %arguments, i64 {first}, i64 {stop})")
    w.branch(w(f"icmp slt i64 {stop}, %end"), more, done)
    w.place(more)
    ask(w)
    w.lines[slot] = f"  {first} = phi i64 [ %begin, %entry ], [ {stop}, %{w.block} ]"
    w.jump(again)
    w.place(done)
    w.do("ret void")
    some.declarations |= {*w.declarations, "declare i64 @llvm.smin.i64(i64, i64)"}
    return w.function("void @each(ptr %arguments, i64 %begin, i64 %end)", "nounwind")
