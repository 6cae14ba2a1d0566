"""Adapters that fail in the middle, or are not what they say: the named error, and an executor that goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import f32


@pytest.fixture
def executor(index: int) -> Iterator[hg.Executor]:
    """One of its own, which the test may break."""
    executor = hg.Executor("webgpu", index)
    yield executor
    if not executor.closed:
        executor.close()


def computes(executor: hg.Executor) -> None:
    x = np.linspace(-1, 1, 100).astype(np.float32)
    got = hg.softmax(executor.tensor(x) * 2.0, dim=-1).to_numpy()
    assert np.allclose(got, np.exp(2 * x) / np.exp(2 * x).sum(), rtol=1e-5)


def lose(executor: hg.Executor) -> None:
    device: Any = executor.device
    device.encoder.lib.wgpuDeviceDestroy(device.encoder.device.handle)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_device_that_is_lost_in_the_middle(jitted: bool, executor: hg.Executor) -> None:
    function = (hg.jit if jitted else lambda f: f)(lambda x: hg.softmax(x * 3.0, dim=-1) + 1.0)
    x = executor.tensor(np.ones((8, 100), np.float32))
    function(x)
    lose(executor)
    for _ in range(2):
        with pytest.raises(hg.DeviceLost, match="was lost"):
            function(x).to_numpy()
    with pytest.raises(hg.DeviceLost):
        executor.close()
    with hg.Executor("webgpu", executor.device.info.index) as other:
        computes(other)


def adding(buffers: int) -> Program:
    b = Builder("atlas_many", workgroup=None)
    read = [b.buffer(f"x{k}", f32, Access.READ) for k in range(buffers - 1)]
    out, here = b.buffer("out", f32, Access.WRITE), b.coordinate(0)
    total = b.load(read[0], here)
    for x in read[1:]:
        total = total + b.load(x, here)
    b.store(out, here, total)
    return b.build()


def filling(threads: int) -> Program:
    b = Builder("atlas_wide", workgroup=threads)
    b.store(b.buffer("out", f32, Access.WRITE), b.coordinate(0), 1.0)
    return b.build()


def run(program: Program, size: int) -> Callable[[hg.Executor], None]:
    def run(executor: hg.Executor) -> None:
        executor.run(program, {b.name: executor.allocate(size) for b in program.buffers}, lanes=size)

    return run


def too_large(executor: hg.Executor) -> None:
    size = executor.device.encoder.device.adapter.limits["maxStorageBufferBindingSize"] // 4 + 64  # type: ignore
    _ = executor.as_tensor(executor.allocate(size)) + 1.0


LIES = {
    "max_workgroup_threads": (1 << 20, run(filling(1 << 16), 1 << 16), hg.CompileError, "atlas_wide"),
    "max_bindings": (1000, run(adding(200), 8), hg.CompileError, "atlas_many"),
    "max_binding_bytes": (1 << 40, too_large, hg.HologramError, "exceeds"),
}


@pytest.mark.parametrize("limit", LIES)
def test_a_limit_that_is_not_kept(limit: str, executor: hg.Executor) -> None:
    value, attempt, error, message = LIES[limit]
    info = executor.device.info
    executor.device.describe(replace(info, limits=replace(info.limits, **{limit: value})))
    computes(executor)
    with pytest.raises(error, match=message):
        attempt(executor)
    computes(executor)


@pytest.mark.parametrize("lasting", [False, True])
def test_no_room_for_the_third_of_five_buffers(
    lasting: bool, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers, made = executor.device.transfers, 0  # type: ignore[attr-defined]
    create = transfers._create  # noqa: SLF001  an error planted: memory is full

    def full(size: int, usage: int) -> Any:
        nonlocal made
        made += 1
        if made == 3 or (lasting and made > 3):
            raise hg.OutOfMemory("webgpu: there is no room")
        return create(size, usage)

    chunk = (20 << 20) // 4
    computes(executor)
    with monkeypatch.context() as patched:
        patched.setattr(transfers, "_create", full)  # private: an error planted
        kept = [executor.full(chunk, float(k)) for k in range(2)]
        for k in range(2, 5):
            if lasting:
                with pytest.raises(hg.OutOfMemory, match="no room"):
                    executor.full(chunk, float(k))
            else:  # what is cached is handed back, and the buffer asked for again
                kept.append(executor.full(chunk, float(k)))
        computes(executor)
    kept += [executor.full(chunk, 7.0) for _ in range(2)]
    assert [k[-1].item() for k in kept][:2] == [0.0, 1.0]
    computes(executor)
