"""Programs whose parameters share a buffer, rewritten into ones WebGPU allows.

WebGPU tracks whole buffers: one may not be bound read-only and read-write in a dispatch, even at disjoint ranges. And
two writable variables may not overlap. So parameters bound to the same range become one parameter, and where
different ranges of one buffer meet, every parameter is declared read-write. Hand-written kernels always are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hologram.atlas.opcodes import BUFFER_ACCESSES
from hologram.atlas.program import Access, Block, BufferParameter, Instruction, Program
from hologram.device import Binding


def shared_parameters(program: Program, bindings: Sequence[Binding]) -> tuple[int, ...]:
    """For each parameter the first one that is the same memory, if the two must be merged; else its own position.

    Parameters of different dtypes are left apart: each lane of such a program (a cast in place, say) reads its element
    before it writes it, which the data flow orders.
    """
    first: dict[tuple, int] = {}
    merged = []
    writes = {b.memory for p, b in zip(program.buffers, bindings, strict=True) if p.access is not Access.READ}
    for position, (parameter, binding) in enumerate(zip(program.buffers, bindings, strict=True)):
        key = (binding.memory, binding.offset, parameter.dtype)
        merged.append(first.setdefault(key, position) if binding.memory in writes else position)
    return tuple(merged)


def mixed_access(program: Program, bindings: Sequence[Binding], shared: Sequence[int]) -> bool:
    """Whether, after merging, a memory is bound to one parameter that is only read and to another that is written."""
    written = {s for p, s in zip(program.buffers, shared, strict=True) if p.access is not Access.READ}
    written_memories = {bindings[s].memory for s in written}
    return any(s not in written and bindings[s].memory in written_memories for s in shared)


def merge(program: Program, shared: Sequence[int]) -> Program:
    """The program with each parameter replaced by the one `shared` names for it, which is then read and written."""
    kept = sorted(set(shared))
    names = {b.name: program.buffers[shared[k]].name for k, b in enumerate(program.buffers)}
    buffers = []
    for position in kept:
        accesses = {program.buffers[k].access for k, s in enumerate(shared) if s == position}
        buffer = program.buffers[position]
        access = buffer.access if len(accesses) == 1 else Access.READ_WRITE
        buffers.append(BufferParameter(buffer.name, buffer.dtype, access))
    return replace(program, buffers=tuple(buffers), body=_rename(program.body, names))


def _rename(block: Block, names: Mapping[str, str]) -> Block:
    def instruction(i: Instruction) -> Instruction:
        attribute = names[str(i.attribute)] if i.opcode in BUFFER_ACCESSES else i.attribute
        return replace(i, attribute=attribute, blocks=tuple(_rename(b, names) for b in i.blocks))

    return replace(block, instructions=tuple(instruction(i) for i in block.instructions))
