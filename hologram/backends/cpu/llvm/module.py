"""Atlas programs as LLVM IR: the text of a module with one function for each step of a launch.

Every function is `void name(ptr arguments, i64 begin, i64 end)`: a slice of the outermost work, so that any number of
threads can share a launch. Buffers need no `noalias`: lanes are independent by definition, which the loops say
(`llvm.loop.parallel_accesses`), so a launch that binds one memory twice runs the same vector code and is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram.atlas.program import Program
from hologram.backends.cpu.llvm.columns import column_body
from hologram.backends.cpu.llvm.loops import map_body, row_body
from hologram.backends.cpu.llvm.nontemporal import stream_body
from hologram.backends.cpu.llvm.scatter import joined_body, own_body
from hologram.backends.cpu.llvm.short import short_body
from hologram.backends.cpu.llvm.split import phase_body, tail_body
from hologram.backends.cpu.llvm.together import together_body
from hologram.backends.cpu.llvm.workgroups import workgroup_body
from hologram.backends.cpu.llvm.writer import Writer
from hologram.compiler.analysis.phases import rows
from hologram.compiler.scheduling.loops import Variant


def module(program: Program, variant: Variant, width: int) -> tuple[str, tuple[str, ...]]:
    """The IR and its functions' names in the order they run. `width`: bits of the vectors to prefer."""
    attributes = f'nounwind "prefer-vector-width"="{width}"'
    bodies = _bodies(program, variant)
    texts, names, declarations, metadata = [], [], set[str](), ["distinct !{}"]
    for stem, emit in bodies:
        w = Writer(metadata)
        bounds = "%begin", "%end"
        if variant.grid:
            total = math.prod(variant.grid[: len(variant.grid) - program.reduced])
            w.do("%begin = add i64 0, 0")
            w.do(f"%end = add i64 {total}, 0")
            bounds = "%first", "%last"
        emit(w)
        w.do("ret void")
        name = f"{program.name}.{stem}"
        names.append(name)
        told = ", ".join(f"i64 {bound}" for bound in bounds)
        texts.append(w.function(f'void @"{name}"(ptr noalias %arguments, {told})', attributes))
        declarations |= w.declarations
    nodes = [f"!{number} = {text}" for number, text in enumerate(metadata)]
    return "\n\n".join(["\n".join(sorted(declarations)), *texts, "\n".join(nodes), ""]), tuple(names)


def _bodies(program: Program, variant: Variant) -> list[tuple[str, Callable[[Writer], None]]]:
    if variant.form == "map":
        return [("all", lambda w: map_body(w, program, variant))]
    if variant.form == "together":
        return [("all", lambda w: together_body(w, program, variant))]
    if variant.form == "scatter":
        return [
            ("own", lambda w: own_body(w, program, variant)),
            ("joined", lambda w: joined_body(w, program, variant)),
        ]
    if variant.form == "stream":
        return [("all", lambda w: stream_body(w, program, variant))]
    if variant.form == "workgroup":
        return [("all", lambda w: workgroup_body(w, program, variant))]
    swept = rows(program, variant.early)
    phases, tail = swept.phases, swept.tail
    if variant.form == "row":
        return [("all", lambda w: row_body(w, program, variant, phases, tail))]
    if variant.form == "short":
        return [("all", lambda w: short_body(w, program, variant, phases, tail))]
    if variant.form == "columns":
        return [("all", lambda w: column_body(w, program, variant, phases, tail))]
    steps: list[tuple[str, Callable[[Writer], None]]] = [
        (f"phase{k}", lambda w, k=k: phase_body(w, program, variant, phases, k))
        for k, phase in enumerate(phases)
        if phase.sweep or phase.reductions
    ]
    return [*steps, ("tail", lambda w: tail_body(w, program, variant, phases, tail))]
