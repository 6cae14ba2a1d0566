"""Files below /dev of which Linux has one wherever there is a GPU that Vulkan may drive."""

from __future__ import annotations

# Made by the kernel's own drivers, and by those vendors' drivers that make files of their own.
DEVICE_FILES = (
    "dri/renderD*",
    "nvidia[0-9]*",
    "dxg",
    "kgsl-3d0",
    "mali[0-9]*",
    "pvr*",
    "nvgpu*",
    "nvhost-gpu",
)
