"""Drivers that refuse what their adapters offer: the device is opened without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hologram.backends import webgpu
from hologram.backends.webgpu import device as opening
from hologram.backends.webgpu.native import library as native
from hologram.backends.webgpu.native.granted import granted, own
from hologram.backends.webgpu.native.probing import adapters
from hologram.foundation import dtypes
from hologram.foundation.errors import BackendUnavailable

REFUSED = "WGPUNativeFeature_CooperativeMatrix"  # wgpu-native 29 never grants what it calls experimental


def test_nothing_is_asked_for_that_the_library_cannot_grant():
    assert REFUSED not in native.FEATURES


@pytest.fixture
def offered(index, monkeypatch):
    """Takes the adapter for one that offers more than it gives."""
    adapter = adapters()[index]
    monkeypatch.setattr(native, "FEATURES", (*native.FEATURES, REFUSED))

    def offer(**changed):
        more = replace(adapter, **changed)
        monkeypatch.setattr(opening, "adapters", lambda: (more,))
        return adapter

    return offer


def computes(device) -> bool:
    memory, out = device.allocate(64), np.empty(16, np.float32)
    device.fill(memory, 0, 64, np.float32(3).tobytes())
    device.read(memory, 0, memoryview(out).cast("B"))
    return bool((out == 3).all())


def test_a_refused_feature_is_left_out(offered):
    true = offered(features=adapters()[0].features | {"CooperativeMatrix"})
    device = webgpu.open_device(0)
    assert device.encoder.device.adapter.features == true.features
    assert "CooperativeMatrix" not in dict(device.info.details)["features"]
    assert not device.info.limits.matrix_dtypes
    assert device.encoder.device.adapter.limits == true.limits
    assert computes(device)
    device.close()


def test_a_refused_limit_is_left_out(offered):
    limits = adapters()[0].limits
    true = offered(limits={**limits, "maxBindGroups": 10**6, "maxStorageBuffersPerShaderStage": 10**6})
    device = webgpu.open_device(0)
    got = device.encoder.device.adapter
    assert got.features == true.features
    assert got.limits["maxBindGroups"] <= limits["maxBindGroups"]
    assert got.limits["maxBufferSize"] == limits["maxBufferSize"]
    watched = not device.info.limits.keeps("loops")  # which takes one of WebGPU's own 8
    assert 8 - watched <= device.info.limits.max_bindings <= limits["maxStorageBuffersPerShaderStage"]
    assert computes(device)
    device.close()


def test_both_refused(offered):
    adapter = adapters()[0]
    offered(
        features=adapter.features | {"CooperativeMatrix"}, limits={**adapter.limits, "maxBufferSize": 2**60}
    )
    device = webgpu.open_device(0)
    assert device.encoder.device.adapter.features == adapter.features
    assert device.info.limits.max_buffer_bytes == 256 << 20  # WebGPU's default
    assert (dtypes.f64 in device.info.limits.dtypes) == ("ShaderF64" in adapter.features)
    assert computes(device)
    device.close()


def test_an_adapter_that_gives_nothing_says_why(offered, monkeypatch):
    offered(features=adapters()[0].features | {"CooperativeMatrix"})

    def refuse(self, adapter, features, limits, callbacks):
        raise BackendUnavailable(f"refused with {len(features)} features and {len(limits)} limits")

    monkeypatch.setattr(native.LogicalDevice, "_requested", refuse)  # private: no driver here gives nothing
    with pytest.raises(BackendUnavailable, match="refused with 0 features and 0 limits"):
        webgpu.open_device(0)


def test_webgpu_s_own_limits_are_the_least(index):
    """HOLOGRAM_WITHOUT=limits takes an adapter for one that has no more; a device is opened with them."""
    adapter = adapters()[index]
    fewer = own(adapter.limits)
    assert fewer.keys() == adapter.limits.keys()
    assert fewer["maxStorageBuffersPerShaderStage"] == 8
    assert fewer["minStorageBufferOffsetAlignment"] >= adapter.limits["minStorageBufferOffsetAlignment"]
    assert own({**adapter.limits, "maxBindGroups": 2})["maxBindGroups"] == 2
    device = native.LogicalDevice(native.library(), replace(adapter, limits=fewer))
    found = device.library.ffi.new("WGPULimits *")
    device.library.lib.wgpuDeviceGetLimits(device.handle, found)
    device.close()
    assert (found.maxStorageBuffersPerShaderStage, found.maxComputeWorkgroupStorageSize) == (8, 16 << 10)


def test_what_is_refused_only_together():
    """Each feature is granted, not both: none is asked for, and the limits stay."""
    asked = []

    def grants(features, limits):
        asked.append((features, dict(limits)))
        return len(features) < 2 and "y" not in limits

    features, limits = frozenset("ab"), {"x": 1, "y": 2}
    assert granted(features, limits, grants) == (frozenset(), {"x": 1})
    assert (features, limits) not in asked  # whoever calls has asked for that
    assert granted(frozenset("a"), {"x": 1}, grants) == (frozenset("a"), {"x": 1})
