"""Programs whose parameters share a buffer, rewritten into ones WebGPU allows.

WebGPU tracks whole buffers: one may not be bound read-only and read-write in a dispatch, even at disjoint ranges. And
two writable variables may not overlap. So parameters bound to the same range become one parameter, and where
different ranges of one buffer meet, every parameter is declared read-write. Hand-written kernels always are.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.program import Access, Launchable
from hologram.machine.kernel import Binding


def shared_parameters(program: Launchable, bindings: Sequence[Binding]) -> tuple[int, ...]:
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


def written_parameters(program: Launchable, bindings: Sequence[Binding]) -> tuple[int, ...]:
    """As `shared_parameters`, where all are declared read-write: what is written is merged with what is read there.

    That is the same for all launches of one structure; whether two that are only read are one memory is not.
    """
    pairs = list(zip(program.buffers, bindings, strict=True))
    written = {(b.memory, b.offset) for p, b in pairs if p.access is not Access.READ}
    first: dict[tuple, int] = {}
    return tuple(
        first.setdefault((b.memory, b.offset, p.dtype), k) if (b.memory, b.offset) in written else k
        for k, (p, b) in enumerate(pairs)
    )


def mixed_access(program: Launchable, bindings: Sequence[Binding], shared: Sequence[int]) -> bool:
    """Whether, after merging, a memory is bound to one parameter that is only read and to another that is written."""
    written = {s for p, s in zip(program.buffers, shared, strict=True) if p.access is not Access.READ}
    written_memories = {bindings[s].memory for s in written}
    return any(s not in written and bindings[s].memory in written_memories for s in shared)
