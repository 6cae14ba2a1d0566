"""Rows of a few elements: each is written out, and vectors run over rows, with nothing between their phases."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hologram.atlas.program import Instruction, Program
from hologram.backends.cpu.llvm.arguments import open_frame
from hologram.backends.cpu.llvm.folds import Fold
from hologram.backends.cpu.llvm.lane import Lane
from hologram.backends.cpu.llvm.loops import GROUP, positions, runs
from hologram.backends.cpu.llvm.writer import Writer
from hologram.compiler.analysis.phases import Phase
from hologram.compiler.scheduling.loops import Variant


def short_body(
    w: Writer, program: Program, variant: Variant, phases: Sequence[Phase], tail: Sequence[Instruction]
) -> None:
    """Rows in the order of the outer axes, a loop over the innermost of these."""
    frame = open_frame(w, program, variant)
    kept = program.rank - program.reduced
    known = {kept + axis: str(n) for axis, n in enumerate(variant.row)}
    frame = replace(frame, extents={**frame.extents, **known})
    places = [
        {kept + axis: str(n) for axis, n in enumerate(place)}
        for place in itertools.product(*map(range, variant.row))
    ]

    def run(outer: dict[int, str], start: str, stop: str) -> None:
        def row(i: str, _: list[str]) -> list[str]:
            own = outer | {variant.order[-1]: i}
            uniform = Lane(frame, positions(frame, own), group=GROUP, branches=True)
            for phase in phases:
                uniform.instructions(phase.uniform)
                folds = [Fold(i) for i in phase.reductions]
                parts = [f.identity for f in folds]
                for place in places:
                    at = positions(frame, own | place)
                    lane = Lane(frame, at, uniform.values, group=GROUP, branches=True)
                    lane.instructions(phase.sweep)
                    values = [lane.values[f.instruction.operands[0]] for f in folds]
                    parts = [f.step(w, p, v) for f, p, v in zip(folds, parts, values, strict=True)]
                uniform.values |= {
                    f.instruction.result: f.result(w, f.widen(w, p))
                    for f, p in zip(folds, parts, strict=True)
                }
            uniform.instructions(tail)
            return []

        w.loop(start, stop, "1", [], row, lanes=True)

    runs(w, frame, variant.order, "%begin", "%end", run, bool(variant.grid))
