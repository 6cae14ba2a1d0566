"""Bounds checks where a language has none and positions cannot be proven inside: what misses its buffer does nothing.

The lengths of buffers, in elements, become scalars of the launch, behind the program's own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hologram.atlas.builder import Builder, Value, select
from hologram.atlas.opcodes import ACCESSES, EFFECTS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.analysis.ranges import Place
from hologram.dtypes import index


def guarded(program: Program, places: Collection[Place], *, signed: bool) -> tuple[Program, tuple[int, ...]]:
    """The program with these accesses checked, and the buffers, by number, whose lengths follow its scalars.

    A load outside is one of the first element, of which every buffer's memory has room; a store is left out, an atomic
    gives 0. `signed`: an index of the language may be negative; else it wraps to one that is too large.
    """
    if not places:
        return program, ()
    sizes = {s.name: s.size for s in program.shared}
    taken = {*sizes, *(p.name for p in (*program.buffers, *program.scalars))}
    lengths = {b.name: _free(f"{b.name}_length", taken) for b in program.buffers}

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
        name = str(i.attribute)
        if not i.operands or (name, i.operands[0]) not in places or i.opcode not in ACCESSES:
            return None
        position, *value = operands
        inside = position < (sizes[name] if name in sizes else b.scalar(lengths[name], index))
        inside = (position >= 0) & inside if signed else inside
        if i.opcode not in EFFECTS:
            return b.emit(i.opcode, i.type, select(inside, position, 0), attribute=name)
        if i.results:
            (found,) = b.if_(
                inside,
                lambda: (b.emit(i.opcode, i.type, position, *value, attribute=name),),
                lambda: (b.constant(0, i.type),),
            )
            return found
        array = next(a for a in (*program.buffers, *program.shared) if a.name == name)
        store = b.store if i.opcode is Opcode.STORE else b.shared_store
        b.if_(inside, lambda: store(array, position, *value), lambda: None)  # type: ignore[arg-type]
        return ()

    result = rewrite(program, rule)
    numbers = {lengths[b.name]: k for k, b in enumerate(program.buffers)}
    return result, tuple(numbers[s.name] for s in result.scalars[len(program.scalars) :])


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
