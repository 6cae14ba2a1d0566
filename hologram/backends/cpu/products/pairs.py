"""Products of bf16 by an instruction that multiplies pairs along k and adds both to f32 (AVX512_BF16's vdpbf16ps).

Blocks and panels are those of panels.py, but that each of their numbers of 32 bits is two neighbours along k as they
are in memory: nothing is widened, and a block is twice as deep in the same bytes. An odd last element has a zero beside
it. The instruction takes denormal numbers for zeros, operands, sums and results alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.products.packing import Packing
from hologram.backends.cpu.products.panels import DEPTH, Products
from hologram.foundation.dtypes import DType, bf16, i16, i32

_MULTIPLIED = "llvm.x86.avx512bf16.dpbf16ps.512"
_VECTOR_BITS = 512
_WIDE = "<32 x bfloat>"
_COLUMNS = 16  # of two rows of b that are interleaved at once


class _Mover(Packing):
    """Writes code that moves matrices of integers, which are parts of an array of bf16."""

    def __init__(self, dtype: DType, metadata: list[str]) -> None:
        super().__init__(dtype, dtype, _VECTOR_BITS)
        self.metadata, self._align = metadata, bf16.itemsize


class PairedProducts(Products):
    """Writes the functions of products of bf16, for processors that have the instruction."""

    together = 2
    micro_rows = 12
    block_rows = 256
    dot_rows = (4, 2, 1)
    goes_by_ways = False
    dot_rounds = 1  # four columns at a time are as quick

    def convert(self, name: str = "convert") -> str:
        """What packs: numbers moved one by one, and two by two, and pairs made of what lies in two rows."""
        texts = []
        for dtype in (i16, i32):
            mover = _Mover(dtype, self.metadata)
            texts.append(mover.convert(f"move_{dtype}"))
            self.declarations |= mover.declarations
        return "\n".join([*texts, self._interleave()])

    def _fused(self, w: Writer, type_: str, x: str, y: str, z: str) -> str:
        if type_ == self._number:  # what is left over of a row
            return super()._fused(w, type_, x, y, z)
        pairs = [(_WIDE, w(f"bitcast {type_} {v} to {_WIDE}")) for v in (x, y)]
        return w.intrinsic(_MULTIPLIED, type_, (type_, z), *pairs)

    def _line(self, w: Writer, pointer: str) -> str:
        return w(f"load {self._vector}, ptr {pointer}, align {self._dtype.itemsize}")

    def _lines(self, w: Writer, count: str) -> str:
        return w(f"lshr i64 {w(f'add i64 {count}, 1')}, 1")

    def _pack_rows(self, w: Writer, source: tuple[str, str, str], sizes: tuple[str, str], to: str) -> None:
        (begin, row, column), (rows, count) = source, sizes
        told = f"ptr {begin}, i64 {row}, i64 {column}, i64 {rows}, i64 {count}, ptr {to}, i64 {4 * DEPTH}"
        w.do(f"call void @move_i16({told})")
        odd, done = w.label("odd"), w.label("even")
        w.branch(w(f"trunc i64 {count} to i1"), odd, done)
        w.place(odd)

        def clear(r: str, _: list[str]) -> Sequence[str]:
            line = w.element(to, "i8", w(f"mul i64 {r}, {4 * DEPTH}"))
            w.do(f"store i16 0, ptr {w.element(line, 'i16', count)}, align 2")
            return ()

        w.loop("0", rows, "1", (), clear)
        w.jump(done)
        w.place(done)

    def _pack_columns(self, w: Writer, source: tuple[str, str, str], sizes: tuple[str, str], to: str) -> None:
        (begin, row, column), (count, columns) = source, sizes
        w.do(
            f"call void @interleave(ptr {begin}, i64 {row}, i64 {column}, i64 {count}, i64 {columns}, ptr {to}, "
            f"i64 {8 * self._lanes})"
        )

    def _interleave(self) -> str:
        """A matrix as pairs of what its rows 2 r and 2 r + 1 have, in lines `%to.row` bytes apart."""

        def body(w: Writer) -> None:
            along, apart, last, odd, done = (w.label(x) for x in ("along", "apart", "last", "odd", "end"))
            lines = w("lshr i64 %rows, 1")
            w.branch(w("icmp eq i64 %row, 2"), along, apart)
            w.place(along)
            told = f"ptr %from, i64 4, i64 %column, i64 {lines}, i64 %columns, ptr %to, i64 %to.row"
            w.do(f"call void @move_i32({told})")
            w.jump(last)
            w.place(apart)
            whole = w(f"and i64 %columns, {-_COLUMNS}")
            vectors = w(f"select i1 {w('icmp eq i64 %column, 2')}, i64 {whole}, i64 0")

            def line(r: str, _: list[str]) -> Sequence[str]:
                self._two_rows(w, r, vectors)
                return ()

            w.loop("0", lines, "1", (), line)
            w.jump(last)
            w.place(last)
            w.branch(w("trunc i64 %rows to i1"), odd, done)
            w.place(odd)
            source = w.element("%from", "i8", w(f"mul i64 {w('sub i64 %rows, 1')}, %row"))
            target = w.element("%to", "i8", w(f"mul i64 {lines}, %to.row"))

            def alone(c: str, _: list[str]) -> Sequence[str]:
                value = w(f"load i16, ptr {w.element(source, 'i8', w(f'mul i64 {c}, %column'))}, align 2")
                w.do(f"store i32 {w(f'zext i16 {value} to i32')}, ptr {w.element(target, 'i32', c)}, align 4")
                return ()

            w.loop("0", "%columns", "1", (), alone)
            w.jump(done)
            w.place(done)

        arguments = "ptr %from, i64 %row, i64 %column, i64 %rows, i64 %columns, ptr noalias %to, i64 %to.row"
        return self._function(f"internal void @interleave({arguments})", body)

    def _two_rows(self, w: Writer, line: str, vectors: str) -> None:
        """A line of pairs: so many columns by vectors, the others one by one."""
        one = w.element("%from", "i8", w(f"mul i64 {w(f'shl i64 {line}, 1')}, %row"))
        other, target = w.element(one, "i8", "%row"), w.element("%to", "i8", w(f"mul i64 {line}, %to.row"))
        mask = ", ".join(f"i32 {x // 2 + x % 2 * _COLUMNS}" for x in range(2 * _COLUMNS))
        kind = f"<{_COLUMNS} x i16>"

        def vector(c: str, _: list[str]) -> Sequence[str]:
            low, high = (w(f"load {kind}, ptr {w.element(x, 'i16', c)}, align 2") for x in (one, other))
            mixed = w(f"shufflevector {kind} {low}, {kind} {high}, <{2 * _COLUMNS} x i32> <{mask}>")
            w.do(f"store <{2 * _COLUMNS} x i16> {mixed}, ptr {w.element(target, 'i32', c)}, align 4")
            return ()

        def single(c: str, _: list[str]) -> Sequence[str]:
            step = w(f"mul i64 {c}, %column")
            low, high = (w(f"load i16, ptr {w.element(x, 'i8', step)}, align 2") for x in (one, other))
            upper = w(f"shl i32 {w(f'zext i16 {high} to i32')}, 16")
            both = w(f"or i32 {w(f'zext i16 {low} to i32')}, {upper}")
            w.do(f"store i32 {both}, ptr {w.element(target, 'i32', c)}, align 4")
            return ()

        for x in (one, other):
            self._prefetched(w, w.element(x, "i16", str(2 * self._lanes)))
        w.loop("0", vectors, str(_COLUMNS), (), vector)
        w.loop(vectors, "%columns", "1", (), single)
