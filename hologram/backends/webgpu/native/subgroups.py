"""How many threads run in step, asked of the device: wgpu-native gives bounds, or nothing, where Vulkan knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hologram.backends.webgpu.encoder import Dispatch
from hologram.backends.webgpu.pipeline import Signature
from hologram.device import Binding

if TYPE_CHECKING:
    from hologram.backends.webgpu.device import WebGPUDevice

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


def subgroup(device: WebGPUDevice) -> int:
    """Threads of a subgroup; 1 unless each is made of neighbours in a workgroup, in order."""
    found = np.empty((THREADS, 2), np.uint32)
    pipeline = device.pipelines.compile("subgroup", TEXT, "main", Signature((True,), 0, uniform=False))
    memory = device.allocate(found.nbytes)
    group = device.pipelines.group(pipeline.layout, [Binding(memory, 0, found.nbytes)])
    device.encoder.launch([Dispatch(pipeline.handle, group, None, 0, 1, 1, 1, (memory,))])()
    device.read(memory, 0, found.data)
    device.release(memory)
    size = int(found[0, 0])
    regular = size and (found[:, 0] == size).all() and (found[:, 1] == np.arange(THREADS) % size).all()
    return size if regular else 1
