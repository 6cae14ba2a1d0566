"""What each way of talking to wgpu costs the host: a row a way.

The figures in docs/design/webgpu.md come from here. Rows are measured in turns, so that a busy machine slows all alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.backends import webgpu
from hologram.backends.webgpu.device import WebGPUDevice
from hologram.benchmark.suites import Goal, Result, Suite, result
from hologram.benchmark.timing import Pace, in_turns
from hologram.foundation.dtypes import f32
from hologram.machine.kernel import Binding

LAUNCHES = 100
WARM = 2  # turns that do not count


def axpy() -> Program:
    """y = a * x + y."""
    b = Builder("atlas_axpy_f32")
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.READ_WRITE)
    a, i = b.scalar("a", f32), b.coordinate(0)
    b.store(y, i, a * b.load(x, i) + b.load(y, i))
    return b.build()


def launches(device: WebGPUDevice, batch: int) -> Callable[[], float]:
    """Host time of a launch, submission included, with so many launches a submission."""
    kernel = device.compile(axpy())
    bindings = [Binding(device.allocate(4096), 0, 4096) for _ in range(2)]
    launch = kernel.bind(bindings, (2.0,), (1024,))

    def run() -> float:
        device.encoder.batch = batch
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        device.flush()
        spent = time.perf_counter() - start
        device.synchronize()
        return spent / LAUNCHES

    return run


def binding(device: WebGPUDevice, cached: bool) -> Callable[[], float]:
    """Host time of binding a kernel to memory, its bind group cached or not."""
    kernel = device.compile(axpy())
    bindings = [Binding(device.allocate(4096), 0, 4096) for _ in range(2)]

    def run() -> float:
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            if not cached:
                device.pipelines.forget(bindings[0].memory)
            kernel.bind(bindings, (2.0,), (1024,))
        return (time.perf_counter() - start) / LAUNCHES

    return run


def transfer(device: WebGPUDevice, nbytes: int, mapped: bool, write: bool) -> Callable[[], float]:
    """Host time of a read, or of a write and what makes it complete."""
    memory = device.allocate(nbytes)
    data = memoryview(np.zeros(nbytes, np.uint8))

    def run() -> float:
        mappable, device.transfers.mappable = device.transfers.mappable, mapped
        start = time.perf_counter()
        if write:
            device.write(memory, 0, data)
            device.synchronize()
        else:
            device.read(memory, 0, data)
        spent = time.perf_counter() - start
        device.transfers.mappable = mappable
        return spent

    return run


def through_wgpu_py(one_pass: bool) -> Callable[[], float]:
    """The same launches through wgpu-py's objects, a submission each or one for all."""
    import wgpu

    device = wgpu.gpu.request_adapter_sync().request_device_sync()
    buffers = [device.create_buffer(size=4096, usage="STORAGE | COPY_SRC") for _ in range(2)]
    code = """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = 2.0 * x[id.x] + y[id.x]; }"""
    module = device.create_shader_module(code=code)
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": "main"}
    )
    entries = [{"binding": k, "resource": {"buffer": b}} for k, b in enumerate(buffers)]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)

    def batch(count: int) -> None:
        encoder = device.create_command_encoder()
        pass_ = encoder.begin_compute_pass()
        for _ in range(count):
            pass_.set_pipeline(pipeline)
            pass_.set_bind_group(0, group)
            pass_.dispatch_workgroups(16)
        pass_.end()
        device.queue.submit([encoder.finish()])

    def run() -> float:
        start = time.perf_counter()
        for _ in range(1 if one_pass else LAUNCHES):
            batch(LAUNCHES if one_pass else 1)
        spent = time.perf_counter() - start
        device.queue.read_buffer(buffers[1], size=4)  # waits
        return spent / LAUNCHES

    return run


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    device = webgpu.open_device(0)
    chosen = device.encoder.batch
    rows: dict[str, Callable[[], float]] = {
        f"launch, {chosen} a submission (ours)": launches(device, chosen),
        "launch, 64 a submission": launches(device, 64),
        "launch, 16 a submission": launches(device, 16),
        "launch, a submission each": launches(device, 1),
        "launch through wgpu-py, one pass": through_wgpu_py(one_pass=True),
        "launch through wgpu-py, a submission each": through_wgpu_py(one_pass=False),
        "bind, group cached": binding(device, cached=True),
        "bind, new group": binding(device, cached=False),
    }
    ways = (True, False) if device.transfers.mappable else (False,)
    for nbytes in (4096, 1 << 20, 64 << 20):
        for write in (True, False):
            for mapped in ways:
                name = f"{'write' if write else 'read'} {nbytes} bytes, {'mapped' if mapped else 'staged'}"
                rows[name] = transfer(device, nbytes, mapped, write)
    takers = {name: lambda _, run=run: run() for name, run in rows.items()}
    turns, _ = in_turns(takers, range(2 * pace.turns + WARM))
    for name, spent in turns.items():
        yield result(name, "", {"hologram": spent[WARM:]}, {}, Goal(), "hologram")
    device.close()


SUITES = (Suite("wgpu", "webgpu", own_rows=own_rows),)
