"""Code of transforms, as many side by side as vectors have lanes.

A lane is one of the transforms along an axis. Vectors of elements are taken through the passes of Stockham's form
(opset/fourier/passes.py), between two places in a core's cache, so no lane ever meets another. Along the last axis
lanes are rows, whose squares are turned in registers.

A long row is a matrix of n1 rows and n2 columns (Bailey, FFTs in external or hierarchical memory, 1990): `columns`
transforms n1 elements that stand n2 apart, whose neighbours are the lanes, and turns them by roots of unity; `rows`
transforms the n2 elements of a row, squares turned, and puts the lanes side by side again. So memory is always read
and written by whole vectors. `whole` does both, one row after the other, in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram.backends.cpu.fourier.vectors import Pair, Vectors, turned
from hologram.backends.cpu.llvm.arguments import load_slot
from hologram.backends.cpu.llvm.writer import Writer
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.opset.fourier.butterflies import small

ADDRESSES = ("x", "out", "temporary", "room", "first", "second", "turns")
STRIDES = tuple(
    f"{name}_{axis}" for name in ("x", "out") for axis in ("outer", "element", "lane")
)  # in bytes
NUMBERS = ("count", "blocks", "slice", "room_bytes", *STRIDES)
FACTORS = ("sign", "scale", "scale_of_imaginary")
WORDS = (*ADDRESSES, *NUMBERS, *FACTORS)
COLUMNS, ROWS, ANY = "columns", "rows", "any"  # lanes lie side by side; their elements do; neither

Load = Callable[[str], Pair]
Store = Callable[[str, Pair], None]


@frozen
class Kind:
    """What a module is written for: a part's dtype, lanes, radices of one transform or of two, and how lanes lie."""

    part: DType
    lanes: int
    first: tuple[int, ...]
    second: tuple[int, ...] = ()
    given: str = COLUMNS
    taken: str = COLUMNS

    @property
    def n1(self) -> int:
        return math.prod(self.first)

    @property
    def n2(self) -> int:
        return math.prod(self.second)

    @property
    def blocks(self) -> int:
        """Of lanes, that columns are."""
        return -(-self.n2 // self.lanes)

    @property
    def vector_bytes(self) -> int:
        """Of complex numbers."""
        return 2 * self.lanes * self.part.itemsize

    @property
    def buffer_bytes(self) -> int:
        """Of elements between passes."""
        return max(self.n1, self.n2) * self.vector_bytes

    @property
    def temporary_bytes(self) -> int:
        """Of a row between both transforms."""
        return self.n1 * self.blocks * self.vector_bytes if self.second else 0

    @property
    def functions(self) -> tuple[str, ...]:
        return ("columns", "rows", "whole") if self.second else ("lanes",)


def text(kind: Kind) -> str:
    """IR of the functions."""
    code = _Code(kind)
    if kind.second:
        written = [
            code.part("columns", code.columns),
            code.part("rows", code.rows),
            code.function("columns", lambda w, a, u, room: code.shared(w, a, u, room, "columns")),
            code.function("rows", lambda w, a, u, room: code.shared(w, a, u, room, "rows")),
            code.function("whole", code.whole),
        ]
    else:
        written = [code.part("lanes", code.side_by_side), code.function("lanes", code.lanes)]
    metadata = [f"!{k} = {node}" for k, node in enumerate(code.metadata)]
    return "\n".join([*written, *sorted(code.declarations), *metadata, ""])


Arguments = dict[str, str]


class _Code:
    """Writes the functions of a kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.declarations: set[str] = set()
        self.metadata = ["distinct !{}"]

    def _arguments(self, w: Writer) -> Arguments:
        scalar = Vectors(w, self.kind.part, self.kind.lanes).scalar
        types: dict[str, str] = {**dict.fromkeys(ADDRESSES, "ptr"), **dict.fromkeys(FACTORS, scalar)}
        return {word: load_slot(w, k, types.get(word, "i64")) for k, word in enumerate(WORDS)}

    def function(self, name: str, body: Callable[[Writer, Arguments, str, str], None]) -> str:
        """A function that runs `body` for each unit of a slice, which has room of its own."""
        w = Writer(self.metadata)
        a = self._arguments(w)
        number = w(f"udiv i64 %begin, {a['slice']}")
        room = w.element(a["room"], "i8", w(f"mul i64 {number}, {a['room_bytes']}"))
        place = w(f"ptrtoint ptr {room} to i64")
        aligned = w(f"and i64 {w(f'add i64 {place}, 63')}, -64")
        room = w(f"inttoptr i64 {aligned} to ptr")

        def each(unit: str, _: list[str]) -> list[str]:
            body(w, a, unit, room)
            return []

        w.loop("%begin", "%end", "1", [], each)
        w.do("ret void")
        self.declarations |= w.declarations
        return w.function(f"void @{name}(ptr %arguments, i64 %begin, i64 %end)", "nounwind")

    def part(self, name: str, body: Callable[[Writer, Arguments], None]) -> str:
        """One block of lanes, from %source to %target."""
        w = Writer(self.metadata)
        body(w, self._arguments(w))
        w.do("ret void")
        self.declarations |= w.declarations
        given = "ptr %arguments, ptr %room, ptr %source, ptr %target, i64 %block"
        return w.function(f"internal void @{name}_of({given})", "nounwind noinline")

    def _call(self, w: Writer, name: str, room: str, source: str, target: str, block: str) -> None:
        given = f"ptr %arguments, ptr {room}, ptr {source}, ptr {target}, i64 {block}"
        w.do(f"call void @{name}_of({given})")

    # Units of the functions.

    def lanes(self, w: Writer, a: Arguments, unit: str, room: str) -> None:
        """A block of lanes of an outer position."""
        outer, block = w(f"udiv i64 {unit}, {a['blocks']}"), w(f"urem i64 {unit}, {a['blocks']}")
        source, target = (_moved(w, a[n], outer, a[f"{n}_outer"]) for n in ("x", "out"))
        self._call(w, "lanes", room, source, target, block)

    def shared(self, w: Writer, a: Arguments, unit: str, room: str, what: str) -> None:
        """A block of lanes of a row, whose other blocks other threads may have."""
        row, block = w(f"udiv i64 {unit}, {a['blocks']}"), w(f"urem i64 {unit}, {a['blocks']}")
        between = _moved(w, a["temporary"], row, str(self.kind.temporary_bytes))
        if what == "columns":
            self._call(w, what, room, _moved(w, a["x"], row, a["x_outer"]), between, block)
        else:
            self._call(w, what, room, between, _moved(w, a["out"], row, a["out_outer"]), block)

    def whole(self, w: Writer, a: Arguments, row: str, room: str) -> None:
        """A row, both transforms."""
        kind = self.kind
        between = w.element(room, "i8", str(2 * kind.buffer_bytes))
        ends = {
            "columns": (_moved(w, a["x"], row, a["x_outer"]), between, kind.blocks),
            "rows": (between, _moved(w, a["out"], row, a["out_outer"]), -(-kind.n1 // kind.lanes)),
        }
        for name, (source, target, blocks) in ends.items():
            self._blocks(w, name, room, (source, target), blocks)

    def _blocks(self, w: Writer, name: str, room: str, ends: tuple[str, str], blocks: int) -> None:
        def each(block: str, _: list[str]) -> list[str]:
            self._call(w, name, room, ends[0], ends[1], block)
            return []

        w.loop("0", str(blocks), "1", [], each)

    # Blocks of lanes.

    def columns(self, w: Writer, a: Arguments) -> None:
        kind = self.kind
        v, start = Vectors(w, kind.part, kind.lanes), self._start(w, str(kind.n2 - kind.lanes))
        source = _moved(w, "%source", start, str(2 * kind.part.itemsize))
        target = _moved(w, "%target", "%block", str(kind.vector_bytes))
        own = _moved(w, a["turns"], "%block", str(kind.n1 * kind.vector_bytes))
        load = self._given(v, a, source, lambda: str(kind.n2 * 2 * kind.part.itemsize))

        def store(k: str, z: Pair) -> None:
            turn = v.load(_moved(w, own, k, str(kind.vector_bytes)))
            v.store(
                v.product(z, turn.re, turn.im), _moved(w, target, k, str(kind.blocks * kind.vector_bytes))
            )

        self._passes(v, kind.first, a["first"], load, store)

    def rows(self, w: Writer, a: Arguments) -> None:
        kind = self.kind
        v, start = Vectors(w, kind.part, kind.lanes), self._start(w, str(kind.n1 - kind.lanes))
        line = kind.blocks * kind.vector_bytes
        source = _moved(w, "%source", start, str(line))
        target = _moved(w, "%target", start, str(2 * kind.part.itemsize))

        def block(k: str, _: list[str]) -> list[str]:
            of_block = _moved(w, source, k, str(kind.vector_bytes))
            rows = [v.load(w.element(of_block, "i8", str(i * line))) for i in range(kind.lanes)]
            self._put(v, rows, self._least(w, k, str(kind.n2 - kind.lanes)))
            return []

        w.loop("0", str(kind.blocks), "1", [], block)
        to = self._taken(v, a, target, lambda: str(kind.n1 * 2 * kind.part.itemsize))
        self._passes(v, kind.second, a["second"], None, to)

    def side_by_side(self, w: Writer, a: Arguments) -> None:
        kind = self.kind
        v = Vectors(w, kind.part, kind.lanes)
        # Unsigned, so that with fewer lanes than a vector's the first block begins at 0.
        beside = self._start(w, w(f"sub i64 {a['count']}, {kind.lanes}"))
        last = w(f"sub i64 {a['count']}, 1")
        each = [
            w.intrinsic("llvm.umin.i64", "i64", ("i64", w(f"add i64 {beside}, {i}")), ("i64", last))
            for i in range(kind.lanes)
        ]
        ends = {}
        for name, place, way in (("x", "%source", kind.given), ("out", "%target", kind.taken)):
            many = way != COLUMNS
            ends[name] = [_moved(w, place, lane, a[f"{name}_lane"]) for lane in (each if many else [beside])]
        load: Load | None = None
        if kind.given == ROWS:
            self._by_squares(w, lambda e, at: self._put(v, self._of_rows(v, a, ends["x"], e), at))
        elif kind.given == ANY:
            load = self._of_each(v, a, ends["x"])
        else:
            load = self._given(v, a, ends["x"][0], lambda: a["x_element"])
        if kind.taken == COLUMNS:
            self._passes(
                v, kind.first, a["first"], load, self._taken(v, a, ends["out"][0], lambda: a["out_element"])
            )
        elif kind.taken == ANY:
            self._passes(v, kind.first, a["first"], load, self._to_each(v, a, ends["out"]))
        else:
            made = self._passes(v, kind.first, a["first"], load, None)

            def square(e: str, at: str) -> None:
                found = [v.load(self._at(w, made, w(f"add i64 {at}, {i}"))) for i in range(kind.lanes)]
                for p, z in zip(ends["out"], v.turned(found), strict=True):
                    v.store_numbers(self._scaled(v, a, z), w.element(p, "i8", e))

            self._by_squares(w, square)

    def _by_squares(self, w: Writer, square: Callable[[str, str], None]) -> None:
        """Elements by as many as there are lanes: where they lie in a row, in bytes, and the first's number."""
        n, lanes = self.kind.n1, self.kind.lanes

        def each(k: str, _: list[str]) -> list[str]:
            at = self._least(w, k, str(n - lanes))
            square(w(f"mul i64 {at}, {2 * self.kind.part.itemsize}"), at)
            return []

        w.loop("0", str(-(-n // lanes)), "1", [], each)

    def _of_rows(self, v: Vectors, a: Arguments, places: list[str], e: str) -> list[Pair]:
        return [self._conjugated(v, a, v.load_numbers(v.w.element(p, "i8", e))) for p in places]

    def _put(self, v: Vectors, rows: list[Pair], at: str) -> None:
        """The elements of a square into the room, from number `at` on."""
        for i, z in enumerate(v.turned(rows)):
            v.store(z, self._at(v.w, "%room", v.w(f"add i64 {at}, {i}")))

    # Ends of transforms.

    def _start(self, w: Writer, last: str) -> str:
        """The first lane of the block, which ends with the last lane at the latest."""
        return self._least(w, "%block", last)

    def _least(self, w: Writer, block: str, last: str) -> str:
        start = w(f"mul i64 {block}, {self.kind.lanes}")
        return w.intrinsic("llvm.umin.i64", "i64", ("i64", start), ("i64", last))

    def _conjugated(self, v: Vectors, a: Arguments, z: Pair) -> Pair:
        """An inverse transform is that of conjugates, conjugated."""
        return Pair(v, z.re, v.binary("fmul", z.im, v.spread(a["sign"])))

    def _scaled(self, v: Vectors, a: Arguments, z: Pair) -> Pair:
        both = zip((z.re, z.im), ("scale", "scale_of_imaginary"), strict=True)
        return Pair(v, *(v.binary("fmul", part, v.spread(a[name])) for part, name in both))

    def _given(self, v: Vectors, a: Arguments, source: str, stride: Callable[[], str]) -> Load:
        return lambda j: self._conjugated(v, a, v.load_numbers(_moved(v.w, source, j, stride())))

    def _of_each(self, v: Vectors, a: Arguments, places: list[str]) -> Load:
        """Of lanes that lie anywhere."""
        return lambda j: self._conjugated(
            v, a, v.load_each([_moved(v.w, p, j, a["x_element"]) for p in places])
        )

    def _to_each(self, v: Vectors, a: Arguments, places: list[str]) -> Store:
        return lambda k, z: v.store_each(
            self._scaled(v, a, z), [_moved(v.w, p, k, a["out_element"]) for p in places]
        )

    def _taken(self, v: Vectors, a: Arguments, target: str, stride: Callable[[], str]) -> Store:
        return lambda k, z: v.store_numbers(self._scaled(v, a, z), _moved(v.w, target, k, stride()))

    def _at(self, w: Writer, buffer: str, k: str) -> str:
        return _moved(w, buffer, k, str(self.kind.vector_bytes))

    # The transform.

    def _passes(
        self, v: Vectors, radices: tuple[int, ...], table: str, load: Load | None, store: Store | None
    ) -> str:
        """Passes from `load`, or where that is none from the room, to `store`, or where that is none a place in it."""
        w, n, s = v.w, math.prod(radices), 1
        other = w.element("%room", "i8", str(self.kind.buffer_bytes))
        now, to = "%room", other
        for k, r in enumerate(radices):
            m = n // (s * r)
            read = load if load is not None and not k else self._read(v, now)
            write = store if store is not None and k == len(radices) - 1 else self._write(v, to)
            self._pass(v, r, m, s, table, read, write)
            if m > 1:
                table = w.element(table, "i8", str(m * (r - 1) * 2 * self.kind.part.itemsize))
            now, to, s = to, now, s * r
        return now

    def _read(self, v: Vectors, place: str) -> Load:
        return lambda j: v.load(self._at(v.w, place, j))

    def _write(self, v: Vectors, place: str) -> Store:
        return lambda k, z: v.store(z, self._at(v.w, place, k))

    def _pass(self, v: Vectors, r: int, m: int, s: int, table: str, read: Load, write: Store) -> None:
        w, scalar, size = v.w, v.scalar, self.kind.part.itemsize

        def butterfly(p: str, q: str) -> None:
            first = w(f"add i64 {w(f'mul i64 {p}, {s}')}, {q}")
            found = small([read(w(f"add i64 {first}, {s * m * k}")) for k in range(r)], -1, turned)
            to = w(f"add i64 {w(f'mul i64 {p}, {s * r}')}, {q}")
            own = _moved(w, table, p, str((r - 1) * 2 * size))
            for k, z in enumerate(found):
                if k and m > 1:
                    places = [w.element(own, scalar, str(2 * (k - 1) + i)) for i in (0, 1)]
                    root = [v.spread(w(f"load {scalar}, ptr {x}, align {size}")) for x in places]
                    z = v.product(z, root[0], root[1])
                write(w(f"add i64 {to}, {s * k}"), z)

        def over_q(p: str) -> None:
            if s == 1:
                butterfly(p, "0")
                return

            def each(q: str, _: list[str]) -> list[str]:
                butterfly(p, q)
                return []

            w.loop("0", str(s), "1", [], each)

        if m == 1:
            over_q("0")
            return

        def each(p: str, _: list[str]) -> list[str]:
            over_q(p)
            return []

        w.loop("0", str(m), "1", [], each)


def _moved(w: Writer, place: str, count: str, stride: str) -> str:
    """A place so many strides on, which are bytes."""
    return w.element(place, "i8", w(f"mul i64 {count}, {stride}"))
