"""Epilogues: element-wise programs that a tile applies to its results, and what runs them where no tile does.

An epilogue has two axes, the rows and columns of all results taken as one matrix. It loads the buffer `value` at its
own position, stores `result` there, both of the dtype that results are accumulated in, and may load further buffers at
positions made of row and column. Of a batch of products (batch, m, n) the row is batch * m + row; of a convolution
(images, channels, places) the row is image * places + place, and the column the channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, BufferParameter, Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.atlas.ssa import deep, sources
from hologram.foundation.dtypes import DType
from hologram.machine.layout import Layout
from hologram.machine.plan import Step
from hologram.opset.forms.steps import Place, Steps

ENDS = ("value", "result")


def epilogue_reads(epilogue: Program | None) -> tuple[BufferParameter, ...]:
    """The buffers that only the epilogue reads, as a tile declares them."""
    if epilogue is None:
        return ()
    return tuple(b for b in epilogue.buffers if b.name not in ENDS)


@lru_cache(maxsize=256)
def reads_rows(epilogue: Program) -> bool:
    """Whether results depend on the row but by `value`: parts of the rows then cannot run as if they were alone."""
    *body, store = epilogue.body.instructions
    needed = sources(body, store.operands[1:], ends=_is_value)
    return any(
        i.opcode is Opcode.LANE or (i.opcode is Opcode.COORDINATE and i.attribute == 0) for i in deep(needed)
    )


def _is_value(i: Instruction) -> bool:
    return i.opcode is Opcode.LOAD and i.attribute == "value"


def add_epilogue(
    steps: Steps,
    epilogue: Program,
    value: Place,
    reads: Sequence[int],
    target: Place,
    columns: int,
    parts: int = 1,
) -> None:
    """Appends the epilogue as the element-wise program it is.

    `target` has `columns` for its last axis; `reads` are the positions of what else the epilogue reads. Values and
    results that lie otherwise than row by row go through scratch memory, and so do values of another dtype. Of several
    `parts`, one behind the other in `value`, the sum is the epilogue's value.
    """
    shape = target.layout.shape
    dtype = epilogue.buffer("value").dtype
    lying = Layout.contiguous(dtype, value.layout.shape)
    if value.layout != lying:
        given, value = value, steps.place(dtype, lying.shape)
        steps.copy(given, value)
    program = epilogue if parts == 1 else summing(epilogue, parts)
    stored = target.layout.dtype
    direct = target.layout.is_contiguous and not target.layout.offset and (stored == dtype or stored.is_float)
    result = target if direct else steps.place(dtype, shape)
    if direct and stored != dtype:
        program = storing(program, stored)
    ends = {"value": value.position, "result": result.position}
    further = iter(reads)
    places = [ends[b.name] if b.name in ends else next(further) for b in program.buffers]
    steps.add(Step(program, tuple(range(len(places))), (), (result.layout.size // columns, columns)), places)
    if result is not target:
        steps.copy(result, target)


@lru_cache(maxsize=64)
def identity(dtype: DType) -> Program:
    """The epilogue that leaves results as they are."""
    b = Builder(f"atlas_epilogue_none_{dtype}", rank=2)
    place = b.position(Opcode.LANE)
    value = b.load(b.buffer("value", dtype, Access.READ), place)
    b.store(b.buffer("result", dtype, Access.WRITE), place, value)
    return b.build()


@lru_cache(maxsize=256)
def storing(epilogue: Program, dtype: DType) -> Program:
    """The epilogue as a program of its own whose result has another dtype."""

    def converted(buffer: BufferParameter) -> BufferParameter:
        return replace(buffer, dtype=dtype) if buffer.name == "result" else buffer

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> tuple[()] | None:
        if i.opcode is not Opcode.STORE:
            return None
        b.store(converted(epilogue.buffer("result")), operands[0], operands[1].to(dtype))
        return ()

    rewritten = rewrite(epilogue, rule, parameters=Parameters(buffer=converted))
    return replace(rewritten, name=f"{epilogue.name}_to_{dtype}")


@lru_cache(maxsize=256)
def summing(epilogue: Program, parts: int) -> Program:
    """The epilogue of the sum of `parts` values, each as many elements behind the one before as there are results."""

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is not Opcode.LOAD or i.attribute != "value":
            return None
        place, size = operands[0], b.extent(0) * b.extent(1)
        total = b.load(epilogue.buffer("value"), place)
        for _ in range(1, parts):
            place = place + size
            total = total + b.load(epilogue.buffer("value"), place)
        return total

    return replace(rewrite(epilogue, rule), name=f"{epilogue.name}_of_{parts}")


@lru_cache(maxsize=256)
def turned(epilogue: Program) -> Program:
    """The epilogue of results that lie column by column: on a grid of (batch, columns, rows of one of the batch)."""

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
        rows, columns = b.extent(2), b.extent(1)
        match i.opcode:
            case Opcode.LOAD if i.attribute == "value":
                return b.load(epilogue.buffer("value"), b.position(Opcode.LANE))
            case Opcode.STORE:
                b.store(epilogue.buffer("result"), b.position(Opcode.LANE), operands[1])
                return ()
            case Opcode.EXTENT:
                return columns if i.attribute == 1 else b.extent(0) * rows
            case Opcode.COORDINATE if i.attribute == 1:
                return b.coordinate(1)
            case Opcode.COORDINATE:
                return b.coordinate(0) * rows + b.coordinate(2)
            case Opcode.LANE:
                return (b.coordinate(0) * rows + b.coordinate(2)) * columns + b.coordinate(1)
            case _:
                return None

    return replace(rewrite(replace(epilogue, rank=3), rule), name=f"{epilogue.name}_turned")
