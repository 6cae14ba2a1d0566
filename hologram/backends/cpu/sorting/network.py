"""Code that puts short rows in order in registers: a network of comparators over vectors, without a branch.

A row lies in vectors with its elements in any order. Batcher's network (1968) orders every column, the lanes of one
number, so that each lane is a run. Runs are merged two at a time, bitonically: an element meets its mirror image in the
other run, then neighbours at half the distance, which are lanes of one vector first, and vectors last. At the end the
vectors are turned, so that the lanes' runs follow one another.

Where positions are wanted, an element is a key of 32 bits above its position: no two are equal, so the order is stable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.sorting.keys import Keys

USUAL_BITS = 256  # of a vector; LLVM splits them where registers are narrower
SIZES = (4, 8, 16, 32)  # vectors of a row; 64 take 2.5 s to compile, and as long as digits to run


def lanes(element: str, vector_bits: int = USUAL_BITS) -> int:
    """Elements of a vector."""
    return vector_bits // int(element.removeprefix("i"))


def size_for(n: int, element: str) -> int:
    """The least of SIZES whose vectors hold n elements, i32 or i64; 0 where there is none."""
    return next((size for size in SIZES if size * lanes(element) >= n), 0)


def _batcher(count: int) -> Iterator[tuple[int, int]]:
    """Comparators of the odd-even merge sort of `count` elements, a power of two."""
    run = 1
    while run < count:
        apart = run
        while apart:
            for start in range(apart % run, count - apart, 2 * apart):
                for i in range(start, min(start + apart, count - apart)):
                    if i // (2 * run) == (i + apart) // (2 * run):
                        yield i, i + apart
            apart //= 2
        run *= 2


class Network:
    """Vectors of signed elements, and the comparators on them."""

    def __init__(self, w: Writer, element: str, vector_bits: int) -> None:
        self.w = w
        self.element = element
        self.lanes = lanes(element, vector_bits)
        self.type = self.of(element)

    def of(self, type_: str) -> str:
        """A vector of that type."""
        return f"<{self.lanes} x {type_}>"

    def filled(self, type_: str, numbers: Sequence[int | str]) -> str:
        """A constant."""
        return f"<{', '.join(f'{type_} {x}' for x in numbers)}>"

    def splat(self, type_: str, value: str) -> str:
        vector = self.of(type_)
        first = self.w(f"insertelement {vector} poison, {type_} {value}, i64 0")
        zeros = self.filled("i32", [0] * self.lanes)
        return self.w(f"shufflevector {vector} {first}, {vector} poison, {self.of('i32')} {zeros}")

    def shuffled(self, x: str, y: str, lanes: Sequence[int]) -> str:
        mask = self.filled("i32", lanes)
        return self.w(f"shufflevector {self.type} {x}, {self.type} {y}, {self.of('i32')} {mask}")

    def ordered(self, x: str, y: str) -> tuple[str, str]:
        """The lesser and the greater of every lane."""
        less = self.w(f"icmp slt {self.type} {x}, {y}")
        picked = f"{self.of('i1')} {less}, {self.type}"
        return (
            self.w(f"select {picked} {x}, {self.type} {y}"),
            self.w(f"select {picked} {y}, {self.type} {x}"),
        )

    def sorted(self, vectors: list[str]) -> list[str]:
        """All elements in order, the vectors one after the other."""
        for i, j in _batcher(len(vectors)):
            vectors[i], vectors[j] = self.ordered(vectors[i], vectors[j])
        run = 1  # lanes of a run
        while run < self.lanes:
            self._mirrored(vectors, run)
            apart = run // 2
            while apart:
                vectors = [self._neighbours(v, apart) for v in vectors]
                apart //= 2
            apart = len(vectors) // 2
            while apart:
                for i in range(len(vectors)):
                    if not i & apart:
                        vectors[i], vectors[i + apart] = self.ordered(vectors[i], vectors[i + apart])
                apart //= 2
            run *= 2
        return self._turned(vectors)

    def _second(self, run: int) -> list[int]:
        """For `shuffled` of two vectors: the first's lanes where the bit `run` is unset, else the second's."""
        return [lane + (self.lanes if lane & run else 0) for lane in range(self.lanes)]

    def _mirrored(self, vectors: list[str], run: int) -> None:
        turned = [lane ^ (2 * run - 1) for lane in range(self.lanes)]
        for i in range(len(vectors) // 2):
            j = len(vectors) - 1 - i
            less, more = self.ordered(vectors[i], self.shuffled(vectors[j], "poison", turned))
            vectors[i] = self.shuffled(less, more, self._second(run))
            vectors[j] = self.shuffled(self.shuffled(more, less, self._second(run)), "poison", turned)

    def _neighbours(self, vector: str, apart: int) -> str:
        other = self.shuffled(vector, "poison", [lane ^ apart for lane in range(self.lanes)])
        less, more = self.ordered(vector, other)
        return self.shuffled(less, more, self._second(apart))

    def _turned(self, vectors: list[str]) -> list[str]:
        """Element i of lane k, at i * lanes + k, goes to k * len(vectors) + i: the number's bits are rotated."""
        half = len(vectors) // 2
        if len(vectors) < self.lanes:  # to the left: a vector's number has fewer bits than a lane's
            low = [k // 2 + (self.lanes if k % 2 else 0) for k in range(self.lanes)]
            high = [k + self.lanes // 2 for k in low]
            for _ in range(half.bit_length()):
                pairs = [(vectors[k], vectors[k + half]) for k in range(half)]
                vectors = [self.shuffled(*pair, mask) for pair in pairs for mask in (low, high)]
            return vectors
        for _ in range(self.lanes.bit_length() - 1):
            pairs = [(vectors[2 * k], vectors[2 * k + 1]) for k in range(half)]
            ways = [[2 * k + odd for k in range(self.lanes)] for odd in (0, 1)]
            vectors = [self.shuffled(*pair, mask) for mask in ways for pair in pairs]
        return vectors


def row(
    w: Writer,
    by: Keys,
    positions: bool,
    size: int,
    source: str,
    target: str,
    n: str,
    vector_bits: int = USUAL_BITS,
) -> None:
    """Puts a row of n numbers in order of their keys, or their positions; `size` vectors hold it.

    Elements behind the row's are as large as one can be, and do not come before any.
    """
    key = by.type
    element = "i64" if positions else key
    v = Network(w, element, vector_bits)
    top = -(1 << (int(element[1:]) - 1))
    flip = v.filled(element, [top] * v.lanes)
    result = "i32" if positions else key
    room = w.alloca(result, size * v.lanes)
    count = v.splat("i64", n)
    vectors = []
    for k in range(size):
        numbers = range(k * v.lanes, (k + 1) * v.lanes)
        inside = w(f"icmp slt {v.of('i64')} {v.filled('i64', numbers)}, {count}")
        keys = w.intrinsic(
            f"llvm.masked.load.v{v.lanes}{key}.p0", v.of(key), ("ptr", w.element(source, key, str(k * v.lanes))),
            ("i32 immarg", "1"), (v.of("i1"), inside), (v.of(key), v.filled(key, [0] * v.lanes)),
        )  # fmt: skip
        behind = v.filled(key, [-1] * v.lanes)
        numbered = f"{v.of(key)} {by.key(w, keys, v.lanes)}, {v.of(key)} {behind}"
        keys = w(f"select {v.of('i1')} {inside}, {numbered}")
        if positions:
            above = w(
                f"shl {v.type} {w(f'zext {v.of(key)} {keys} to {v.type}')}, {v.filled(element, [32] * v.lanes)}"
            )
            keys = w(f"or {v.type} {above}, {v.filled(element, numbers)}")
        vectors.append(w(f"xor {v.type} {keys}, {flip}"))
    for k, vector in enumerate(v.sorted(vectors)):
        flipped = w(f"xor {v.type} {vector}, {flip}")
        if positions:
            flipped = w(f"trunc {v.type} {flipped} to {v.of(result)}")
        else:
            flipped = by.value(w, flipped, v.lanes)
        w.do(f"store {v.of(result)} {flipped}, ptr {w.element(room, result, str(k * v.lanes))}")
    nbytes = w(f"mul i64 {n}, {int(result[1:]) // 8}")
    w.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    w.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {room}, i64 {nbytes}, i1 false)")
