"""What can be said of Metal without a device."""

from __future__ import annotations

from hologram.foundation import dtypes
from hologram.machine.limits import Limits

# Of Apple's GPUs since the M1; sizes in memory are of no consequence for source.
LIMITS = Limits(
    dtypes=frozenset(d for d in dtypes.ALL if d.part is not dtypes.f64),
    max_buffer_bytes=2**40,
    max_binding_bytes=2**40,
    max_bindings=29,  # of 31 arguments; one is the parameters, one an epilogue
    max_workgroups=65535,
    max_workgroup_threads=1024,
    shared_bytes=32 << 10,
    subgroup=32,
    matrix_dtypes=frozenset({dtypes.f16, dtypes.bf16, dtypes.f32}),
    matrix_attention=True,
    unified_memory=True,
    parallelism=0,
    software=False,
)
