"""Row programs with fewer rows than threads: each row is cut into chunks, and every phase is a step of the launch.

A step leaves one partial result for each chunk of each row in scratch memory; the steps after it fold them, in order,
so the result does not depend on which thread ran what.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.program import Instruction, Program
from hologram.backends.cpu.llvm.arguments import Slots, load_slot, open_frame
from hologram.backends.cpu.llvm.folds import Fold
from hologram.backends.cpu.llvm.lane import Frame, Lane
from hologram.backends.cpu.llvm.loops import GROUP, decompose, positions, sweep
from hologram.backends.cpu.llvm.writer import Writer
from hologram.compiler.analysis.latency import rounds
from hologram.compiler.analysis.phases import Phase
from hologram.compiler.scheduling.loops import Variant


class _Partials:
    """The scratch memory: [reduction][row][chunk], 8 bytes each."""

    def __init__(self, w: Writer, frame: Frame, variant: Variant) -> None:
        slots = Slots(frame.program)
        self.w = w
        self.chunks = load_slot(w, slots.tile, "i64")
        self.pointer = load_slot(w, slots.scratch, "ptr")
        self.rows = "1"
        for axis in variant.order:
            self.rows = w(f"mul nsw i64 {self.rows}, {frame.extents[axis]}")

    def address(self, number: int, row: str, chunk: str) -> str:
        w = self.w
        line = w(f"add nsw i64 {w(f'mul nsw i64 {self.rows}, {number}')}, {row}")
        position = w(f"add nsw i64 {w(f'mul nsw i64 {line}, {self.chunks}')}, {chunk}")
        return w.element(self.pointer, "i64", position)

    def total(self, fold: Fold, number: int, row: str) -> str:
        """All partial results of a row in one."""
        w, t = self.w, fold.total_type

        def body(chunk: str, now: list[str]) -> list[str]:
            part = w(f"load {t}, ptr {self.address(number, row, chunk)}, align 8")
            return [fold.join(w, now[0], part)]

        return fold.result(w, w.loop("0", self.chunks, "1", [(t, fold.total_identity)], body)[0])


def _numbers(phases: Sequence[Phase], variant: Variant) -> list[list[tuple[int, Fold]]]:
    """The folds of each phase with their place in the scratch memory."""
    folds, count = [], 0
    for phase in phases:
        folds.append([(count + k, Fold(i, variant.apart)) for k, i in enumerate(phase.reductions)])
        count += len(phase.reductions)
    return folds


def _uniform(
    partials: _Partials, frame: Frame, variant: Variant, phases: Sequence[Phase], last: int, row: str
) -> tuple[Lane, dict[int, str]]:
    """What is the same for a whole row up to phase `last`."""
    outer = dict(zip(variant.order, decompose(partials.w, frame, variant.order, row), strict=True))
    lane = Lane(frame, positions(frame, outer))
    for k, folds in enumerate(_numbers(phases, variant)[: last + 1]):
        lane.instructions(phases[k].uniform)
        if k < last:
            lane.values |= {f.instruction.result: partials.total(f, n, row) for n, f in folds}
    return lane, outer


def phase_body(w: Writer, program: Program, variant: Variant, phases: Sequence[Phase], k: int) -> None:
    """Phase k over units: chunk after chunk of row after row."""
    frame = open_frame(w, program, variant)
    partials = _Partials(w, frame, variant)
    folds = _numbers(phases, variant)[k]

    def unit(number: str, _: list[str]) -> list[str]:
        row = w(f"udiv i64 {number}, {partials.chunks}")
        chunk = w(f"urem i64 {number}, {partials.chunks}")
        lane, outer = _uniform(partials, frame, variant, phases, k, row)
        ranges = {a: ("0", frame.extents[a]) for a in variant.reduced}
        n = frame.extents[variant.split]
        after = w(f"add nsw i64 {chunk}, 1")
        ranges[variant.split] = (
            w(f"udiv i64 {w(f'mul nsw i64 {n}, {chunk}')}, {partials.chunks}"),
            w(f"udiv i64 {w(f'mul nsw i64 {n}, {after}')}, {partials.chunks}"),
        )

        def element(inner: dict[int, str]) -> list[str]:
            inner_lane = Lane(frame, positions(frame, outer | inner), lane.values, group=GROUP)
            inner_lane.instructions(phases[k].sweep)
            return [inner_lane.values[f.instruction.operands[0]] for _, f in folds]

        side_by_side = rounds(phases[k].sweep)
        totals = sweep(
            w, variant.reduced, ranges, [f for _, f in folds], element, variant.block, side_by_side
        )
        for (place, fold), total in zip(folds, totals, strict=True):
            w.do(f"store {fold.total_type} {total}, ptr {partials.address(place, row, chunk)}, align 8")
        return []

    w.loop("%begin", "%end", "1", [], unit)


def tail_body(
    w: Writer, program: Program, variant: Variant, phases: Sequence[Phase], tail: Sequence[Instruction]
) -> None:
    """What happens once for a row, at the end."""
    frame = open_frame(w, program, variant)
    partials = _Partials(w, frame, variant)

    def row(number: str, _: list[str]) -> list[str]:
        _uniform(partials, frame, variant, phases, len(phases) - 1, number)[0].instructions(tail)
        return []

    w.loop("%begin", "%end", "1", [], row)
