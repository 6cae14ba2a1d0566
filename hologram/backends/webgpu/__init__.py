"""The WebGPU backend: WGSL through wgpu-native, on Vulkan, Metal or DirectX 12."""

from __future__ import annotations

from hologram.backends.webgpu.device import open_device
from hologram.backends.webgpu.probing import probe
from hologram.device import BackendType

TYPE = BackendType.WEBGPU
PREFERENCE = 30

__all__ = ["PREFERENCE", "TYPE", "open_device", "probe"]
