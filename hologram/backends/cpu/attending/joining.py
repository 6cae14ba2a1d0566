"""Code that puts the parts of a query together."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.attending import vectors
from hologram.backends.cpu.attending.mixing import Mixing
from hologram.backends.cpu.attending.vectors import LANES, LOWEST, WIDE, number, spread
from hologram.backends.cpu.llvm.writer import Writer

MOST_PARTS = 64


class Joining(Mixing):
    """Writes the second step."""

    def _join(self) -> str:
        """Queries begin .. end of all heads."""

        def body(w: Writer) -> None:
            word = self._words(w)
            shares = w.alloca("float", MOST_PARTS)

            def row(number: str, _: list[str]) -> Sequence[str]:
                count = w.i64("mul", word["rows"], word["groups"])
                r, pair = w.i64("srem", number, count), w.i64("sdiv", number, count)
                at = {
                    "batch": w.i64("sdiv", pair, word["heads"]),
                    "head": w.i64("srem", pair, word["heads"]),
                    "group": w.i64("sdiv", r, word["rows"]),
                }
                places = self._room(w, word, number, "0")
                stride = w.i64("add", word["ev"], WIDE)
                total = self._shares(w, word, shares, places, stride, at)
                empty = w(f"fcmp oeq float {total}, 0.0")
                total = spread(w, w(f"select i1 {empty}, float 1.0, float {total}"))
                out = self._place(w, word, "out", {**at, "row": w.i64("srem", r, word["rows"])})

                def piece(c: str, _: list[str]) -> Sequence[str]:
                    def part(p: str, sums: list[str]) -> Sequence[str]:
                        at = w.i64("add", w.i64("mul", p, stride), c)
                        value = w(f"load {LANES}, ptr {w.element(places, 'float', at)}, align 4")
                        share = spread(w, w(f"load float, ptr {w.element(shares, 'float', p)}, align 4"))
                        return [vectors.fused(w, value, share, sums[0])]

                    (value,) = w.loop("0", word["parts"], "1", [(LANES, "zeroinitializer")], part)
                    to = w.element(out, self._raw, c)
                    vectors.stored(w, w(f"fdiv {LANES} {value}, {total}"), self._dtype, to)
                    return ()

                w.loop("0", word["ev"], str(WIDE), (), piece)
                return ()

            w.loop("%begin", "%end", "1", (), row)

        return self._function("void @join(ptr %arguments, i64 %begin, i64 %end)", body)

    def _shares(
        self, w: Writer, word: dict[str, str], shares: str, places: str, stride: str, at: dict[str, str]
    ) -> str:
        """Leaves what each part's sums are multiplied by, relative to the query's largest score; gives the total."""
        name = "llvm.maxnum.f32"
        sink = None
        if self.kind.sinks is not None:
            sink = self._number_at(w, self._place(w, word, "sinks", at), self.kind.sinks)

        def value(p: str, k: int) -> str:
            at = w.i64("add", w.i64("mul", p, stride), w.i64("add", word["ev"], k))
            return w(f"load float, ptr {w.element(places, 'float', at)}, align 4")

        def larger(p: str, top: list[str]) -> Sequence[str]:
            return [w.intrinsic(name, "float", ("float", top[0]), ("float", value(p, 0)))]

        (top,) = w.loop("0", word["parts"], "1", [("float", number(LOWEST))], larger)
        if sink is not None:
            top = w.intrinsic(name, "float", ("float", top), ("float", sink))

        def power(x: str) -> str:
            lanes = vectors.exp(w, spread(w, w(f"fsub float {x}, {top}")))
            return w(f"extractelement {LANES} {lanes}, i32 0")

        def share(p: str, total: list[str]) -> Sequence[str]:
            found = power(value(p, 0))
            w.do(f"store float {found}, ptr {w.element(shares, 'float', p)}, align 4")
            return [w(f"fadd float {total[0]}, {w(f'fmul float {found}, {value(p, 1)}')}")]

        (total,) = w.loop("0", word["parts"], "1", [("float", "0.0")], share)
        return total if sink is None else w(f"fadd float {total}, {power(sink)}")
