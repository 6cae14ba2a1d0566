"""Rotations of neighbouring rows, as many in a row as a step makes; and the values that they have made less exact."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.linear_algebra.desk import Desk, Span
from hologram.backends.cpu.linear_algebra.numbers import Field, Matrix, Number
from hologram.backends.cpu.linear_algebra.sweeps import numbers


def rotate_rows(d: Desk, a: Matrix, rows: Span, cosines: Matrix, sines: Matrix) -> None:
    """Rows x and y, i and i + 1, become c x - s y and s x + c y; for i from high - 1 down to low, which are `rows`."""
    d.w.do(
        f"call void @rotated(ptr {a.address}, i64 {a.row}, i64 {a.plane}, i64 {rows[0]}, i64 {rows[1]}, "
        f"i64 {d.size['list']}, ptr {cosines.address}, ptr {sines.address})"
    )


ROTATED = "ptr %a, i64 %row, i64 %plane, i64 %low, i64 %high, i64 %right, ptr %c, ptr %s"


def rotated(f: Field) -> None:
    """Turns rows i and i + 1 of a, for i from high - 1 down to low: the upper one stays in registers."""
    w, a = f.w, Matrix(f, "%a", "%row", "%plane")
    cosines, sines = (Matrix(f, x, is_real=True) for x in ("%c", "%s"))
    count, last = w.i64("sub", "%high", "%low"), w.i64("sub", "%high", 1)
    _normalised(f, cosines, sines)
    position = "0"
    for size in (4, 2, 1):
        if size * f.count > 4 and size > 1:
            continue
        stop = w.i64("and", "%right", -size * f.lanes)

        def each(c: str, _: list[str], size: int = size) -> Sequence[str]:
            places = [w.i64("add", c, k * f.lanes) for k in range(size)]

            def turn(k: str, held: list[str]) -> list[str]:
                i = w.i64("sub", last, k)
                cosine, sine = cosines.item(i).spread(), sines.item(i).spread()
                above, line = a.line(w.i64("add", i, 1)), a.line(i)
                kept: list[str] = []
                for place, z in zip(places, numbers(f, held), strict=True):
                    x = line.vector("0", place)
                    above.put_vector((x * sine).plus(cosine, z), "0", place)
                    kept += (x * cosine).plus(-sine, z).parts
                return kept

            first = a.line("%high")
            held = [pair for place in places for pair in f.carried(first.vector("0", place))]
            held = f.loop("0", count, "1", held, turn)
            end = a.line("%low")
            for place, z in zip(places, numbers(f, held), strict=True):
                end.put_vector(z, "0", place)
            return ()

        f.loop(position, stop, str(size * f.lanes), (), each)
        position = stop


def _normalised(f: Field, cosines: Matrix, sines: Matrix) -> None:
    """Makes c^2 + s^2 nearer to 1 than a quotient's two roundings leave it: hundreds of rotations add these up."""
    w, one = f.w, f.real(-1.0).spread().real

    def each(k: str) -> None:
        c, s = cosines.vector("0", k), sines.vector("0", k)
        sizes = [f.wide("fabs", x.real) for x in (c, s)]
        bigger = w(f"fcmp ogt {f.type(f.lanes)} {sizes[0]}, {sizes[1]}")
        large, small = (f.picked(bigger, *x) for x in ((c.real, s.real), (s.real, c.real)))
        over = f.fused(small, small, f.fused(large, large, one, f.lanes), f.lanes)
        half = f.binary("fmul", over, f.real(-0.5).spread().real, f.lanes)
        for x, place in ((c, cosines), (s, sines)):
            place.put_vector(Number(f, (f.fused(x.real, half, x.real, f.lanes),), f.lanes), "0", k)

    f.each(w.i64("and", "%low", -f.lanes), "%high", each, f.lanes)


def again(d: Desk, a: Matrix, sizes: Span, left: Matrix, right: Matrix) -> None:
    """The values once more, as u^H a v: hundreds of rotations have left them less exact than the vectors."""
    f, (rows, columns) = d.f, sizes
    diagonal, image = d.reals(0), d.list(0)

    def one(k: str) -> None:
        u, v = left.line(k), right.line(k)
        d.over("0", d.size["list"], lambda c: image.put_vector(f.zeros(), "0", c))
        d.across(a, ("0", rows), ("0", d.size["row"]), v, image, f.number(1.0))

        def product(c: str, held: list[str]) -> list[str]:
            total = Number(f, tuple(held), f.lanes)
            return list(total.plus(u.vector("0", c).conjugate(), image.vector("0", c)).parts)

        held = f.loop("0", d.size["list"], str(f.lanes), f.carried(f.zeros()), product)
        diagonal.set(f.real(Number(f, tuple(held), f.lanes).summed().real), k)

    d.each("0", columns, one)
