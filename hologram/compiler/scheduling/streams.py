"""Large results that are stored past the caches: which maps have one, and when it is worth it."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import BufferParameter, Instruction, Program
from hologram.compiler.analysis.accesses import Reference
from hologram.compiler.passes import Place
from hologram.compiler.scheduling.orders import VECTOR_BYTES

Extent = tuple[int, int, BufferParameter]  # address, bytes, parameter
_STREAM_BYTES = 16 << 20  # a result as large as this is not in a cache when it is read next


def streamed_store(program: Program) -> Instruction | None:
    """The program's one store, if strips can be made of it: a map of one axis whose store is unconditional."""
    stores = [i for i in program.body.walk() if i.opcode is Opcode.STORE]
    fits = (
        program.rank == 1
        and not program.reduced
        and len(stores) == 1
        and stores[0] in program.body.instructions
    )
    return stores[0] if fits and program.buffer(str(stores[0].attribute)).dtype.kind != "bool" else None


def streams(
    store: Instruction | None,
    accesses: Sequence[Reference],
    extents: Sequence[Extent],
    guarded: frozenset[Place],
) -> bool:
    """Whether a map's result is large, lies in one aligned piece, and is not an operand as well."""
    if store is None or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    site = next(s for s in accesses if s.instruction == store)
    if site.place in guarded or site.stride(0) != 1 or site.range is None:
        return False
    target, size, parameter = next(e for e in extents if e[2].name == str(store.attribute))
    width = parameter.dtype.itemsize
    written = (site.range.high + 1 - site.range.low) * width
    apart = not any(a < target + size and target < a + n for a, n, p in extents if p is not parameter)
    return written >= _STREAM_BYTES and (target + site.range.low * width) % VECTOR_BYTES == 0 and apart
