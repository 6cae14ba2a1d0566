"""What can be said of WebGPU without an adapter."""

from __future__ import annotations

from hologram.foundation import dtypes
from hologram.foundation.conduct import CONDUCT
from hologram.machine.limits import Limits

# WebGPU's own defaults, which every adapter exceeds, on one that has all dtypes.
LIMITS = Limits(
    dtypes=frozenset(dtypes.ALL),
    max_buffer_bytes=256 << 20,
    max_binding_bytes=128 << 20,
    max_bindings=8,
    max_workgroups=65535,
    max_workgroup_threads=256,
    shared_bytes=16 << 10,
    subgroup=1,
    unified_memory=False,
    parallelism=0,
    software=False,
    shortfalls=tuple(sorted(CONDUCT)),
    exact_division=False,
    fused_multiply_add=False,
)
