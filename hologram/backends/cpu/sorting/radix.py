"""Code for a stable sort by digits, the least significant first: one pass over keys with their positions for each.

Short rows are a network's (network.py), and rows of which no positions are wanted are dealt (buckets.py).

Where rows are many, `whole` takes a row through a pass. Where they are few and long, each is cut into chunks that have
counters of their own: `count` fills them, `scan` makes them places, `move` puts the elements there, chunk by chunk, so
that equal digits keep their order (Zagha and Blelloch, 1991). The first pass reads keys, and positions are counted; the
last writes positions alone. In between an element is a key of 32 bits above its position, or one of 64 beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.arguments import load_slot
from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.sorting import network
from hologram.backends.cpu.sorting.keys import Keys

WORDS = ("source", "target", "spare", "other", "room", "n", "chunks", "length", "shift", "mask", "usual")
POINTERS = WORDS.index("n")
MOST_DIGITS = 2048  # counters of a chunk
COUNTERS = MOST_DIGITS + 4  # with room for two keys
WAYS = (
    (True, False),
    (False, False),
    (False, True),
    (True, True),
)  # whether a pass is the first, and the last
_ATTRIBUTES = "nounwind"


def _named(what: str, first: bool, last: bool = False) -> str:
    return f"{what}{'_first' if first else ''}{'_last' if last else ''}"


def functions(size: int = 0) -> tuple[str, ...]:
    """Names of the functions, in order; with `size`, those for rows of so many vectors."""
    if size:
        return "zeros", "network"
    both = [_named(what, *way) for what in ("whole", "move") for way in WAYS]
    return ("scan", "zeros", *(_named("count", first) for first in (True, False)), *both)


def function(what: str, first: bool = False, last: bool = False) -> int:
    """The number of a function."""
    return functions().index(_named(what, first, last))


def text(keys: Keys, positions: bool, size: int = 0) -> str:
    """IR for such keys; what is put in order are their `positions`, or they themselves.

    With `size`, for rows of so many vectors.
    """
    code = Code(keys, positions)
    if size:
        written = [
            code.unit("zeros", code.zeros),
            code.unit("network", lambda w, a, u: code.network(w, a, u, size)),
        ]
    else:
        written = code.passes()
    return code.module(written)


Arguments = dict[str, str]
Read = Callable[[str], tuple[str, str]]  # of a place: the key of the element there, and its position
Put = Callable[[str, str, str], None]  # at a place: a key and its position


class Code:
    """Writes the functions for one dtype of keys."""

    def __init__(self, keys: Keys, positions: bool) -> None:
        self.keys = keys
        self.key = keys.type
        self.positions = positions
        self.result = "i32" if positions else self.key
        self.packed = self.key == "i32"
        self.element = "i64" if self.packed else "{ i64, i64 }"
        self.declarations: set[str] = set()
        self.metadata = ["distinct !{}"]

    def unit(self, name: str, body: Callable[[Writer, Arguments, str], None]) -> str:
        """A function that runs `body` for each unit of a slice."""
        w = Writer(self.metadata)
        arguments = {word: load_slot(w, k, "ptr" if k < POINTERS else "i64") for k, word in enumerate(WORDS)}

        def each(unit: str, _: list[str]) -> list[str]:
            body(w, arguments, unit)
            return []

        w.loop("%begin", "%end", "1", [], each)
        w.do("ret void")
        self.declarations |= w.declarations
        return w.function(f"void @{name}(ptr %arguments, i64 %begin, i64 %end)", _ATTRIBUTES)

    def module(self, functions: Sequence[str]) -> str:
        """The text of a module with those functions."""
        metadata = [f"!{k} = {node}" for k, node in enumerate(self.metadata)]
        return "\n".join([*functions, *sorted(self.declarations), *metadata, ""])

    def passes(self) -> list[str]:
        """The functions of a sort by digits."""
        written = [self.unit("scan", self.scan), self.unit("zeros", self.zeros)]
        for first in (True, False):
            body = functools.partial(self.count, first=first)
            written.append(self.unit(_named("count", first), body))
        for what, body in (("whole", self.whole), ("move", self.move)):
            for first, last in WAYS:
                way = functools.partial(body, first=first, last=last)
                written.append(self.unit(_named(what, first, last), way))
        return written

    def network(self, w: Writer, a: Arguments, row: str, size: int) -> None:
        source, target = self._rows(w, a, row, True, True)
        network.row(w, self.keys, self.positions, size, source, target, a["n"])

    def _narrow(self, w: Writer, number: str) -> str:
        """An i64 in as many bits as a key has."""
        return number if self.key == "i64" else w(f"trunc i64 {number} to i32")

    def _digit(self, w: Writer, a: Arguments, key: str) -> str:
        k = self.key
        shift, mask = (self._narrow(w, a[x]) for x in ("shift", "mask"))
        digit = w(f"lshr {k} {key}, {shift}")
        digit = w(f"sub {k} {digit}, {a['base']}") if "base" in a else w(f"and {k} {digit}, {mask}")
        return digit if k == "i64" else w(f"zext i32 {digit} to i64")

    def _read(self, w: Writer, source: str, i: str) -> str:
        """The key of a number."""
        return self.keys.key(w, w(f"load {self.key}, ptr {w.element(source, self.key, i)}"))

    def _key(self, w: Writer, source: str, i: str, first: bool) -> tuple[str, str]:
        """The key of an element, and its position as an i64."""
        if first:
            return self._read(w, source, i), i
        place = w.element(source, self.element, i)
        if not self.packed:
            position = w.element(place, "i64", "1")
            return w(f"load i64, ptr {place}"), w(f"load i64, ptr {position}")
        pair = w(f"load i64, ptr {place}")
        return w(f"trunc i64 {w(f'lshr i64 {pair}, 32')} to i32"), w(f"and i64 {pair}, 4294967295")

    def _put(self, w: Writer, target: str, i: str, key: str, position: str, last: bool) -> None:
        if last:
            w.do(f"store i32 {w(f'trunc i64 {position} to i32')}, ptr {w.element(target, 'i32', i)}")
            return
        place = w.element(target, self.element, i)
        if self.packed:
            upper = w(f"shl i64 {w(f'zext i32 {key} to i64')}, 32")
            w.do(f"store i64 {w(f'or i64 {upper}, {position}')}, ptr {place}")
            return
        w.do(f"store i64 {key}, ptr {place}")
        w.do(f"store i64 {position}, ptr {w.element(place, 'i64', '1')}")

    def _way(self, w: Writer, rows: tuple[str, str], way: tuple[bool, bool]) -> tuple[Read, Put]:
        """How a pass reads and writes, that is the first, the last, both or neither."""

        def read(i: str) -> tuple[str, str]:
            return self._key(w, rows[0], i, way[0])

        def put(i: str, key: str, position: str) -> None:
            self._put(w, rows[1], i, key, position, way[1])

        return read, put

    def _row(self, w: Writer, a: Arguments, name: str, row: str, type_: str) -> str:
        """Where a row of the source or the target begins."""
        return w.element(a[name], type_, w(f"mul i64 {row}, {a['n']}"))

    def _rows(self, w: Writer, a: Arguments, row: str, first: bool, last: bool) -> tuple[str, str]:
        source = self._row(w, a, "source", row, self.key if first else self.element)
        return source, self._row(w, a, "target", row, self.result if last else self.element)

    def _counters(self, w: Writer, a: Arguments, unit: str) -> str:
        return w.element(a["room"], "i32", w(f"mul i64 {unit}, {COUNTERS}"))

    def _chunk(self, w: Writer, a: Arguments, unit: str) -> tuple[str, str, str]:
        """A unit's row, and its elements from start to stop."""
        row, chunk = (w(f"{op} i64 {unit}, {a['chunks']}") for op in ("udiv", "urem"))
        start = w(f"mul i64 {chunk}, {a['length']}")
        stop = w.intrinsic(
            "llvm.smin.i64", "i64", ("i64", w(f"add i64 {start}, {a['length']}")), ("i64", a["n"])
        )
        return row, start, stop

    def _counted(self, w: Writer, a: Arguments, read: Read, span: tuple[str, str], at: str) -> None:
        """Counters of a chunk, from nothing."""

        def clear(d: str, _: list[str]) -> list[str]:
            w.do(f"store i32 0, ptr {w.element(at, 'i32', d)}")
            return []

        def more(i: str, _: list[str]) -> list[str]:
            counter = w.element(at, "i32", self._digit(w, a, read(i)[0]))
            count = w(f"load i32, ptr {counter}")
            w.do(f"store i32 {w(f'add i32 {count}, 1')}, ptr {counter}")
            return []

        w.loop("0", w(f"add i64 {a['mask']}, 1"), "1", [], clear)
        w.loop(*span, "1", [], more)

    def _summed(self, w: Writer, a: Arguments, at: str) -> None:
        """Counters become places."""

        def digit(d: str, before: list[str]) -> list[str]:
            counter = w.element(at, "i32", d)
            count = w(f"load i32, ptr {counter}")
            w.do(f"store i32 {before[0]}, ptr {counter}")
            return [w(f"add i32 {before[0]}, {count}")]

        w.loop("0", w(f"add i64 {a['mask']}, 1"), "1", [("i32", "0")], digit)

    def _moved(self, w: Writer, a: Arguments, read: Read, put: Put, span: tuple[str, str], at: str) -> None:
        """Elements of a chunk where its counters say, which count on."""

        def move(i: str, _: list[str]) -> list[str]:
            key, position = read(i)
            counter = w.element(at, "i32", self._digit(w, a, key))
            place = w(f"load i32, ptr {counter}")
            w.do(f"store i32 {w(f'add i32 {place}, 1')}, ptr {counter}")
            put(w(f"zext i32 {place} to i64"), key, position)
            return []

        w.loop(*span, "1", [], move)

    def count(self, w: Writer, a: Arguments, unit: str, first: bool) -> None:
        row, *span = self._chunk(w, a, unit)
        read, _ = self._way(w, self._rows(w, a, row, first, False), (first, False))
        self._counted(w, a, read, (span[0], span[1]), self._counters(w, a, unit))

    def scan(self, w: Writer, a: Arguments, row: str) -> None:
        """Counters of a row's chunks become places: by digits, then by chunks."""
        base = self._counters(w, a, w(f"mul i64 {row}, {a['chunks']}"))

        def digit(d: str, before: list[str]) -> list[str]:
            def chunk(c: str, sums: list[str]) -> list[str]:
                counter = w.element(base, "i32", w(f"add i64 {w(f'mul i64 {c}, {COUNTERS}')}, {d}"))
                count = w(f"load i32, ptr {counter}")
                w.do(f"store i32 {sums[0]}, ptr {counter}")
                return [w(f"add i32 {sums[0]}, {count}")]

            return w.loop("0", a["chunks"], "1", [("i32", before[0])], chunk)

        w.loop("0", w(f"add i64 {a['mask']}, 1"), "1", [("i32", "0")], digit)

    def zeros(self, w: Writer, a: Arguments, row: str) -> None:
        """Two keys, neighbours, of one number: where a row of the result has both, they get the source's order."""
        source, target = self._rows(w, a, row, True, True)
        k = self.key
        zero, other = (self._narrow(w, a[x]) for x in ("shift", "mask"))

        def before(bound: str, strict: str, turns: str) -> str:
            """How many keys of the result come before, by halves."""

            def halve(_: str, now: list[str]) -> list[str]:
                low, size = now
                half = w(f"lshr i64 {size}, 1")
                place = w.intrinsic(
                    "llvm.umin.i64", "i64", ("i64", w(f"add i64 {low}, {half}")), ("i64", last)
                )
                less = w(f"icmp {strict} {k} {self._read(w, target, place)}, {bound}")
                right = w(f"and i1 {less}, {w(f'icmp ne i64 {size}, 0')}")
                rest = w(f"sub i64 {w(f'sub i64 {size}, {half}')}, 1")
                return [
                    w(f"select i1 {right}, i64 {w(f'add i64 {place}, 1')}, i64 {low}"),
                    w(f"select i1 {right}, i64 {rest}, i64 {half}"),
                ]

            return w.loop("0", turns, "1", [("i64", "0"), ("i64", a["n"])], halve)[0]

        last = w(f"sub i64 {a['n']}, 1")
        bits = w.intrinsic("llvm.ctlz.i64", "i64", ("i64", a["n"]), ("i1", "false"))
        turns = w(f"sub i64 64, {bits}")
        start = before(zero, "ult", turns)
        place = w.intrinsic("llvm.umin.i64", "i64", ("i64", start), ("i64", last))
        has = w(f"icmp eq {k} {self._read(w, target, place)}, {zero}")
        turns = w(f"select i1 {has}, i64 {turns}, i64 0")  # few rows have such zeros
        middle, end = before(zero, "ule", turns), before(other, "ule", turns)
        stop = w(f"select i1 {w(f'icmp ult i64 {middle}, {end}')}, i64 {a['n']}, i64 0")

        def put(i: str, now: list[str]) -> list[str]:
            number = w(f"load {k}, ptr {w.element(source, k, i)}")
            key = self.keys.key(w, number)
            is_zero = w(f"or i1 {w(f'icmp eq {k} {key}, {zero}')}, {w(f'icmp eq {k} {key}, {other}')}")
            # What is no zero leaves what is there.
            place = w.intrinsic("llvm.umin.i64", "i64", ("i64", now[0]), ("i64", w(f"sub i64 {end}, 1")))
            address = w.element(target, k, place)
            kept = w(f"load {k}, ptr {address}")
            w.do(f"store {k} {w(f'select i1 {is_zero}, {k} {number}, {k} {kept}')}, ptr {address}")
            return [w(f"add i64 {now[0]}, {w(f'zext i1 {is_zero} to i64')}")]

        w.loop("0", stop, "1", [("i64", start)], put)

    def move(self, w: Writer, a: Arguments, unit: str, first: bool, last: bool) -> None:
        row, *span = self._chunk(w, a, unit)
        way = self._way(w, self._rows(w, a, row, first, last), (first, last))
        self._moved(w, a, *way, (span[0], span[1]), self._counters(w, a, unit))

    def whole(self, w: Writer, a: Arguments, row: str, first: bool, last: bool) -> None:
        counters = w.alloca("i32", MOST_DIGITS)
        read, put = self._way(w, self._rows(w, a, row, first, last), (first, last))
        self._counted(w, a, read, ("0", a["n"]), counters)
        self._summed(w, a, counters)
        self._moved(w, a, read, put, ("0", a["n"]), counters)
