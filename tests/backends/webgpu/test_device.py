"""Probing, opening and forking: what happens around a WebGPU device rather than on it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from hologram.backends import webgpu
from hologram.backends.webgpu.native import probing
from hologram.foundation import dtypes
from hologram.foundation.errors import BackendUnavailable, HologramError, ShapeError
from hologram.machine.kernel import Binding
from hologram.machine.plan import Tile, reading, told, writing


def test_the_probe_tells_what_is_there(index):
    found = webgpu.probe()
    assert found is webgpu.probe()
    kinds = [dict(d.details)["kind"] for d in found.devices]
    assert kinds == sorted(kinds, key=["discrete", "integrated", "unknown", "cpu"].index)
    for position, device in enumerate(found.devices):
        assert device.backend == "webgpu"
        assert device.index == position
        assert dict(device.details)["api"] in ("vulkan", "metal", "d3d12")
        assert device.limits.software == (dict(device.details)["kind"] == "cpu")
        assert device.limits.max_binding_bytes >= 128 << 20
        assert {dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.i8, dtypes.bool_} <= device.limits.dtypes


def test_probing_is_quiet_and_importing_loads_nothing(index):
    code = (
        "import sys, hologram.backends.webgpu as w; assert 'wgpu' not in sys.modules;"
        "w.open_device(0).close(); assert 'wgpu' in sys.modules"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("XDG_RUNTIME_DIR", "NODEVICE_SELECT")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_device_left_open_ends_quietly(index):
    code = (
        "import gc, hologram.backends.webgpu as w\n"
        "def use():\n    d = w.open_device(0); m = d.allocate(64); d.fill(m, 0, 64, b'x')\n"
        "use(); gc.collect(); d = w.open_device(0); m = d.allocate(64); d.fill(m, 0, 64, b'x')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_wgpu_and_no_adapter_say_what_to_do(monkeypatch):
    def missing():
        raise ImportError("No module named 'wgpu'")

    monkeypatch.setattr(probing, "adapters", missing)
    found = probing.probe.__wrapped__()
    assert not found.available
    assert "pip install 'wgpu" in found.remedy
    with monkeypatch.context() as old:
        old.setattr(probing.metadata, "version", lambda name: "0.31.0")
        assert probing.probe.__wrapped__().reason == "wgpu 0.31.0 is too old"
    monkeypatch.setattr(probing, "adapters", lambda: ())
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(probing.metadata, "version", lambda name: "0.32.0")
    monkeypatch.setattr(probing, "library", lambda: SimpleNamespace(forked=False))
    found = probing.probe.__wrapped__()
    assert "no Vulkan adapter" in found.reason
    assert "mesa-vulkan-drivers" in found.remedy


def test_opening_what_is_not_there(index):
    with pytest.raises(BackendUnavailable, match="no device 99"):
        webgpu.open_device(99)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told(device, upload):
    memory = upload(np.arange(4, dtype=np.uint32))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = b""
        try:
            device.read(memory, 0, memoryview(bytearray(16)))
        except HologramError as error:
            said = str(error).encode()
        os.write(writer, said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert b"forked" in pipe.read()
    os.waitpid(child, 0)
    out = np.zeros(4, np.uint32)
    device.read(memory, 0, memoryview(out).cast("B"))
    np.testing.assert_array_equal(out, np.arange(4))


SHADER = """// y = x + shift. Each thread takes one element.
struct Params { shift: u32, size: u32 }
@group(0) @binding(PARAMS) var<uniform> params: Params;
@group(0) @binding(0) var<storage, read_write> x: array<T>;
@group(0) @binding(1) var<storage, read_write> y: array<T>;
@compute @workgroup_size(WORKGROUP_X)
fn atlas_shift(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.size) { y[id.x] = x[id.x] + params.shift; }
}
"""


def test_a_hand_written_kernel(device, upload, download, monkeypatch):
    monkeypatch.setattr("hologram.compiler.source.shader.source", lambda file: SHADER)
    buffers = (*reading(dtypes.u32, "x"), *writing(dtypes.u32, "y"))
    tile = Tile("shift", buffers, told(dtypes.u32, "shift", "size"), types=(("T", dtypes.u32),))
    memory = upload(np.arange(256, dtype=np.uint32))
    kernel = device.compile(tile)
    parts = [Binding(memory, 0, 400), Binding(memory, 512, 400)]  # of one buffer
    kernel.bind(parts, (1000, 100), (2, 1, 1))()
    got = download(memory, np.empty(256, np.uint32))
    np.testing.assert_array_equal(got[:128], np.arange(128))
    np.testing.assert_array_equal(got[128:228], np.arange(1000, 1100))
    np.testing.assert_array_equal(got[228:], np.arange(228, 256))
    with pytest.raises(ShapeError, match="along an axis"):
        kernel.bind(parts, (1000, 100), (1 << 20, 1, 1))
