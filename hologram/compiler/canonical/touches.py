"""Which kinds of memory instructions read and change: what ends an epoch, and what has to be computed within one."""

from __future__ import annotations

from collections.abc import Collection

from hologram.atlas.opcodes import ATOMICS, Opcode
from hologram.atlas.program import Block, Instruction
from hologram.foundation.frozen import frozen

GLOBAL, SHARED, LOCAL = range(3)
# Of what is loaded.
KINDS = {
    Opcode.LOAD: GLOBAL,
    Opcode.SHARED_LOAD: SHARED,
    Opcode.SHARED_AGREED: SHARED,
    Opcode.LOCAL_LOAD: LOCAL,
}
_GLOBAL_EFFECTS = ATOMICS | {Opcode.STORE, Opcode.BARRIER}
_SHARED_EFFECTS = frozenset({Opcode.SHARED_STORE, Opcode.BARRIER})


@frozen
class Touches:
    """What a block does to each kind of memory."""

    loads: tuple[bool, ...]
    effects: tuple[bool, ...]


def ended(i: Instruction, shared: Collection[str]) -> tuple[bool, ...]:
    """The kinds of memory that an instruction changes; `shared` are the names of shared arrays."""
    on_shared = i.opcode in ATOMICS and i.attribute in shared
    return (
        i.opcode in _GLOBAL_EFFECTS and not on_shared,
        i.opcode in _SHARED_EFFECTS or on_shared,
        i.opcode is Opcode.LOCAL_STORE,
    )


def touched(block: Block, shared: Collection[str]) -> Touches:
    """What a block and its inner ones do."""
    walk = [*block.walk()]
    loads = {KINDS.get(i.opcode) for i in walk}
    effects = [ended(i, shared) for i in walk]
    return Touches(
        tuple(kind in loads for kind in (GLOBAL, SHARED, LOCAL)),
        tuple(any(e[kind] for e in effects) for kind in (GLOBAL, SHARED, LOCAL)),
    )
