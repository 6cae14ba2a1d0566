"""What adapters there are, what they can do, and what to do where there are none."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import metadata

from hologram.backends.webgpu.native.library import Adapter, library
from hologram.backends.webgpu.native.vulkan import System
from hologram.foundation import dtypes, forks
from hologram.foundation.config import config
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.machine.limits import ALIGNMENT, Limits

NAME = "webgpu"
_WGPU = (0, 32)
_INSTALL = "pip install 'wgpu>=0.32', which needs Python 3.11 or newer"
_ORDER = {"discrete": 0, "integrated": 1, "unknown": 2, "cpu": 3}
_NEEDED = {dtypes.f64: {"ShaderF64", "ShaderInt64"}}  # functions of f64 take its bits apart
_WIDE = frozenset({dtypes.i64, dtypes.u64})


@cache
def adapters() -> tuple[Adapter, ...]:
    """Every adapter, real GPUs first; raises ImportError or OSError where the library cannot be loaded."""
    return tuple(sorted(library().adapters(), key=lambda a: _ORDER[a.kind]))


@cache
def probe() -> Probe:
    """The adapters as devices, or why there are none; asked once, since adapters do not come and go."""
    try:
        version = metadata.version("wgpu")
        if tuple(map(int, version.split(".")[:2])) < _WGPU:  # its C interface changes with its version
            return Probe(NAME, reason=f"wgpu {version} is too old", remedy=_INSTALL)
        if library().forked:
            return Probe(NAME, reason=forks.REASON, remedy=forks.REMEDY)
        present = adapters()
    except ImportError as error:  # PackageNotFoundError is one
        return Probe(NAME, reason=f"wgpu cannot be imported: {error}", remedy=_INSTALL)
    except (OSError, RuntimeError) as error:  # wgpu-py raises RuntimeError where its wheel has no binary
        return Probe(
            NAME,
            reason=f"wgpu's native library does not load: {error}",
            remedy="pip install --force-reinstall wgpu, with pip 20.3 or newer",
        )
    emulated = all(adapter.kind == "cpu" for adapter in present)
    notes = tuple(System().findings()) if emulated and sys.platform == "linux" else ()
    if not present:
        return Probe(NAME, reason=f"no {_api()} adapter was found", remedy=_remedy(), notes=notes)
    return Probe(NAME, tuple(describe(a, k) for k, a in enumerate(present)), notes=notes)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=probe.cache_clear)


def describe(adapter: Adapter, position: int) -> DeviceInfo:
    """The adapter as a device of this backend."""
    details = (
        ("api", adapter.api),
        ("kind", adapter.kind),
        ("vendor", adapter.vendor),
        ("features", " ".join(sorted(adapter.features))),
    )
    return DeviceInfo(NAME, position, adapter.name, adapter.driver, limits(adapter), details)


def limits(adapter: Adapter) -> Limits:
    """The adapter's own limits, which are also those a device is opened with."""
    asked = adapter.limits
    binding = asked["maxStorageBufferBindingSize"]
    lowered = config.webgpu_max_binding
    return Limits(
        dtypes=frozenset(d for d in dtypes.ALL if _NEEDED.get(d, set()) <= adapter.features),
        max_buffer_bytes=_whole(asked["maxBufferSize"]),
        max_binding_bytes=_whole(min(binding, lowered) if lowered else binding),
        max_bindings=asked["maxStorageBuffersPerShaderStage"],
        max_workgroups=asked["maxComputeWorkgroupsPerDimension"],
        max_workgroup_threads=asked["maxComputeInvocationsPerWorkgroup"],
        shared_bytes=asked["maxComputeWorkgroupStorageSize"],
        subgroup=_subgroup(adapter),
        unified_memory=adapter.kind in ("integrated", "cpu"),
        parallelism=_cores() if adapter.kind == "cpu" else 0,
        software=adapter.kind == "cpu",
        emulated_dtypes=frozenset() if "ShaderInt64" in adapter.features else _WIDE,
        tracks_whole_buffers=True,
        exact_division=False,
        fused_multiply_add=False,
    )


def _subgroup(adapter: Adapter) -> int:
    """Threads that run in step, where shaders can make use of it."""
    usable = "Subgroup" in adapter.features and adapter.subgroup_min == adapter.subgroup_max
    return max(adapter.subgroup_min, 1) if usable else 1


def _cores() -> int:
    """Those a software adapter computes with."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _whole(nbytes: int) -> int:
    """Rounded down to whole allocations, at least one: a binding's size is rounded up before it is bound."""
    return max(ALIGNMENT, nbytes // ALIGNMENT * ALIGNMENT)


def _api() -> str:
    return {"darwin": "Metal", "win32": "Vulkan or DirectX 12"}.get(sys.platform, "Vulkan")


def _remedy() -> str:
    if sys.platform == "darwin":
        return "Metal needs macOS 11 or newer on a Mac with a GPU"
    if sys.platform == "win32":
        return "install the graphics driver of your GPU's vendor"
    return (
        "install a Vulkan driver: your GPU vendor's, or Mesa's, which also emulates a GPU in software "
        "(Debian, Ubuntu: apt install libvulkan1 mesa-vulkan-drivers; Fedora: dnf install vulkan-loader "
        "mesa-vulkan-drivers; Arch: pacman -S vulkan-icd-loader vulkan-swrast)"
    )
