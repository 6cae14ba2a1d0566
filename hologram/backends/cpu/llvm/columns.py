"""Row programs swept across many rows at once: for rows that lie crosswise in memory, and for short rows.

A tile of outputs is accumulated side by side in small arrays. The row's axes are the outer loops and the tile the inner
one, so memory is read in order and the vector runs over outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from hologram.atlas.program import Instruction, Program
from hologram.backends.cpu.llvm.arguments import Slots, load_slot, open_frame
from hologram.backends.cpu.llvm.folds import Fold
from hologram.backends.cpu.llvm.lane import Frame, Lane
from hologram.backends.cpu.llvm.loops import GROUP, positions, runs
from hologram.backends.cpu.llvm.writer import Writer
from hologram.compiler.analysis.phases import Phase
from hologram.compiler.scheduling.loops import COLUMN_BLOCK, COLUMN_TILE, Variant
from hologram.foundation.frozen import frozen

Cell = Callable[[str], None]


class _Arrays:
    """A fold's accumulators for a tile of rows; where folding does not round, the parts are the totals."""

    def __init__(self, w: Writer, fold: Fold) -> None:
        self.fold = fold
        self.totals = w.alloca(fold.total_type, COLUMN_TILE)
        self.parts = w.alloca(fold.part_type, COLUMN_TILE) if fold.rounds else self.totals

    def at(self, w: Writer, array: str, j: str) -> tuple[str, str]:
        t = self.fold.total_type if array == self.totals else self.fold.part_type
        return w.element(array, t, j), t

    def read(self, w: Writer, array: str, j: str) -> str:
        address, t = self.at(w, array, j)
        return w(f"load {t}, ptr {address}, align {_bytes(t)}{GROUP}")

    def put(self, w: Writer, array: str, j: str, value: str) -> None:
        address, t = self.at(w, array, j)
        w.do(f"store {t} {value}, ptr {address}, align {_bytes(t)}{GROUP}")

    def clear(self, w: Writer, j: str) -> None:
        self.put(w, self.totals, j, self.fold.total_identity)
        if self.fold.rounds:
            self.put(w, self.parts, j, self.fold.identity)

    def flush(self, w: Writer, j: str) -> None:
        part = self.fold.widen(w, self.read(w, self.parts, j))
        self.put(w, self.totals, j, self.fold.join(w, self.read(w, self.totals, j), part))
        self.put(w, self.parts, j, self.fold.identity)

    def result(self, w: Writer, j: str) -> str:
        return self.fold.result(w, self.read(w, self.totals, j))


def _clear(w: Writer, sums: Sequence[_Arrays], j: str) -> None:
    for a in sums:
        a.clear(w, j)


def _flush(w: Writer, sums: Sequence[_Arrays], j: str) -> None:
    for a in sums:
        a.flush(w, j)


def _bytes(type_: str) -> int:
    return {"float": 4, "double": 8}.get(type_) or int(type_[1:]) // 8


@frozen
class _Tile:
    """`count` rows from `begin` on along `axis`, side by side, at the coordinates `outer` of the axes before."""

    frame: Frame
    phases: Sequence[Phase]
    arrays: Sequence[Sequence[_Arrays]]  # of each phase
    axis: int
    outer: dict[int, str]
    begin: str
    count: str

    @property
    def w(self) -> Writer:
        return self.frame.w

    def over(self, cell: Cell) -> None:
        """Does something for every row."""

        def body(j: str, _: list[str]) -> list[str]:
            cell(j)
            return []

        self.w.loop("0", self.count, "1", [], body, lanes=True)

    def lane(self, j: str, k: int, inner: Mapping[int, str]) -> Lane:
        """A lane in phase k, with all that is uniform along its row computed again."""
        coordinates = self.outer | {self.axis: self.w(f"add nsw i64 {self.begin}, {j}")} | dict(inner)
        lane = Lane(self.frame, positions(self.frame, coordinates), group=GROUP)
        for number in range(k + 1):
            lane.instructions(self.phases[number].uniform)
            if number < k:
                sums = self.arrays[number]
                lane.values |= {a.fold.instruction.result: a.result(self.w, j) for a in sums}
        return lane

    def fold(self, k: int, places: Sequence[Mapping[int, str]], j: str) -> None:
        """What phase k does with elements of row j."""
        w, sums = self.w, self.arrays[k]
        found: list[list[str]] = [[] for _ in sums]
        for place in places:
            lane = self.lane(j, k, place)
            lane.instructions(self.phases[k].sweep)
            for a, values in zip(sums, found, strict=True):
                values.append(lane.values[a.fold.instruction.operands[0]])
        for a, values in zip(sums, found, strict=True):
            a.put(w, a.parts, j, a.fold.steps(w, a.read(w, a.parts, j), values))

    def sweep(self, k: int, reduced: Sequence[int], one_block: bool) -> None:
        """Phase k of all rows."""
        phase, sums = self.phases[k], self.arrays[k]
        if not phase.sweep and not sums:
            return
        self.over(functools.partial(_clear, self.w, sums))
        rounding = [a for a in sums if a.fold.rounds]

        def flush() -> None:
            if rounding:
                self.over(functools.partial(_flush, self.w, rounding))

        def element(places: list[dict[int, str]]) -> None:
            self.over(functools.partial(self.fold, k, places))

        together = 4 if sums and len(phase.sweep) <= 8 else 1
        _visit(self.w, reduced, self.frame.extents, element, flush, together, one_block)


