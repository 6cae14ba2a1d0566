"""Code for products of rows that are sent to experts: pairs are put in the order of their experts, then multiplied.

Three steps of one launch. `sort` puts the pairs in order by counting those of each expert; those whose expert there is
none of come last. `prepare` makes integers of x (rows.py), pair by pair in that order. `multiply` goes through some of
the rows that each expert has, and multiplies them with its pairs: an expert that no pair names is not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.packed.decoding import words_of
from hologram.backends.cpu.packed.rows import HEIGHTS, PLANES, Rows, room_bytes

ARGUMENTS = (
    *("x", "chosen", "codes", "scales", "high", "factors", "out", "room"),  # addresses
    *("pairs", "each", "n", "units", "experts", "height"),
    *("codes_row", "scales_row", "high_row", "factors_row"),  # bytes from row to row
)


def experts_room_bytes(pairs: int, experts: int, units: int, entries: int) -> int:
    """Of the pairs in order, where those of each expert begin, and x as integers."""
    return 8 * (pairs + experts + 3) + room_bytes(pairs, units, entries)


class Experts(Rows):
    """Writes the functions, for one format and dtype of x."""

    arguments = ARGUMENTS
    functions = ("sort", "prepare", "multiply")

    def text(self) -> str:
        """The module."""
        return self._module([*map(self._dot, HEIGHTS), self._sort(), self._prepare(), self._multiply()])

    def _ordered(self, w: Writer, word: dict[str, str]) -> tuple[str, str]:
        """Where the pairs in order are, and from where on in these each expert's are."""
        return word["room"], w.element(word["room"], "i64", word["pairs"])

    def _room(self, w: Writer, word: dict[str, str]) -> tuple[str, str, str]:
        pairs, experts = word["pairs"], word["experts"]
        behind = w(f"add i64 {w(f'add i64 {pairs}, {experts}')}, 3")
        return super()._room(w, {**word, "room": w.element(word["room"], "i64", behind), "m": pairs})

    def _sort(self) -> str:
        """All pairs, in one unit."""

        def body(w: Writer) -> None:
            word = words_of(w, ARGUMENTS)
            order, begins = self._ordered(w, word)
            experts = word["experts"]

            def cleared(k: str, _: list[str]) -> Sequence[str]:
                w.do(f"store i64 0, ptr {w.element(begins, 'i64', k)}, align 8")
                return ()

            def expert_of(pair: str) -> str:
                """The pair's, counted from the end where negative; behind all others where there is none."""
                named = w(f"load i64, ptr {w.element(word['chosen'], 'i64', pair)}, align 8")
                negative = w(f"icmp slt i64 {named}, 0")
                wrapped = w(f"select i1 {negative}, i64 {w(f'add i64 {named}, {experts}')}, i64 {named}")
                inside = w(f"icmp ult i64 {wrapped}, {experts}")
                return w(f"select i1 {inside}, i64 {wrapped}, i64 {experts}")

            def increased(place: str) -> str:
                before = w(f"load i64, ptr {place}, align 8")
                w.do(f"store i64 {w(f'add i64 {before}, 1')}, ptr {place}, align 8")
                return before

            def counted(pair: str, _: list[str]) -> Sequence[str]:
                increased(w.element(begins, "i64", w(f"add i64 {expert_of(pair)}, 2")))
                return ()

            def summed(k: str, sums: list[str]) -> Sequence[str]:
                place = w.element(begins, "i64", k)
                total = w(f"add i64 {sums[0]}, {w(f'load i64, ptr {place}, align 8')}")
                w.do(f"store i64 {total}, ptr {place}, align 8")
                return [total]

            def placed(pair: str, _: list[str]) -> Sequence[str]:
                at = increased(w.element(begins, "i64", w(f"add i64 {expert_of(pair)}, 1")))
                w.do(f"store i64 {pair}, ptr {w.element(order, 'i64', at)}, align 8")
                return ()

            # A place counts the pairs two experts before it, then is where those one before it go next, and so begins.
            places = w(f"add i64 {experts}, 3")
            w.loop("0", places, "1", (), cleared)
            w.loop("0", word["pairs"], "1", (), counted)
            w.loop("0", places, "1", [("i64", "0")], summed)
            w.loop("0", word["pairs"], "1", (), placed)

        return self._function("void @sort(ptr %arguments, i64 %begin, i64 %end)", body)

    def _source(self, w: Writer, word: dict[str, str], number: str) -> str:
        """The unit of x that unit `number` of the pairs in order is."""
        (order, _), units = self._ordered(w, word), word["units"]
        place = w.element(order, "i64", w(f"udiv i64 {number}, {units}"))
        row = w(f"udiv i64 {w(f'load i64, ptr {place}, align 8')}, {word['each']}")
        return w(f"add i64 {w(f'mul i64 {row}, {units}')}, {w(f'urem i64 {number}, {units}')}")

    def _multiply(self) -> str:
        """Rows begin .. end of every expert's, times all its pairs."""

        def body(w: Writer) -> None:
            word = words_of(w, ARGUMENTS)
            room, (order, begins) = self._room(w, word), self._ordered(w, word)
            found = w.alloca("float", max(HEIGHTS))
            experts, height, n = word["experts"], word["height"], word["n"]
            behind = w(f"mul i64 {w(f'sub i64 {experts}, 1')}, {height}")

            def pairs_of(expert: str) -> tuple[str, str]:
                at = w.element(begins, "i64", expert)
                first = w(f"load i64, ptr {at}, align 8")
                return first, w(f"load i64, ptr {w.element(at, 'i64', '1')}, align 8")

            def put(value: str, at: str, column: str) -> None:
                pair = w(f"load i64, ptr {w.element(order, 'i64', at)}, align 8")
                to = w(f"add i64 {w(f'mul i64 {pair}, {n}')}, {column}")
                w.do(f"store float {value}, ptr {w.element(word['out'], 'float', to)}, align 4")

            def expert(number: str, _: list[str]) -> Sequence[str]:
                first, stop = pairs_of(number)
                asked = w(f"icmp slt i64 {first}, {stop}")
                own = w(f"mul i64 {number}, {height}")

                def column(c: str, _: list[str]) -> Sequence[str]:
                    second = w(f"icmp uge i64 {c}, {height}")  # the part of what gates open
                    further = w(f"select i1 {second}, i64 {behind}, i64 0")
                    at = w(f"add i64 {w(f'add i64 {own}, {c}')}, {further}")
                    planes = [
                        w.element(word[p], "i8", w(f"mul i64 {at}, {word[p + '_row']}")) for p in PLANES
                    ]
                    begin = first
                    for together in HEIGHTS:
                        count = w(f"sub i64 {stop}, {begin}")
                        end = w(f"add i64 {begin}, {w(f'and i64 {count}, {-together}')}")

                        def rows(r: str, _: list[str], together: int = together) -> Sequence[str]:
                            self._called(w, together, room, r, planes, found, "1", word["units"])
                            for k in range(together):
                                value = w(f"load float, ptr {w.element(found, 'float', str(k))}, align 4")
                                put(value, w(f"add i64 {r}, {k}"), c)
                            return ()

                        w.loop(begin, end, str(together), (), rows)
                        begin = end
                    return ()

                w.loop("%begin", w(f"select i1 {asked}, i64 %end, i64 %begin"), "1", (), column)
                return ()

            w.loop("0", experts, "1", (), expert)
            first, stop = pairs_of(experts)

            def nobody(at: str, _: list[str]) -> Sequence[str]:
                def column(c: str, _: list[str]) -> Sequence[str]:
                    put("0.0", at, c)
                    return ()

                w.loop("%begin", "%end", "1", (), column)
                return ()

            w.loop(first, stop, "1", (), nobody)

        return self._function("void @multiply(ptr %arguments, i64 %begin, i64 %end)", body)
