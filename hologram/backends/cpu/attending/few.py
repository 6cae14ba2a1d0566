"""Code for attention of few queries to many keys, as two steps of one launch.

- `attend` has a part of the keys of one head, and all queries that share them: scores of 64 keys at a time, their
  weights by an online softmax (Milakov and Gimelshein 2018), and the weighted sum of values, which it leaves with its
  maximum and total. A part is one of what queries look at, so that parts are alike where lengths are not. Keys that
  masks hide from all queries, 64 at a time, are not read.
- `join` puts the parts of a query together (Dao et al. 2023, flash decoding).

f16 and bf16 are f32 meanwhile, and so are codes, whose scales scores and weights are multiplied by. Blocks that a table
names are gone through in turns of up to 64 keys, none of which reaches into the next block. A word of the launch for
each line of `ARGUMENTS`; strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.attending import vectors
from hologram.backends.cpu.attending.joining import Joining
from hologram.backends.cpu.attending.mixing import BLOCK, HEIGHTS
from hologram.backends.cpu.attending.vectors import (
    BITS,
    INTEGERS,
    LANES,
    LOWEST,
    WIDE,
    all_of,
    listed,
    number,
    spread,
)
from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.products.packing import Packing
from hologram.foundation.dtypes import f32
from hologram.opset.tiles.attention.few import MOST_HEAD, MOST_ROWS

_LEAST = -1.0e38  # of what a mask adds to scores
_HIDDEN = "0xFFF0000000000000"  # what hides one: -infinity


class Few(Joining):
    """Writes the functions for one kind."""

    functions = ("attend", "join")

    def text(self) -> str:
        """The module."""
        small = [f for height in HEIGHTS for f in (self._dot(height), self._mix(height))]
        functions = [*small, self._attend(), self._join()]
        metadata = [f"!{k} = {node}" for k, node in enumerate(self.metadata)]
        return "\n".join([*functions, *sorted(self.declarations), *metadata, ""])

    def _attend(self) -> str:
        """Parts begin .. end of all heads."""

        def body(w: Writer) -> None:
            word = self._words(w)
            stack = {
                name: w.alloca("float", MOST_ROWS * each)
                for name, each in (
                    *(("queries", MOST_HEAD), ("sums", MOST_HEAD), ("scores", BLOCK), ("biases", BLOCK)),
                    *(("tops", 1), ("totals", 1), ("factors", 1), ("slopes", 1)),
                )
            }
            stack |= {name: w.alloca("i64", MOST_ROWS) for name in ("low", "high", "position", "mask")}
            count = w.i64("mul", word["rows"], word["groups"])

            def item(number: str, _: list[str]) -> Sequence[str]:
                part = w.i64("srem", number, word["parts"])
                pair = w.i64("sdiv", number, word["parts"])
                at = {"batch": w.i64("sdiv", pair, word["heads"]), "head": w.i64("srem", pair, word["heads"])}
                begin, end = w.loop(
                    "0", count, "1", [("i64", word["keys"]), ("i64", "0")],
                    lambda r, span: self._opened(w, word, stack, at, r, span),
                )  # fmt: skip
                first, stop = self._part(w, word, part, begin, end)
                places = {n: self._place(w, word, n, at) for n in ("k", "v", "scales", "mask")}
                w.loop(
                    first,
                    stop,
                    str(BLOCK) if self.kind.table is None else word["turn"],
                    (),
                    lambda f, _: self._block(w, word, stack, places, count, f, stop),
                )
                w.loop("0", count, "1", (), lambda r, _: self._left(w, word, stack, pair, part, count, r))
                return ()

            w.loop("%begin", "%end", "1", (), item)

        return self._function("void @attend(ptr %arguments, i64 %begin, i64 %end)", body)

    def _opened(
        self,
        w: Writer,
        word: dict[str, str],
        stack: dict[str, str],
        at: dict[str, str],
        r: str,
        span: list[str],
    ) -> Sequence[str]:
        """A query as floats, and what it looks at; gives the span of all so far."""
        kind, row = self.kind, w.i64("srem", r, word["rows"])
        at = {**at, "group": w.i64("sdiv", r, word["rows"])}
        of_row = {**at, "row": row}
        source = self._place(w, word, "q", of_row)
        scale = spread(w, word["scale"])
        target = w.element(stack["queries"], "float", w.i64("mul", r, word["e"]))
        sums = w.element(stack["sums"], "float", w.i64("mul", r, word["ev"]))

        def piece(c: str, _: list[str]) -> Sequence[str]:
            value = w(f"fmul {LANES} {self._vector_at(w, w.element(source, self._raw, c), WIDE)}, {scale}")
            w.do(f"store {LANES} {value}, ptr {w.element(target, 'float', c)}, align 4")
            return ()

        def zero(c: str, _: list[str]) -> Sequence[str]:
            w.do(f"store {LANES} zeroinitializer, ptr {w.element(sums, 'float', c)}, align 4")
            return ()

        w.loop("0", word["e"], str(WIDE), (), piece)
        w.loop("0", word["ev"], str(WIDE), (), zero)
        position, low, high = row, "0", word["keys"]
        if kind.lengths is not None:
            length = self._whole_at(w, self._place(w, word, "lengths", at), kind.lengths)
            high = self._least(w, high, length)
            position = w.i64("add", row, w.i64("sub", length, word["rows"]))
        if kind.causal:
            high = self._least(w, high, w.i64("add", position, 1))
        if kind.window:
            low = self._most(w, "0", w.i64("sub", w.i64("add", position, 1), word["window"]))
            if not kind.causal:
                high = self._least(w, high, w.i64("add", position, word["window"]))
        high = self._most(w, high, "0")
        kept = {"low": low, "high": high, "position": position}
        if kind.mask is not None:
            kept["mask"] = w(f"ptrtoint ptr {self._place(w, word, 'mask', of_row)} to i64")
        for name, value in kept.items():
            w.do(f"store i64 {value}, ptr {w.element(stack[name], 'i64', r)}, align 8")
        floats = {"tops": number(LOWEST), "totals": "0.0"}
        if kind.slopes is not None:
            floats["slopes"] = self._number_at(w, self._place(w, word, "slopes", at), kind.slopes)
        for name, value in floats.items():
            w.do(f"store float {value}, ptr {w.element(stack[name], 'float', r)}, align 4")
        return self._least(w, span[0], low), self._most(w, span[1], high)

    def _part(self, w: Writer, word: dict[str, str], part: str, begin: str, end: str) -> tuple[str, str]:
        """The keys of one part of a span: whole vectors of them, or turns within blocks, but for the last part."""
        unit = str(WIDE)
        if self.kind.table is not None:
            unit = word["turn"]
            begin = w.i64("sub", begin, w.i64("srem", begin, unit))
        total = self._most(w, w.i64("sub", end, begin), "0")
        above = w.i64("add", total, w.i64("sub", word["parts"], 1))
        above = w.i64("add", w.i64("sdiv", above, word["parts"]), w.i64("sub", unit, 1))
        each = w.i64("sub", above, w.i64("srem", above, unit))
        first = w.i64("add", begin, w.i64("mul", part, each))
        return first, self._least(w, w.i64("add", first, each), end)

    def _block(
        self,
        w: Writer,
        word: dict[str, str],
        stack: dict[str, str],
        places: dict[str, str],
        count: str,
        first: str,
        stop: str,
    ) -> Sequence[str]:
        """Up to BLOCK keys from one on; nothing is read of them if they are hidden from all."""
        most = str(BLOCK) if self.kind.table is None else word["turn"]
        n = self._least(w, w.i64("sub", stop, first), most)
        (seen,) = w.loop(
            "0", count, "1", [("i1", "false")],
            lambda r, seen: [w(f"or i1 {seen[0]}, {self._biases(w, stack, r, first, stop, n)}")],
        )  # fmt: skip
        inside, after = w.label("seen"), w.label("hidden")
        w.branch(seen, inside, after)
        w.place(inside)
        k, v, of_keys = self._lines(w, word, places, first)
        of_values = w.element(of_keys, "i8", word["scales_of_values"])
        told = {
            name: f"ptr {at}, i64 {word['scales_row']}" for name, at in (("k", of_keys), ("v", of_values))
        }
        keys, values = (f"ptr {line}, i64 {word[f'{n}_row']}, {told[n]}" for n, line in (("k", k), ("v", v)))
        self._by_height(w, count, lambda r, height: self._call_dot(w, word, stack, keys, n, r, height))
        w.loop("0", count, "1", (), lambda r, _: self._weights(w, word, stack, r, n))
        self._by_height(w, count, lambda r, height: self._call_mix(w, word, stack, values, n, r, height))
        w.jump(after)
        w.place(after)
        return ()

    def _lines(self, w: Writer, word: dict[str, str], places: dict[str, str], first: str) -> list[str]:
        """Where the keys from one on lie, up to the end of their block, and their values and scales."""
        names = ("k", "v", "scales")
        if self.kind.table is None:
            return [w.element(places[n], "i8", w.i64("mul", first, word[f"{n}_row"])) for n in names]
        number = w.i64("mul", w.i64("sdiv", first, word["block"]), word["mask_row"])
        page = self._whole_at(w, w.element(places["mask"], "i8", number), self.kind.table)
        there = w(f"icmp ult i64 {page}, {word['blocks']}")
        page = w(f"select i1 {there}, i64 {page}, i64 0")
        inner = w.i64("srem", first, word["block"])
        lines = []
        for n in names:
            line = w.element(places[n], "i8", w.i64("mul", page, word[f"{n}_block"]))
            lines.append(w.element(line, "i8", w.i64("mul", inner, word[f"{n}_row"])))
        return lines

    @staticmethod
    def _by_height(w: Writer, count: str, run: Callable[[str, int], None]) -> None:
        """Queries, as many at a time as there is code for."""
        first = "0"
        for height in HEIGHTS:
            whole = w.i64("sub", count, w.i64("srem", w.i64("sub", count, first), height))

            def rows(r: str, _: list[str], height: int = height) -> Sequence[str]:
                run(r, height)
                return ()

            w.loop(first, whole, str(height), (), rows)
            first = whole

    @staticmethod
    def _call_dot(
        w: Writer, word: dict[str, str], stack: dict[str, str], keys: str, n: str, r: str, height: int
    ) -> None:
        q = w.element(stack["queries"], "float", w.i64("mul", r, word["e"]))
        to = w.element(stack["scores"], "float", w.i64("mul", r, BLOCK))
        w.do(f"call void @dot{height}(ptr {q}, i64 {word['e']}, {keys}, i64 {n}, ptr {to})")

    @staticmethod
    def _call_mix(
        w: Writer, word: dict[str, str], stack: dict[str, str], values: str, n: str, r: str, height: int
    ) -> None:
        sums = w.element(stack["sums"], "float", w.i64("mul", r, word["ev"]))
        factors = w.element(stack["factors"], "float", r)
        weights = w.element(stack["scores"], "float", w.i64("mul", r, BLOCK))
        told = f"ptr {sums}, i64 {word['ev']}, ptr {factors}, ptr {weights}, {values}, i64 {n}"
        w.do(f"call void @mix{height}({told})")

    def _biases(self, w: Writer, stack: dict[str, str], r: str, first: str, stop: str, n: str) -> str:
        """What is added to a query's scores, -infinity to hidden ones; gives whether any is not hidden."""
        to = w.element(stack["biases"], "float", w.i64("mul", r, BLOCK))
        known = {
            name: w(f"load i64, ptr {w.element(stack[name], 'i64', r)}, align 8")
            for name in ("low", "high", "position")
        }
        known["high"] = self._least(w, known["high"], stop)
        if self.kind.mask is not None:
            at = w(f"load i64, ptr {w.element(stack['mask'], 'i64', r)}, align 8")
            known["mask"] = w(f"inttoptr i64 {at} to ptr")
        if self.kind.slopes is not None:
            known["slope"] = w(f"load float, ptr {w.element(stack['slopes'], 'float', r)}, align 4")
        middle = w.i64("and", n, -WIDE)
        ragged, done = w.label("ragged"), w.label("whole")

        def several(j: str, seen: list[str]) -> Sequence[str]:
            return [self._bias(w, known, first, j, WIDE, to, seen[0])]

        (lanes,) = w.loop("0", middle, str(WIDE), [(BITS, "zeroinitializer")], several)
        found = w.intrinsic(f"llvm.vector.reduce.or.v{WIDE}i1", "i1", (BITS, lanes))
        before = w.block
        w.branch(w(f"icmp slt i64 {middle}, {n}"), ragged, done)
        w.place(ragged)
        w.do(
            f"store {LANES} {listed('float', [_HIDDEN] * WIDE)}, ptr {w.element(to, 'float', middle)}, align 4"
        )
        (one,) = w.loop(
            middle, n, "1", [("i1", found)], lambda j, seen: [self._bias(w, known, first, j, 1, to, seen[0])]
        )
        last = w.block
        w.jump(done)
        w.place(done)
        return w(f"phi i1 [ {found}, %{before} ], [ {one}, %{last} ]")

    def _bias(
        self, w: Writer, known: dict[str, str], first: str, j: str, count: int, to: str, seen: str
    ) -> str:
        """Of `count` keys; gives which of them, or of those before, are not hidden."""

        def kind(type_: str) -> str:
            return type_ if count == 1 else f"<{count} x {type_}>"

        def many(value: str, type_: str) -> str:
            return value if count == 1 else spread(w, value, type_)

        def constant(type_: str, value: str) -> str:
            return value if count == 1 else listed(type_, [value] * count)

        column = w.i64("add", first, j)
        columns = many(w(f"trunc i64 {column} to i32"), "i32")
        if count > 1:
            columns = w(f"add {INTEGERS} {columns}, {listed('i32', range(WIDE))}")
        low, high, position = (
            many(w(f"trunc i64 {known[name]} to i32"), "i32") for name in ("low", "high", "position")
        )
        visible = w(f"icmp sge {kind('i32')} {columns}, {low}")
        before_end = w(f"icmp slt {kind('i32')} {columns}, {high}")
        visible = w(f"and {kind('i1')} {visible}, {before_end}")
        value = constant("float", "0.0")
        if self.kind.slopes is not None:
            away = w(f"sub {kind('i32')} {columns}, {position}")
            away = w(f"sitofp {kind('i32')} {away} to {kind('float')}")
            value = w(f"fmul {kind('float')} {away}, {many(known['slope'], 'float')}")
        if self.kind.mask is not None:
            place = w.element(known["mask"], "i8", w.i64("mul", column, self.kind.mask.itemsize))
            if self.kind.mask.kind == "bool":
                bytes_ = w(f"load {kind('i8')}, ptr {place}, align 1")
                shown = w(f"icmp ne {kind('i8')} {bytes_}, {constant('i8', '0')}")
            else:
                reader = Packing(self.kind.mask, f32, 256)
                added = reader._element(w, place) if count == 1 else reader._vector_at(w, place, count)
                shown = w(f"fcmp une {kind('float')} {added}, {constant('float', _HIDDEN)}")
                least = w(f"fcmp olt {kind('float')} {added}, {constant('float', number(_LEAST))}")
                added = w(
                    f"select {kind('i1')} {least}, {kind('float')} {constant('float', number(_LEAST))}, "
                    f"{kind('float')} {added}"
                )
                value = w(f"fadd {kind('float')} {value}, {added}")
            visible = w(f"and {kind('i1')} {visible}, {shown}")
        hidden = constant("float", _HIDDEN)
        value = w(f"select {kind('i1')} {visible}, {kind('float')} {value}, {kind('float')} {hidden}")
        w.do(f"store {kind('float')} {value}, ptr {w.element(to, 'float', j)}, align 4")
        return w(f"or {kind('i1')} {seen}, {visible}")

    def _weights(
        self, w: Writer, word: dict[str, str], stack: dict[str, str], r: str, n: str
    ) -> Sequence[str]:
        """A query's scores as weights, relative to its largest score so far."""
        line = w.i64("mul", r, BLOCK)
        scores, biases = (w.element(stack[name], "float", line) for name in ("scores", "biases"))
        end = w.i64("and", w.i64("add", n, WIDE - 1), -WIDE)
        lowest = all_of(LOWEST)
        cap = spread(w, word["softcap"]) if self.kind.softcap else ""

        def score(j: str, tops: list[str]) -> Sequence[str]:
            place = w.element(scores, "float", j)
            value = w(f"load {LANES}, ptr {place}, align 4")
            if cap:
                value = w(f"fmul {LANES} {vectors.tanh(w, w(f'fdiv {LANES} {value}, {cap}'))}, {cap}")
            bias = w(f"load {LANES}, ptr {w.element(biases, 'float', j)}, align 4")
            hidden = w(f"fcmp oeq {LANES} {bias}, {listed('float', [_HIDDEN] * WIDE)}")
            value = w(
                f"select {BITS} {hidden}, {LANES} {lowest}, {LANES} {w(f'fadd {LANES} {value}, {bias}')}"
            )
            w.do(f"store {LANES} {value}, ptr {place}, align 4")
            return [vectors.larger(w, tops[0], value)]

        (tops,) = w.loop("0", end, str(WIDE), [(LANES, lowest)], score)
        top_at, total_at, factor_at = (w.element(stack[x], "float", r) for x in ("tops", "totals", "factors"))
        before = spread(w, w(f"load float, ptr {top_at}, align 4"))
        top = vectors.largest_of(w, vectors.larger(w, tops, before))
        tops = spread(w, top)
        factors = vectors.exp(w, w(f"fsub {LANES} {before}, {tops}"))

        def weight(j: str, sums: list[str]) -> Sequence[str]:
            place = w.element(scores, "float", j)
            value = w(f"load {LANES}, ptr {place}, align 4")
            nothing = w(f"fcmp ole {LANES} {value}, {lowest}")
            power = vectors.exp(w, w(f"fsub {LANES} {value}, {tops}"))
            power = w(f"select {BITS} {nothing}, {LANES} zeroinitializer, {LANES} {power}")
            w.do(f"store {LANES} {power}, ptr {place}, align 4")
            return [w(f"fadd {LANES} {sums[0]}, {power}")]

        (sums,) = w.loop("0", end, str(WIDE), [(LANES, "zeroinitializer")], weight)
        factor = w(f"extractelement {LANES} {factors}, i32 0")
        total = w(f"fmul float {w(f'load float, ptr {total_at}, align 4')}, {factor}")
        total = w(f"fadd float {total}, {vectors.sum_of(w, sums)}")
        for place, value in ((top_at, top), (total_at, total), (factor_at, factor)):
            w.do(f"store float {value}, ptr {place}, align 4")
        return ()

    def _left(
        self, w: Writer, word: dict[str, str], stack: dict[str, str], pair: str, part: str, count: str, r: str
    ) -> Sequence[str]:
        """Leaves a part of a query."""
        place = self._room(w, word, w.i64("add", w.i64("mul", pair, count), r), part)
        sums = w.element(stack["sums"], "float", w.i64("mul", r, word["ev"]))

        def piece(c: str, _: list[str]) -> Sequence[str]:
            value = w(f"load {LANES}, ptr {w.element(sums, 'float', c)}, align 4")
            w.do(f"store {LANES} {value}, ptr {w.element(place, 'float', c)}, align 4")
            return ()

        w.loop("0", word["ev"], str(WIDE), (), piece)
        for k, name in enumerate(("tops", "totals")):
            value = w(f"load float, ptr {w.element(stack[name], 'float', r)}, align 4")
            at = w.element(place, "float", w.i64("add", word["ev"], k))
            w.do(f"store float {value}, ptr {at}, align 4")
        return ()
