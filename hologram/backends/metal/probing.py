"""What Apple GPUs there are, what they can do, and what to do where there are none."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hologram.backends.metal import reference as reference
from hologram.backends.metal.framework import WEBGPU, Framework, Missing
from hologram.foundation import forks, lazy
from hologram.foundation.errors import BackendUnavailable, CompileError
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.machine.limits import ALIGNMENT

if TYPE_CHECKING:
    from hologram.backends.metal import device as opened
    from hologram.backends.metal import pipeline as pipelines
    from hologram.backends.metal import queue as queues
    from hologram.backends.metal.device import MetalDevice
else:  # needed where there is a device
    opened = lazy.module("hologram.backends.metal.device")
    pipelines = lazy.module("hologram.backends.metal.pipeline")
    queues = lazy.module("hologram.backends.metal.queue")

OLDEST = (14, 0)  # the macOS that brought MSL 3.1, with bfloat
UNKNOWN = (10, 16)  # what newer systems tell a Python that was built for old ones
# An empty kernel, of which a device tells how many threads run in step.
NOTHING = "#include <metal_stdlib>\nkernel void atlas_nothing() {}\n"


def devices(framework: Framework) -> tuple[list[Any], list[Any]]:
    """The GPUs this backend can use, by Metal's number of them, and the others: those of Intel Macs.

    Apple's, from the M1 on, that is: with memory shared with the host, subgroups of 32, and atomics of floats.
    """
    metal = framework.metal
    with framework.pool():
        gpus = sorted(metal.MTLCopyAllDevices(), key=lambda d: d.registryID())
        own = [d for d in gpus if d.supportsFamily_(metal.MTLGPUFamilyApple7)]
        return own, [d for d in gpus if d not in own]


def describe(backend: str, framework: Framework, device: Any, index: int) -> DeviceInfo:
    """A GPU as a device of this backend."""
    metal = framework.metal
    largest = device.maxBufferLength() // ALIGNMENT * ALIGNMENT
    threads = device.maxThreadsPerThreadgroup()
    limits = replace(
        reference.LIMITS,
        max_buffer_bytes=largest,
        max_binding_bytes=largest,
        max_workgroup_threads=min(threads.width, reference.LIMITS.max_workgroup_threads),
        shared_bytes=device.maxThreadgroupMemoryLength(),
        unified_memory=bool(device.hasUnifiedMemory()),
    )
    families = ["Apple7", "Apple8", "Apple9", "Apple10", "Metal3", "Metal4"]
    known = [f for f in families if hasattr(metal, f"MTLGPUFamily{f}")]
    details = (
        (
            "families",
            " ".join(f for f in known if device.supportsFamily_(getattr(metal, f"MTLGPUFamily{f}"))),
        ),
        ("working set", f"{device.recommendedMaxWorkingSetSize()} bytes"),
    )
    return DeviceInfo(backend, index, str(device.name()), f"macOS {platform.mac_ver()[0]}", limits, details)


def probe(backend: str, load: Callable[[], Framework]) -> Probe:
    """The devices, or why there are none and what to do."""
    try:
        framework = load()
    except Missing as missing:
        return Probe(backend, reason=missing.reason, remedy=missing.remedy)
    if forks.started_elsewhere(backend):
        return Probe(backend, reason=forks.REASON, remedy=forks.REMEDY)
    forks.start(backend)
    version = tuple(int(part) for part in platform.mac_ver()[0].split(".")[:2] if part.isdigit())
    if version and version != UNKNOWN and version < OLDEST:
        reason = f"macOS 14 or newer is needed, for MSL 3.1; this is {platform.mac_ver()[0]}"
        return Probe(backend, reason=reason, remedy=f"Update macOS. {WEBGPU} until then.")
    own, others = devices(framework)
    if not own and others:
        names = ", ".join(str(d.name()) for d in others)
        reason = f"no GPU of Apple's own (M1 or newer): an Intel Mac has {names}"
        return Probe(backend, reason=reason, remedy=f"{WEBGPU}, which reaches these through Metal.")
    if not own:
        reason = "macOS lists no Metal device"
        return Probe(backend, reason=reason, remedy="A virtual machine may hide the GPU: use backend='cpu'.")
    notes = tuple(f"{d.name()} is not used: it is not Apple's own" for d in others)
    return Probe(backend, tuple(describe(backend, framework, d, k) for k, d in enumerate(own)), notes=notes)


def open_device(backend: str, load: Callable[[], Framework], index: int) -> MetalDevice:
    """Opens the device with that index in the probe's list; raises BackendUnavailable."""
    probed = probe(backend, load)
    if not 0 <= index < len(probed.devices):
        why = (
            f"{probed.reason}: {probed.remedy}"
            if probed.reason
            else f"there are {len(probed.devices)} devices"
        )
        raise BackendUnavailable(f"{backend}: no device {index}: {why}")
    framework = load()
    queue = queues.Queue(backend, framework, devices(framework)[0][index])
    try:
        pipeline = pipelines.Pipelines(queue).compile("atlas_nothing", NOTHING, 1)
    except CompileError as error:
        raise BackendUnavailable(f"{backend}: this system does not compile MSL 3.1: {error.log}") from error
    info = probed.devices[index]
    subgroup = int(pipeline.threadExecutionWidth())
    return opened.MetalDevice(replace(info, limits=replace(info.limits, subgroup=subgroup)), queue)
