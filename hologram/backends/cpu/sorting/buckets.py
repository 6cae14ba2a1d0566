"""Code that puts rows of keys in order: dealt into buckets by their highest bits, and again, until networks take them.

A sort by digits, the least significant first, goes through the whole row for each, and between two passes the row has
left the cache. Here one pass goes through it. `extent` finds the least and the greatest key of each chunk of a row; the
first digit is the highest bits in which those of the row differ, so that it tells keys apart whatever their range.
`tally`, `scan` and `deal` are a pass by that digit (radix.py). `finish` orders one bucket, in a core's cache: it deals
it in the same way, and leaves what fits registers to a network (network.py).

Buckets are units of their own, which threads share as they come. `alone` is all of it for a row, by one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.sorting import network
from hologram.backends.cpu.sorting.keys import Keys
from hologram.backends.cpu.sorting.radix import (
    COUNTERS,
    MOST_DIGITS,
    POINTERS,
    WORDS,
    Arguments,
    Code,
    Put,
    Read,
)
from hologram.foundation.dtypes import u32, u64

STEPS = ("extent", "tally", "scan", "deal", "finish")
FUNCTIONS = (*STEPS, "alone", "zeros")
MOST_BITS = (
    10  # of the first digit: 11 write to too many places at once, and 9 leave buckets of floats too large
)
LAST_BITS, LONG = 11, 1 << 15  # of the first digit of rows so long, where it tells all keys apart
_SECOND_BITS = MOST_DIGITS.bit_length() - 1  # of the second at most: its counters are one thread's
_LAST_DIGITS = "255"  # mask of a digit after which nothing is left
_OWN_BYTES = 1 << 17  # of a thread's own, which the next bucket finds in L1
_SIZES = network.SIZES[-3:]
_LEAST, _GREATEST = (MOST_DIGITS // 2 + k for k in (0, 1))  # words behind a chunk's counters
_INTERNAL = "nounwind noinline"


def text(keys: Keys, vector_bits: int) -> str:
    """IR for such keys."""
    code = _Buckets(keys, vector_bits)
    functions = [
        *(code.network_of(size) for size in _SIZES),
        code.internal("short", ("ptr source", "ptr target", "i64 n"), code.short),
        code.internal("dealt", ("ptr source", "ptr other", "ptr target", "i64 n", "i64 first"), code.dealt),
    ]
    return code.module([*functions, *(code.unit(name, getattr(code, name)) for name in FUNCTIONS)])


def bucket_bits(keys: Keys, vector_bits: int) -> int:
    """The logarithm of how many keys a bucket has if all goes well."""
    return (_SIZES[-1] * network.lanes(keys.type, vector_bits)).bit_length() - 2


class _Buckets(Code):
    """Writes the functions."""

    def __init__(self, keys: Keys, vector_bits: int) -> None:
        super().__init__(keys, False)
        self.vector_bits = vector_bits
        self.most = _SIZES[-1] * network.lanes(self.key, vector_bits)  # keys that a network takes

    @property
    def _dealt_keys(self) -> Keys:
        """Keys in place of numbers, as buckets hold them."""
        return Keys(u64 if self.key == "i64" else u32)

    def internal(
        self, name: str, parameters: Sequence[str], body: Callable[[Writer, Arguments], None]
    ) -> str:
        """A function that the others call."""
        w = Writer(self.metadata)
        named = [parameter.split() for parameter in parameters]
        body(w, {name: f"%{name}" for _, name in named})
        w.do("ret void")
        self.declarations |= w.declarations
        written = ", ".join(f"{type_} %{name}" for type_, name in named)
        return w.function(f"internal void @{name}({written})", _INTERNAL)

    def network_of(self, size: int) -> str:
        def body(w: Writer, a: Arguments) -> None:
            places = a["source"], a["target"], a["n"]
            network.row(w, self._dealt_keys, False, size, *places, self.vector_bits)

        return self.internal(f"network_{size}", ("ptr source", "ptr target", "i64 n"), body)

    def short(self, w: Writer, a: Arguments) -> None:
        """So few keys that they fit registers."""
        end = w.label("end")
        for size in _SIZES:
            fits, more = w.label("fits"), w.label("more")
            most = size * network.lanes(self.key, self.vector_bits)
            w.branch(w(f"icmp sle i64 {a['n']}, {most}"), fits, more)
            w.place(fits)
            w.do(f"call void @network_{size}(ptr {a['source']}, ptr {a['target']}, i64 {a['n']})")
            w.jump(end)
            w.place(more)
        w.jump(end)
        w.place(end)

    def _pass(self, w: Writer, digit: Arguments, rows: tuple[str, str], n: str, at: str) -> None:
        read, put = self._from(w, rows[0], self._dealt_keys), self._into(w, rows[1])
        self._counted(w, digit, read, ("0", n), at)
        self._summed(w, digit, at)
        self._moved(w, digit, read, put, ("0", n), at)

    def _from(self, w: Writer, source: str, keys: Keys) -> Read:
        def read(i: str) -> tuple[str, str]:
            return keys.key(w, w(f"load {self.key}, ptr {w.element(source, self.key, i)}")), ""

        return read

    def _into(self, w: Writer, target: str) -> Put:
        def put(i: str, key: str, _: str) -> None:
            w.do(f"store {self.key} {key}, ptr {w.element(target, self.key, i)}")

        return put

    def _bounds(self, w: Writer, read: Read, start: str, stop: str) -> list[str]:
        """The least key and the greatest."""

        def more(i: str, now: list[str]) -> list[str]:
            return self._widened(w, now, [read(i)[0]] * 2)

        return w.loop(start, stop, "1", self._nothing, more)

    @property
    def _nothing(self) -> list[tuple[str, str]]:
        """The bounds of no keys."""
        return [(self.key, "-1"), (self.key, "0")]

    def _widened(self, w: Writer, bounds: Sequence[str], others: Sequence[str]) -> list[str]:
        names = ("llvm.umin", "llvm.umax")
        return [
            w.intrinsic(f"{name}.{self.key}", self.key, (self.key, x), (self.key, y))
            for name, x, y in zip(names, bounds, others, strict=True)
        ]

    def _highest(self, w: Writer, bounds: Sequence[str], mask: str) -> Arguments:
        """The digit of the highest bits in which keys differ: its shift, the least key's, and the mask.

        Where the keys lie across one more digit than there are, the shift is one more.
        """
        k = self.key
        least, greatest = bounds
        wide = w(f"sub {k} {greatest}, {least}")
        wide = wide if k == "i64" else w(f"zext i32 {wide} to i64")
        zeros = [w.intrinsic("llvm.ctlz.i64", "i64", ("i64", x), ("i1", "false")) for x in (wide, mask)]
        spare = w.i64("sub", zeros[1], zeros[0])
        shift = w.intrinsic("llvm.smax.i64", "i64", ("i64", spare), ("i64", "0"))
        ends = [w(f"lshr {k} {key}, {self._narrow(w, shift)}") for key in (greatest, least)]
        across = w(f"icmp ugt {k} {w(f'sub {k} {ends[0]}, {ends[1]}')}, {self._narrow(w, mask)}")
        shift = w.i64("add", shift, w(f"zext i1 {across} to i64"))
        return {"shift": shift, "base": w(f"lshr {k} {least}, {self._narrow(w, shift)}"), "mask": mask}

    def _finest(self, w: Writer, bounds: Sequence[str], usual: str, most: str, first: str) -> Arguments:
        """A digit with the `usual` mask, or with `most` where that tells apart all that differ from bit `first` on."""
        digits = [self._highest(w, bounds, mask) for mask in (most, usual)]
        is_last = w(f"icmp sle i64 {digits[0]['shift']}, {first}")
        return {
            name: w(f"select i1 {is_last}, {type_} {digits[0][name]}, {type_} {digits[1][name]}")
            for name, type_ in (("shift", "i64"), ("base", self.key), ("mask", "i64"))
        }

    def _first_digit(self, w: Writer, a: Arguments, row: str) -> Arguments:
        first = w.i64("mul", row, a["chunks"])

        def chunk(c: str, now: list[str]) -> list[str]:
            counters = self._counters(w, a, w.i64("add", first, c))
            words = [w.element(counters, "i64", str(word)) for word in (_LEAST, _GREATEST)]
            return self._widened(w, now, [w(f"load {self.key}, ptr {word}") for word in words])

        bounds = w.loop("0", a["chunks"], "1", self._nothing, chunk)
        return self._finest(w, bounds, a["usual"], a["mask"], a["shift"])

    def _numbers(self, w: Writer, a: Arguments, row: str) -> Read:
        """How a row's numbers are read as keys."""
        return self._from(w, self._row(w, a, "source", row, self.key), self.keys)

    def extent(self, w: Writer, a: Arguments, unit: str) -> None:
        row, start, stop = self._chunk(w, a, unit)
        bounds = self._bounds(w, self._numbers(w, a, row), start, stop)
        counters = self._counters(w, a, unit)
        for word, bound in zip((_LEAST, _GREATEST), bounds, strict=True):
            w.do(f"store {self.key} {bound}, ptr {w.element(counters, 'i64', str(word))}")

    def tally(self, w: Writer, a: Arguments, unit: str) -> None:
        row, start, stop = self._chunk(w, a, unit)
        read = self._numbers(w, a, row)
        digit = {**self._first_digit(w, a, row), "mask": a["mask"]}  # `scan` reads all counters
        self._counted(w, digit, read, (start, stop), self._counters(w, a, unit))

    def deal(self, w: Writer, a: Arguments, unit: str) -> None:
        row, start, stop = self._chunk(w, a, unit)
        digit = self._first_digit(w, a, row)
        is_last = w(f"icmp sle i64 {digit['shift']}, {a['shift']}")
        places = [self._row(w, a, name, row, self.key) for name in ("target", "spare")]
        into = w(f"select i1 {is_last}, ptr {places[0]}, ptr {places[1]}")
        read, put = self._numbers(w, a, row), self._into(w, into)
        self._moved(w, digit, read, put, (start, stop), self._counters(w, a, unit))

    def finish(self, w: Writer, a: Arguments, unit: str) -> None:
        """The last chunk's counters are where buckets end by now."""
        digits = w.i64("add", a["mask"], 1)
        row, d = w.i64("udiv", unit, digits), w.i64("urem", unit, digits)
        following = w.i64("mul", w.i64("add", row, 1), a["chunks"])
        start, size = self._bucket(w, self._counters(w, a, w.i64("sub", following, 1)), d)
        some, none = w.label("some"), w.label("none")
        w.branch(w(f"icmp eq i64 {size}, 0"), none, some)
        w.place(some)
        spare, other, target = (
            w.element(self._row(w, a, name, row, self.key), self.key, start)
            for name in ("spare", "other", "target")
        )
        own_keys = _OWN_BYTES * 8 // int(self.key[1:])
        own, fits = w.alloca(self.key, own_keys), w(f"icmp sle i64 {size}, {own_keys}")
        other = w(f"select i1 {fits}, ptr {own}, ptr {other}")
        # What the first digit told apart is in the target.
        left = w(f"icmp sgt i64 {self._first_digit(w, a, row)['shift']}, {a['shift']}")
        order, end = w.label("order"), w.label("end")
        w.branch(left, order, end)
        w.place(order)
        self._ordered(w, (spare, other, target), size, a["shift"])
        w.jump(end)
        w.place(end)

        def number(i: str, _: list[str]) -> list[str]:
            place = w.element(target, self.key, i)
            w.do(f"store {self.key} {self.keys.value(w, w(f'load {self.key}, ptr {place}'))}, ptr {place}")
            return []

        if not self.keys.plain:
            w.loop("0", size, "1", [], number)
        w.jump(none)
        w.place(none)

    def _bucket(self, w: Writer, counters: str, d: str) -> tuple[str, str]:
        """Where a bucket starts, and how many keys it has."""
        before = w.intrinsic("llvm.smax.i64", "i64", ("i64", w.i64("sub", d, 1)), ("i64", "0"))
        ends = [w(f"load i32, ptr {w.element(counters, 'i32', x)}") for x in (before, d)]
        start = w(f"select i1 {w(f'icmp eq i64 {d}, 0')}, i32 0, i32 {ends[0]}")
        size = w(f"zext i32 {w(f'sub i32 {ends[1]}, {start}')} to i64")
        return w(f"zext i32 {start} to i64"), size

    def dealt(self, w: Writer, a: Arguments) -> None:
        """Keys that differ from bit `first` on, dealt from the source to the other place, and from there on in turn."""
        size, places = a["n"], (a["other"], a["source"], a["target"])
        same, differ, end = (w.label(name) for name in ("same", "differ", "end"))
        bounds = self._bounds(w, self._from(w, a["source"], self._dealt_keys), "0", size)
        w.branch(w(f"icmp eq {self.key} {bounds[0]}, {bounds[1]}"), same, differ)
        w.place(same)
        w.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        nbytes = w.i64("mul", size, int(self.key[1:]) // 8)
        w.do(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {a['target']}, ptr {a['source']}, i64 {nbytes}, i1 false)"
        )
        w.jump(end)
        w.place(differ)
        zeros = w.intrinsic("llvm.ctlz.i64", "i64", ("i64", size), ("i1", "false"))
        wanted = w.i64("sub", str(64 - self.most.bit_length() + 2), zeros)
        bits = w.intrinsic("llvm.smin.i64", "i64", ("i64", wanted), ("i64", str(_SECOND_BITS)))
        digit = self._finest(w, bounds, w.i64("sub", w.i64("shl", "1", bits), 1), _LAST_DIGITS, a["first"])
        is_last = w(f"icmp sle i64 {digit['shift']}, {a['first']}")
        into = w(f"select i1 {is_last}, ptr {a['target']}, ptr {a['other']}")
        at = w.alloca("i32", MOST_DIGITS)
        self._pass(w, digit, (a["source"], into), size, at)

        def inner(d: str, _: list[str]) -> list[str]:
            start, n = self._bucket(w, at, d)
            self._ordered(w, [w.element(place, self.key, start) for place in places], n, a["first"])
            return []

        count = w.i64("add", digit["mask"], 1)
        w.loop("0", w(f"select i1 {is_last}, i64 0, i64 {count}"), "1", [], inner)
        w.jump(end)
        w.place(end)

    def _ordered(self, w: Writer, places: Sequence[str], n: str, first: str) -> None:
        """Keys of a source, by way of another place, in order in the target."""
        source, other, target = places
        few, many, end = (w.label(name) for name in ("few", "many", "end"))
        w.branch(w(f"icmp sle i64 {n}, {self.most}"), few, many)
        w.place(few)
        w.do(f"call void @short(ptr {source}, ptr {target}, i64 {n})")
        w.jump(end)
        w.place(many)
        w.do(f"call void @dealt(ptr {source}, ptr {other}, ptr {target}, i64 {n}, i64 {first})")
        w.jump(end)
        w.place(end)

    def alone(self, w: Writer, a: Arguments, row: str) -> None:
        """The steps for a row as if it were the only one, with counters of this thread."""
        own = w.alloca("i64", len(WORDS))
        room = w.alloca("i32", COUNTERS)
        for k, word in enumerate(WORDS):
            if k < POINTERS:
                place = room if word == "room" else self._row(w, a, word, row, self.key)
                w.do(f"store ptr {place}, ptr {w.element(own, 'i64', str(k))}")
            else:
                w.do(f"store i64 {a[word]}, ptr {w.element(own, 'i64', str(k))}")
        for name in STEPS:
            units = w.i64("add", a["mask"], 1) if name == "finish" else "1"
            w.do(f"call void @{name}(ptr {own}, i64 0, i64 {units})")
