"""Additions to f32 in memory as one instruction, where the adapter has it (ShaderFloat32Atomic)."""

from __future__ import annotations

from dataclasses import replace

from hologram.atlas.opcodes import Opcode
from hologram.compiler.dialect import Dialect
from hologram.foundation.dtypes import f32

O = Opcode
_ADD, _EXCHANGE = (f"atomic{name}(&{{buffer}}[{{position}}], {{value}})" for name in ("Add", "Exchange"))


def with_float_atomics(dialect: Dialect) -> Dialect:
    """The dialect, whose buffers of floats that are added to are atomics of floats; workgroup memory has none."""
    added = (O.ATOMIC_ADD, f32)
    helpers = {key: text for key, text in dialect.helpers.items() if key != added}
    return replace(
        dialect,
        atomic_loads={**dialect.atomic_loads, f32: "atomicLoad(&{buffer}[{position}])"},
        atomic_stores={**dialect.atomic_stores, f32: "atomicStore(&{buffer}[{position}], {value});"},
        atomics={**dialect.atomics, added: _ADD, (O.ATOMIC_EXCHANGE, f32): _EXCHANGE},
        helpers=helpers | {(("shared", O.ATOMIC_ADD), f32): dialect.helpers[added]},
    )
