"""How many threads run in step, asked of the device: wgpu-native gives bounds, or nothing, where Vulkan knows."""

from __future__ import annotations

import numpy as np

from hologram.backends.webgpu.encoder import Dispatch
from hologram.backends.webgpu.memory import Transfers
from hologram.backends.webgpu.pipeline import Pipelines, Signature
from hologram.machine.kernel import Binding

THREADS = 128
TEXT = f"""
@group(0) @binding(0) var<storage, read_write> out: array<vec2<u32>>;

@compute @workgroup_size({THREADS})
fn main(
    @builtin(local_invocation_index) thread_index: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32) {{
    out[thread_index] = vec2<u32>(size, lane);
}}
"""


def subgroup(pipelines: Pipelines, transfers: Transfers) -> int:
    """Threads of a subgroup; 1 unless each is made of neighbours in a workgroup, in order."""
    pairs = np.empty((THREADS, 2), np.uint32)
    pipeline = pipelines.compile("subgroup", TEXT, "main", Signature((True,), 0, uniform=False))
    with pipelines.encoder.lock:
        memory = transfers.allocate(pairs.nbytes)
        group, offsets = pipelines.bound(pipeline.layout, [Binding(memory, 0, pairs.nbytes)])
        dispatch = Dispatch(pipeline, group, offsets, None, 0, 1, 1, 1, (memory,))
        pipelines.encoder.launch([dispatch])()
        transfers.read(memory, 0, pairs.reshape(-1).view(np.uint8).data)
        pipelines.forget(memory)
        transfers.release(memory)
    size = int(pairs[0, 0])
    regular = size and (pairs[:, 0] == size).all() and (pairs[:, 1] == np.arange(THREADS) % size).all()
    return size if regular else 1
