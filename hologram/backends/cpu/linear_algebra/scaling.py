"""Matrices brought to a size at which neither squares nor their sums leave the range of numbers."""

from __future__ import annotations

from collections.abc import Callable

from hologram.backends.cpu.linear_algebra.desk import Desk, Span
from hologram.backends.cpu.linear_algebra.numbers import Matrix, Number


def brought(
    d: Desk, a: Matrix, rows: str, columns: Callable[[str], Span], load: Callable[[str, str], Number]
) -> tuple[str, str]:
    """Multiplies a by a power of 2 that makes its largest part about 1: that, and whether all is finite.

    `load` fills it, and gives the number at a row and column, of the columns of a row.
    """
    f, w = d.f, d.w
    kind, bits = f"i{f.part.bits}", f.part.bits
    mantissa, most = (23, 0xFF) if bits == 32 else (52, 0x7FF)
    peak = d.cell(kind, "0")

    def fill(i: str) -> None:
        def each(j: str, held: list[str]) -> list[str]:
            (best,) = held
            for part in load(i, j).parts:  # sizes compare as integers do, NaN the largest
                raw = w(f"bitcast {f.scalar} {part} to {kind}")
                size = w(f"and {kind} {raw}, {(1 << (bits - 1)) - 1}")
                best = w.intrinsic(f"llvm.umax.{kind}", kind, (kind, best), (kind, size))
            return [best]

        low, high = columns(i)
        (best,) = f.loop(low, high, "1", [(kind, peak.value)], each)
        peak.put(best)

    d.each("0", rows, fill)
    exponent = w(f"lshr {kind} {peak.value}, {mantissa}")
    finite = w(f"icmp ne {kind} {exponent}, {most}")
    # 2 * bias - exponent, held where that and its inverse are normal numbers.
    inverse = w(f"sub {kind} {most - 1}, {exponent}")
    inverse = w.intrinsic(f"llvm.smax.{kind}", kind, (kind, inverse), (kind, "1"))
    inverse = w.intrinsic(f"llvm.smin.{kind}", kind, (kind, inverse), (kind, str(most - 2)))
    factor = w(f"bitcast {kind} {w(f'shl {kind} {inverse}, {mantissa}')} to {f.scalar}")
    wide = f.real(factor).spread()
    d.each(
        "0", rows, lambda i: d.over("0", d.size["row"], lambda c: a.put_vector(a.vector(i, c) * wide, i, c))
    )
    return factor, finite
