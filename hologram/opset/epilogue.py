"""Epilogues: element-wise programs that a tile applies to its results, and what runs them where no tile does.

An epilogue has two axes, the rows and columns of all results taken as one matrix. It loads the buffer `value` at its
own position, stores `result` there, both of the dtype that results are accumulated in, and may load further buffers at
positions made of row and column. Of a batch of products (batch, m, n) the row is batch * m + row; of a convolution
(images, channels, places) the row is image * places + place, and the column the channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Program
from hologram.dtypes import DType
from hologram.opset.layout import Layout
from hologram.opset.plan import Step
from hologram.opset.steps import Place, Steps

ENDS = ("value", "result")


def epilogue_reads(epilogue: Program | None) -> tuple[tuple[str, DType, str], ...]:
    """The buffers that only the epilogue reads, as a tile declares them."""
    if epilogue is None:
        return ()
    return tuple((b.name, b.dtype, "read") for b in epilogue.buffers if b.name not in ENDS)


@lru_cache(maxsize=256)
def reads_rows(epilogue: Program) -> bool:
    """Whether results depend on the row but by `value`: parts of the rows then cannot run as if they were alone."""
    *body, store = epilogue.body.instructions
    needed = {store.operands[1]}
    for i in reversed(body):
        if not needed & set(i.results) or (i.opcode is Opcode.LOAD and i.attribute == "value"):
            continue
        for inner in Block((i,)).walk():
            if inner.opcode is Opcode.LANE or (inner.opcode is Opcode.COORDINATE and inner.attribute == 0):
                return True
            needed |= {*inner.operands, *(v for block in inner.blocks for v in block.yields)}
    return False


def add_epilogue(
    steps: Steps, epilogue: Program, value: Place, reads: Sequence[int], target: Place, columns: int
) -> None:
    """Appends the epilogue as the element-wise program it is.

    `value` and `target` have one shape, whose last axis are the columns; `reads` are the positions of what else it
    reads. Values and results that lie otherwise than row by row, or in another dtype, go through scratch memory.
    """
    shape = value.layout.shape
    needed = Layout.contiguous(epilogue.buffer("value").dtype, shape)
    if value.layout != needed:
        given, value = value, steps.place(needed.dtype, shape)
        steps.copy(given, value)
    result = target if target.layout == needed else steps.place(needed.dtype, shape)
    ends = {"value": value.position, "result": result.position}
    further = iter(reads)
    places = [ends[b.name] if b.name in ends else next(further) for b in epilogue.buffers]
    steps.add(Step(epilogue, tuple(range(len(places))), (), (needed.size // columns, columns)), places)
    if result is not target:
        steps.copy(result, target)