def column_body(
    w: Writer, program: Program, variant: Variant, phases: Sequence[Phase], tail: Sequence[Instruction]
) -> None:
    """Tiles of rows along the chosen outer axis, in the order of the outer axes."""
    frame = open_frame(w, program, variant)
    if variant.grid:
        size = str(min(COLUMN_TILE, variant.grid[variant.order[-1]]))
    else:
        size = load_slot(w, Slots(program).tile, "i64")
    arrays = [[_Arrays(w, Fold(i, ordered=True)) for i in phase.reductions] for phase in phases]

    def run(outer: dict[int, str], start: str, stop: str) -> None:
        def body(begin: str, _: list[str]) -> list[str]:
            rest = w(f"sub nsw i64 {stop}, {begin}")
            count = w.intrinsic("llvm.smin.i64", "i64", ("i64", rest), ("i64", size))
            tile = _Tile(frame, phases, arrays, variant.order[-1], outer, begin, count)
            for k in range(len(phases)):
                tile.sweep(k, variant.reduced, variant.once)
            if tail:
                tile.over(lambda j: tile.lane(j, len(phases) - 1, {}).instructions(tail))
            return []

        w.loop(start, stop, size, [], body)

    runs(w, frame, variant.order, "%begin", "%end", run, bool(variant.grid))


def _visit(
    w: Writer,
    axes: Sequence[int],
    extents: Mapping[int, str],
    element: Callable[[list[dict[int, str]]], None],
    flush: Callable[[], None],
    together: int,
    one_block: bool,
) -> None:
    """Every element of a row, `together` at a time, with a flush after each block along the last axis."""

    def nest(k: int, coordinates: dict[int, str]) -> None:
        def plain(i: str, _: list[str]) -> list[str]:
            nest(k + 1, {**coordinates, axes[k]: i})
            return []

        def last(i: str, count: int) -> list[str]:
            each = [i, *(w(f"add nsw i64 {i}, {n}") for n in range(1, count))]
            element([{**coordinates, axes[k]: c} for c in each])
            return []

        def block(begin: str, _: list[str]) -> list[str]:
            end = extents[axes[k]]
            if not one_block:
                after = w(f"add nsw i64 {begin}, {COLUMN_BLOCK}")
                end = w.intrinsic("llvm.smin.i64", "i64", ("i64", after), ("i64", end))
            if together > 1:
                size = w(f"sub nsw i64 {end}, {begin}")
                middle = w(f"add nsw i64 {begin}, {w(f'and i64 {size}, -{together}')}")
                w.loop(begin, middle, str(together), [], lambda i, _: last(i, together))
                begin = middle
            w.loop(begin, end, "1", [], lambda i, _: last(i, 1))
            flush()
            return []

        if k + 1 < len(axes):
            w.loop("0", extents[axes[k]], "1", [], plain)
        elif one_block:
            block("0", [])
        else:
            w.loop("0", extents[axes[k]], str(COLUMN_BLOCK), [], block)

    nest(0, {})
