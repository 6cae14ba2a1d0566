"""Loop nests around lanes: map programs, row programs, and row programs swept across columns or in chunks of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.backends.cpu.llvm.arguments import open_frame
from hologram.backends.cpu.llvm.folds import Fold
from hologram.backends.cpu.llvm.lane import Frame, Lane, Position
from hologram.backends.cpu.llvm.writer import Writer, register_type
from hologram.compiler.analysis.latency import rounds
from hologram.compiler.analysis.phases import Phase
from hologram.compiler.analysis.reuse import ELEMENTS, Sweep, kept, recomputed
from hologram.compiler.scheduling.interior import Margins, inside
from hologram.compiler.scheduling.loops import Variant

O = Opcode
GROUP = ", !llvm.access.group !0"
TOGETHER = 8  # elements that are folded by a tree


def positions(frame: Frame, coordinates: Mapping[int, str]) -> Position:
    """How positions are computed from coordinates (of the axes that are known)."""
    program, w = frame.program, frame.w

    def lane() -> str:
        number = "0"
        for axis in range(program.rank - program.reduced):
            if axis:
                number = w(f"mul nsw i64 {number}, {frame.extents[axis]}")
            number = w(f"add nsw i64 {number}, {coordinates[axis]}") if axis else coordinates[axis]
        return number

    def position(opcode: Opcode, axis: int) -> str:
        if opcode is O.COORDINATE:
            return coordinates[axis]
        if opcode is O.EXTENT:
            return frame.extents[axis]
        if opcode is O.LANE:
            return lane()
        threads = program.workgroup or 1
        return w(f"{'udiv' if opcode is O.WORKGROUP else 'urem'} i64 {lane()}, {threads}")

    return position


Run = Callable[
    [dict[int, str], str, str], None
]  # coordinates of the axes before the innermost one, start, stop


def odometer(
    w: Writer, frame: Frame, axes: Sequence[int], begin: str, end: str, each: Callable[[dict[int, str]], None]
) -> None:
    """Runs `each` with the coordinates of every position from begin to end in the row-major order of `axes`."""
    first = decompose(w, frame, axes, begin)

    def body(_: str, now: list[str]) -> list[str]:
        each(dict(zip(axes, now, strict=True)))
        following, carry = [], "true"
        for axis, c in reversed(list(zip(axes, now, strict=True))):
            stepped = w(f"add nsw i64 {c}, {w(f'zext i1 {carry} to i64')}")
            carry = w(f"icmp eq i64 {stepped}, {frame.extents[axis]}")
            following.append(w(f"select i1 {carry}, i64 0, i64 {stepped}"))
        return following[::-1]

    w.loop(begin, end, "1", [("i64", c) for c in first], body)


def decompose(w: Writer, frame: Frame, axes: Sequence[int], number: str) -> list[str]:
    """The coordinates of a position in the row-major order of `axes`."""
    coordinates = []
    for axis in reversed(axes[1:]):
        coordinates.append(w(f"urem i64 {number}, {frame.extents[axis]}"))
        number = w(f"udiv i64 {number}, {frame.extents[axis]}")
    return [*([number] if axes else []), *reversed(coordinates)]


def runs(
    w: Writer, frame: Frame, order: Sequence[int], begin: str, end: str,
    each: Run, whole: bool = False,
) -> None:  # fmt: skip
    """Cuts the lanes from begin to end into runs along the last axis: each(outer coordinates, start, stop).

    `whole`: these are all lanes, so that runs are as long as the axis.
    """
    if len(order) <= 1:
        each({}, begin, end)
        return
    inner = frame.extents[order[-1]]
    if whole:
        count = w(f"udiv i64 {end}, {inner}")
        odometer(w, frame, order[:-1], begin, count, lambda coordinates: each(coordinates, "0", inner))
        return
    first = w(f"udiv i64 {begin}, {inner}")
    rounded = w(f"add nsw i64 {end}, {w(f'sub nsw i64 {inner}, 1')}")
    last = w(f"udiv i64 {rounded}, {inner}")

    def row(coordinates: dict[int, str]) -> None:
        number = "0"
        for axis in order[:-1]:
            number = w(
                f"add nsw i64 {w(f'mul nsw i64 {number}, {frame.extents[axis]}')}, {coordinates[axis]}"
            )
        offset = w(f"mul nsw i64 {number}, {inner}")
        start = w.intrinsic(
            "llvm.smax.i64", "i64", ("i64", w(f"sub nsw i64 {begin}, {offset}")), ("i64", "0")
        )
        stop = w.intrinsic("llvm.smin.i64", "i64", ("i64", w(f"sub nsw i64 {end}, {offset}")), ("i64", inner))
        each(coordinates, start, stop)

    odometer(w, frame, order[:-1], first, last, row)


def map_body(w: Writer, program: Program, variant: Variant) -> None:
    """One lane per element: rows of the grid in turn, the chosen axis innermost."""
    frame = open_frame(w, program, variant)

    def run(frame: Frame, outer: dict[int, str], start: str, stop: str, lanes: bool = True) -> None:
        body = frame.program.body.instructions

        def element(i: str, _: list[str]) -> list[str]:
            coordinates = outer | ({variant.order[-1]: i} if variant.order else {})
            lane = Lane(frame, positions(frame, coordinates), group=GROUP, branches=lanes)
            lane.clear_locals()
            lane.instructions(body)
            return []

        side_by_side = rounds(body) if lanes else 1
        w.loop(start, stop, "1", [], element, lanes=lanes, rounds=side_by_side, kept=not lanes)

    if variant.inside is None:
        _cut(w, frame, variant, partial(run, frame))
        return
    margins = variant.inside.margins
    within = replace(frame, program=inside(program, variant.inside.decided))

    def parted(outer: dict[int, str], start: str, stop: str) -> None:
        """Both ends of a run, then what lies between: nothing where the run itself is part of the border."""
        first, last = _inside(w, frame, margins, outer, variant.order[-1], start, stop)

        def end(number: str, _: list[str]) -> list[str]:
            behind = w(f"icmp ne i64 {number}, 0")
            begin = w(f"select i1 {behind}, i64 {last}, i64 {start}")
            run(frame, outer, begin, w(f"select i1 {behind}, i64 {stop}, i64 {first}"), lanes=False)
            return []

        w.loop("0", "2", "1", [], end, kept=True)
        run(within, outer, first, last)

    _cut(w, frame, variant, parted)


def _cut(w: Writer, frame: Frame, variant: Variant, each: Run) -> None:
    """The lanes of a launch in runs along the innermost axis, or along strips of it."""
    if not variant.strips:
        runs(w, frame, variant.order, "%begin", "%end", each, bool(variant.grid))
        return
    *outer, before, last = variant.order
    strip, within = frame.program.rank, frame.program.rank + 1  # as two axes more
    count = w(f"udiv i64 {frame.extents[last]}, {variant.strips}")
    wide = replace(frame, extents={**frame.extents, strip: count, within: str(variant.strips)})

    def run(coordinates: dict[int, str], start: str, stop: str) -> None:
        first = w(f"mul nsw i64 {coordinates[strip]}, {variant.strips}")
        start, stop = (w(f"add nsw i64 {first}, {x}") for x in (start, stop))
        each({axis: place for axis, place in coordinates.items() if axis != strip}, start, stop)

    runs(w, wide, (*outer, strip, before, within), "%begin", "%end", run)


def _inside(
    w: Writer, frame: Frame, margins: Margins, outer: Mapping[int, str], axis: int, start: str, stop: str
) -> tuple[str, str]:
    """Where the inside begins and ends in a run from start to stop."""

    def bound(name: str, x: str, y: str) -> str:
        return w.intrinsic(f"llvm.{name}.i64", "i64", ("i64", x), ("i64", y))

    whole = "true"
    for k, place in outer.items():
        before, behind = margins[k]
        if before:
            whole = w(f"and i1 {whole}, {w(f'icmp sge i64 {place}, {before}')}")
        if behind:
            most = w(f"sub nsw i64 {frame.extents[k]}, {behind}")
            whole = w(f"and i1 {whole}, {w(f'icmp slt i64 {place}, {most}')}")
    before, behind = margins[axis]
    first = bound("smin", bound("smax", start, str(before)), stop)
    most = w(f"sub nsw i64 {frame.extents[axis]}, {behind}")
    last = bound("smax", bound("smin", stop, most), first)
    return w(f"select i1 {whole}, i64 {first}, i64 {stop}"), w(f"select i1 {whole}, i64 {last}, i64 {stop}")


Ranges = Mapping[int, tuple[str, str]]


def sweep(
    w: Writer, axes: Sequence[int], ranges: Ranges, folds: Sequence[Fold],
    element: Callable[[dict[int, str]], list[str]], block_size: int, side_by_side: int = 1, one_block: bool = False,
) -> list[str]:  # fmt: skip
    """Visits the row and folds what `element` returns; gives the totals.

    The innermost axis is cut into blocks: within one, floats fold in their own precision with as many accumulators as
    LLVM likes; block sums add up in f64. So the error stays that of a block, however long the row. `one_block`: the
    innermost axis is not longer than that. Where no vector runs along it some elements are folded by a tree at a time.
    """
    together = any(f.ordered and f.rounds for f in folds)

    def nest(k: int, coordinates: dict[int, str], totals: list[str]) -> list[str]:
        start, stop = ranges[axes[k]]
        typed = [(f.total_type, t) for f, t in zip(folds, totals, strict=True)]
        if k + 1 < len(axes):
            return w.loop(
                start, stop, "1", typed, lambda i, now: nest(k + 1, {**coordinates, axes[k]: i}, now)
            )

        def inner(i: str, parts: list[str]) -> list[str]:
            values = element({**coordinates, axes[k]: i})
            return [f.step(w, p, v) for f, p, v in zip(folds, parts, values, strict=True)]

        def several(i: str, parts: list[str]) -> list[str]:
            places = [i, *(w(f"add nsw i64 {i}, {n}") for n in range(1, TOGETHER))]
            found = zip(*(element({**coordinates, axes[k]: place}) for place in places), strict=True)
            return [f.steps(w, p, list(each)) for f, p, each in zip(folds, parts, found, strict=True)]

        def block(begin: str, now: list[str]) -> list[str]:
            end = stop
            if not one_block:
                after = w(f"add nsw i64 {begin}, {block_size}")
                end = w.intrinsic("llvm.smin.i64", "i64", ("i64", after), ("i64", stop))
            first = [(f.part_type, f.identity) for f in folds]
            if together:
                whole = w(f"and i64 {w(f'sub nsw i64 {end}, {begin}')}, -{TOGETHER}")
                middle = w(f"add nsw i64 {begin}, {whole}")
                parts = w.loop(begin, middle, str(TOGETHER), first, several)
                first = [(f.part_type, p) for f, p in zip(folds, parts, strict=True)]
                begin = middle
            parts = w.loop(begin, end, "1", first, inner, lanes=True, rounds=side_by_side)
            return [f.join(w, t, f.widen(w, p)) for f, t, p in zip(folds, now, parts, strict=True)]

        if not folds:
            return w.loop(start, stop, "1", [], inner, lanes=True, rounds=side_by_side)
        if one_block:
            return block(start, totals)
        return w.loop(start, stop, str(block_size), typed, block)

    return nest(0, {}, [f.total_identity for f in folds])


def row_body(
    w: Writer, program: Program, variant: Variant, phases: Sequence[Phase], tail: Sequence[Instruction]
) -> None:
    """One row after the other, each in as many sweeps as it has phases."""
    frame = open_frame(w, program, variant)
    ranges = {axis: ("0", frame.extents[axis]) for axis in variant.reduced}
    sweeps = kept(program, phases) if variant.keep else recomputed(phases)
    arrays = {v: w.alloca(register_type(program.types[v]), ELEMENTS) for s in sweeps for v in s.stored}

    def place(value: int, inner: dict[int, str]) -> str:
        return w.element(arrays[value], register_type(program.types[value]), inner[variant.reduced[0]])

    def row(outer: dict[int, str]) -> None:
        uniform = Lane(frame, positions(frame, outer))
        for phase, kept_sweep in zip(phases, sweeps, strict=True):
            uniform.instructions(phase.uniform)
            folds = [Fold(i, variant.apart) for i in phase.reductions]

            def element(
                inner: dict[int, str], folds: Sequence[Fold] = folds, now: Sweep = kept_sweep
            ) -> list[str]:
                lane = Lane(
                    frame, positions(frame, outer | inner), uniform.values, group=GROUP, branches=True
                )
                for value in now.fetched:
                    t = register_type(program.types[value])
                    lane.values[value] = w(f"load {t}, ptr {place(value, inner)}{GROUP}")
                lane.instructions(now.instructions)
                for value in now.stored:
                    t = register_type(program.types[value])
                    w.do(f"store {t} {lane.values[value]}, ptr {place(value, inner)}{GROUP}")
                return [lane.values[f.instruction.operands[0]] for f in folds]

            if phase.sweep or folds:
                side_by_side = rounds(kept_sweep.instructions)
                sizes = (variant.block, side_by_side, variant.once)
                totals = sweep(w, variant.reduced, ranges, folds, element, *sizes)
                uniform.values |= {
                    f.instruction.result: f.result(w, t) for f, t in zip(folds, totals, strict=True)
                }
        uniform.instructions(tail)

    odometer(w, frame, variant.order, "%begin", "%end", row)
