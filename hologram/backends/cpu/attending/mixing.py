"""Code for what attention multiplies: few queries by keys, and weights by values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.attending import vectors
from hologram.backends.cpu.attending.reading import Reading
from hologram.backends.cpu.attending.vectors import INTEGERS, LANES, WIDE, listed, spread
from hologram.backends.cpu.llvm.writer import Writer

BLOCK = 64  # keys whose scores are computed together
HEIGHTS = (3, 2, 1)  # queries that read keys together
_KEYS = 4  # that are multiplied together
_SCALES = "ptr noalias %scales, i64 %each"  # and the bytes between those of neighbours


class Mixing(Reading):
    """Writes the functions that multiply."""

    def _dot(self, height: int) -> str:
        """Scores of so many queries, which lie one behind the other, and n keys."""

        def body(w: Writer) -> None:
            last = w("sub i64 %n, 1")

            def keys(j: str, _: list[str]) -> Sequence[str]:
                order = [self._least(w, w.i64("add", j, i), last) for i in range(_KEYS)]
                places = [w.element("%k", "i8", w(f"mul i64 {key}, %row")) for key in order]

                def piece(c: str, sums: list[str]) -> Sequence[str]:
                    after = list(sums)
                    queries = []
                    for h in range(height):
                        at = w.i64("add", w.i64("mul", "%e", h), c)
                        queries.append(w(f"load {LANES}, ptr {w.element('%q', 'float', at)}, align 4"))
                    for i, place in enumerate(places):
                        key = self._cached(w, place, c)
                        for h, query in enumerate(queries):
                            after[h * _KEYS + i] = vectors.fused(w, query, key, after[h * _KEYS + i])
                    return after

                zeros = [(LANES, "zeroinitializer")] * (height * _KEYS)
                sums = w.loop("0", "%e", str(WIDE), zeros, piece)
                scales = "poison"
                for i, key in enumerate(order) if self.kind.scales is not None else ():
                    scales = w(f"insertelement <4 x float> {scales}, float {self._scale(w, key)}, i32 {i}")
                for h in range(height):
                    four = _sums_of_four(w, sums[h * _KEYS : (h + 1) * _KEYS])
                    if self.kind.scales is not None:
                        four = w(f"fmul <4 x float> {four}, {scales}")
                    at = w.i64("add", j, h * BLOCK)
                    w.do(f"store <4 x float> {four}, ptr {w.element('%to', 'float', at)}, align 4")
                return ()

            w.loop("0", "%n", str(_KEYS), (), keys)

        arguments = f"ptr noalias %q, i64 %e, ptr noalias %k, i64 %row, {_SCALES}, i64 %n, ptr noalias %to"
        return self._function(f"internal void @dot{height}({arguments})", body)

    def _mix(self, height: int) -> str:
        """Sums of values of so many queries, times a factor each, and n more values times weights."""

        def body(w: Writer) -> None:
            def columns(width: int) -> Callable[[str, list[str]], Sequence[str]]:
                def piece(c: str, _: list[str]) -> Sequence[str]:
                    places, before = [], []
                    for h in range(height):
                        factor = w(f"load float, ptr {w.element('%factors', 'float', str(h))}, align 4")
                        factors = spread(w, factor)
                        for i in range(width):
                            at = w.i64("add", w.i64("mul", "%ev", h), w.i64("add", c, i * WIDE))
                            places.append(w.element("%sums", "float", at))
                            one = w(f"load {LANES}, ptr {places[-1]}, align 4")
                            before.append((LANES, w(f"fmul {LANES} {one}, {factors}")))

                    def key(j: str, sums: list[str]) -> Sequence[str]:
                        line = w.element("%v", "i8", w(f"mul i64 {j}, %row"))
                        values = [self._cached(w, line, c, i * WIDE) for i in range(width)]
                        scale = None if self.kind.scales is None else self._scale(w, j)
                        after = []
                        for h in range(height):
                            at = w.element("%weights", "float", w.i64("add", j, h * BLOCK))
                            weight = w(f"load float, ptr {at}, align 4")
                            weight = spread(
                                w, weight if scale is None else w(f"fmul float {weight}, {scale}")
                            )
                            after += [
                                vectors.fused(w, weight, value, sums[h * width + i])
                                for i, value in enumerate(values)
                            ]
                        return after

                    for place, value in zip(places, w.loop("0", "%n", "1", before, key), strict=True):
                        w.do(f"store {LANES} {value}, ptr {place}, align 4")
                    return ()

                return piece

            middle = w(f"and i64 %ev, {-4 * WIDE}")
            w.loop("0", middle, str(4 * WIDE), (), columns(4))
            w.loop(middle, "%ev", str(WIDE), (), columns(1))

        pointers = ", ".join(f"ptr noalias %{n}" for n in ("factors", "weights", "v"))
        arguments = f"ptr noalias %sums, i64 %ev, {pointers}, i64 %row, {_SCALES}, i64 %n"
        return self._function(f"internal void @mix{height}({arguments})", body)

    def _scale(self, w: Writer, key: str) -> str:
        """What the codes of a key or a value are multiplied by."""
        assert self.kind.scales is not None
        return self._number_at(w, w.element("%scales", "i8", w(f"mul i64 {key}, %each")), self.kind.scales)


def _sums_of_four(w: Writer, lanes: Sequence[str]) -> str:
    """The sums of four vectors, side by side: neighbours are added thrice."""

    def neighbours(x: str, y: str) -> str:
        pairs = [listed("i32", [k + first for k in (0, 2, 8, 10, 4, 6, 12, 14)]) for first in (0, 1)]
        parts = [w(f"shufflevector {LANES} {x}, {LANES} {y}, {INTEGERS} {each}") for each in pairs]
        return w(f"fadd {LANES} {parts[0]}, {parts[1]}")

    a, b, c, d = lanes
    both = neighbours(neighbours(a, b), neighbours(c, d))
    halves = [
        w(f"shufflevector {LANES} {both}, {LANES} poison, <4 x i32> {listed('i32', range(first, first + 4))}")
        for first in (0, 4)
    ]
    return w(f"fadd <4 x float> {halves[0]}, {halves[1]}")
