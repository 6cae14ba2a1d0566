"""What can be said of CUDA without a device."""

from __future__ import annotations

from hologram.foundation import dtypes
from hologram.machine.limits import Limits

# Of every architecture from Turing on; sizes in memory are of no consequence for source.
LIMITS = Limits(
    dtypes=frozenset(dtypes.ALL),
    max_buffer_bytes=2**40,
    max_binding_bytes=2**40,
    max_bindings=128,
    max_workgroups=65535,
    max_workgroup_threads=1024,
    shared_bytes=48 << 10,
    subgroup=32,
    unified_memory=False,
    parallelism=0,
    software=False,
    matrix_dtypes=frozenset({dtypes.f16}),
    copies_ahead=True,
    matrix_attention=True,
)
