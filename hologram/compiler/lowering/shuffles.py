"""What threads of a subgroup hand to one another: by the device's own subgroups if these fit, else by shared memory.

A language spells a shuffle over the device's whole subgroup; one of narrower subgroups asks for a thread of those. By
shared memory all threads store, meet, read, and meet again, so that the array can be used once more.
"""

from __future__ import annotations

from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program, SharedArray
from hologram.atlas.rewrite import rewrite
from hologram.compiler.passes import Goal, Pass, Stage
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType


def _apply(program: Program, goal: Goal) -> Program:
    if Opcode.SHUFFLE not in program.opcodes:
        return program
    threads = program.workgroup or 1
    size = goal.limits.subgroup if goal.limits is not None else 1
    whole = size > 1 and threads % size == 0  # every subgroup has all its threads
    spelled = goal.dialect.shuffle if goal.dialect is not None and whole else {}
    taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
    arrays: dict[DType, SharedArray] = {}

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is not Opcode.SHUFFLE:
            return None
        value, number = operands
        width = int(i.attribute or 1)
        thread = b.position(Opcode.THREAD)
        first = thread - thread % width
        if i.type in spelled and size % width == 0:
            within = number if size == width else (first % size).to(dtypes.u32) + number % width
            return b.emit(Opcode.SHUFFLE, i.type, value, within, attribute=size)
        if i.type not in arrays:
            name = f"handed_{i.type.name}"
            while name in taken:
                name += "x"
            arrays[i.type] = b.shared(name, i.type, threads)
        array = arrays[i.type]
        b.shared_store(array, thread, value)
        b.barrier()
        found = b.shared_load(array, first + (number % width).to(dtypes.index))
        b.barrier()
        return found

    return rewrite(program, rule)


SHUFFLES = Pass(
    "shuffles by shared memory",
    "a thread finds what another one stored before all of them met",
    Stage.LANGUAGE,
    _apply,
)
