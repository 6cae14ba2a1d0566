"""wgpu-native through its C interface: the instance, adapters and logical devices, without wgpu-py's objects.

wgpu-py loads the library and knows its header (`lib`, `ffi`); everything above that costs Python time on each call,
starts a polling thread per device and logs errors that belong to the caller. The functions here therefore speak to
the library directly. wgpu is imported by `library()`, never with this module.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from hologram.backends.webgpu.native.declared import Declared
from hologram.backends.webgpu.native.granted import granted, own
from hologram.foundation import forks
from hologram.foundation.config import config
from hologram.foundation.errors import BackendUnavailable
from hologram.foundation.frozen import frozen

# Native features we use where they exist; names as in wgpu.h. Order is irrelevant. Not among them: CooperativeMatrix.
# wgpu-native 29 calls it experimental and has no way to allow what is: adapters offer it, and refuse who asks for it.
FEATURES = (
    "WGPUFeatureName_TimestampQuery",
    "WGPUFeatureName_ShaderF16",
    "WGPUNativeFeature_Immediates",
    "WGPUNativeFeature_MappablePrimaryBuffers",
    "WGPUNativeFeature_ShaderF64",
    "WGPUNativeFeature_ShaderInt64",
    "WGPUNativeFeature_ShaderInt64AtomicMinMax",
    "WGPUNativeFeature_ShaderInt64AtomicAllOps",
    "WGPUNativeFeature_ShaderFloat32Atomic",
    "WGPUNativeFeature_Subgroup",
    "WGPUNativeFeature_SubgroupBarrier",
    "WGPUNativeFeature_TimestampQueryInsideEncoders",
    "WGPUNativeFeature_TimestampQueryInsidePasses",
)

# What HOLOGRAM_WITHOUT takes away, by its words.
_WITHOUT = {
    "float16": {"ShaderF16"},
    "float64": {"ShaderF64"},
    "int64": {"ShaderInt64", "ShaderInt64AtomicMinMax", "ShaderInt64AtomicAllOps"},
    "subgroups": {"Subgroup", "SubgroupBarrier"},
    "immediates": {"Immediates"},
    "float_atomics": {"ShaderFloat32Atomic"},
}

# Flags that wgpu.h writes as C constants, which cffi does not read from a loaded library.
INSTANCE_VULKAN, INSTANCE_METAL, INSTANCE_DX12 = 1 << 0, 1 << 2, 1 << 3
INSTANCE_DISCARD_LABELS = 1 << 2
MAP_READ, MAP_WRITE, COPY_SRC, COPY_DST, UNIFORM, STORAGE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 6, 1 << 7
QUERY_RESOLVE = 1 << 9
MAP_MODE_READ, MAP_MODE_WRITE = 1, 2
STAGE_COMPUTE = 4

_KINDS = {1: "discrete", 2: "integrated", 3: "cpu"}
_APIS = {4: "d3d12", 5: "metal", 6: "vulkan"}


@frozen
class Adapter:
    """What one adapter says of itself; `handle` is its WGPUAdapter."""

    handle: Any
    name: str
    vendor: str
    driver: str
    kind: str  # "discrete", "integrated", "cpu", or "unknown"
    api: str  # "vulkan", "metal" or "d3d12"
    subgroup_min: int
    subgroup_max: int
    features: frozenset[str]  # entries of FEATURES without their prefix
    limits: dict[str, int]


class Library:
    """The loaded library: `lib` holds the functions, `ffi` makes C values."""

    def __init__(self) -> None:
        import wgpu.backends.wgpu_native as wgpu_native  # an optional third party

        self.lib: Any = wgpu_native.lib
        self.ffi: Any = Declared(wgpu_native.ffi)
        self._keep: list[Any] = []
        self._process = 0  # that opened the first device
        self._hearing = threading.local()
        logging.getLogger("wgpu").addFilter(self._hear)

    @contextmanager
    def log(self) -> Iterator[list[str]]:
        """Collects what the library logs on this thread, which wgpu-py would hand to Python's logging."""
        self._hearing.messages = messages = []
        try:
            yield messages
        finally:
            self._hearing.messages = None

    def _hear(self, record: logging.LogRecord) -> bool:
        messages = getattr(self._hearing, "messages", None)
        if messages is not None:
            messages.append(record.getMessage())
        return messages is None

    def text(self, view: Any) -> str:
        """A Python string of a WGPUStringView."""
        return self.ffi.string(view.data, view.length).decode(errors="replace") if view.length else ""

    def view(self, text: str) -> tuple[Any, Any]:
        """A WGPUStringView of a Python string, and the bytes it points into."""
        data = self.ffi.new("char[]", text.encode())
        return self.ffi.new("WGPUStringView *", {"data": data, "length": len(data) - 1})[0], data

    @property
    def instance(self) -> Any:
        """Our own WGPUInstance, restricted to the backends with compute shaders we trust.

        OpenGL adapters repeat a device that Vulkan lists already, and lack storage features. An instance of our own
        leaves the process-wide one of wgpu-py, which the user may need for rendering, untouched.
        """
        if not self._keep:
            lib, ffi = self.lib, self.ffi
            extras = ffi.new("WGPUInstanceExtras *")
            extras.chain.sType = lib.WGPUSType_InstanceExtras
            extras.backends = INSTANCE_VULKAN | INSTANCE_METAL | INSTANCE_DX12
            extras.flags = INSTANCE_DISCARD_LABELS
            descriptor = ffi.new("WGPUInstanceDescriptor *")
            descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", extras)
            with _quiet_device_selection():
                self._keep = [lib.wgpuCreateInstance(descriptor), extras, descriptor]
        return self._keep[0]

    @property
    def forked(self) -> bool:
        """Whether devices were opened before this process was forked: the driver waits for threads that it lacks."""
        return self._process not in (0, os.getpid())

    def opens(self) -> None:
        """Notes that a device is opened; raises BackendUnavailable in a forked process that cannot have one."""
        if self.forked:
            raise forks.unavailable("webgpu")
        self._process = os.getpid()

    def adapters(self) -> list[Adapter]:
        """Every adapter, in the driver's order."""
        lib, ffi = self.lib, self.ffi
        instance = self.instance
        with _quiet_device_selection():
            count = lib.wgpuInstanceEnumerateAdapters(instance, ffi.NULL, ffi.NULL)
            handles = ffi.new("WGPUAdapter[]", count)
            lib.wgpuInstanceEnumerateAdapters(instance, ffi.NULL, handles)
        return [self._adapter(handle) for handle in handles]

    def _adapter(self, handle: Any) -> Adapter:
        lib, ffi = self.lib, self.ffi
        info = ffi.new("WGPUAdapterInfo *")
        lib.wgpuAdapterGetInfo(handle, info)
        limits = ffi.new("WGPULimits *")
        lib.wgpuAdapterGetLimits(handle, limits)
        adapter = Adapter(
            handle=handle,
            name=self.text(info.device),
            vendor=self.text(info.vendor),
            driver=self.text(info.description),
            kind=_KINDS.get(info.adapterType, "unknown"),
            api=_APIS.get(info.backendType, "unknown"),
            subgroup_min=info.subgroupMinSize,
            subgroup_max=info.subgroupMaxSize,
            features=frozenset(
                f.partition("_")[2] for f in FEATURES if lib.wgpuAdapterHasFeature(handle, getattr(lib, f))
            ).difference(*(_WITHOUT.get(word, ()) for word in config.without)),
            limits=own(_numbers(limits)) if "limits" in config.without else _numbers(limits),
        )
        lib.wgpuAdapterInfoFreeMembers(info[0])
        return adapter


@contextmanager
def _quiet_device_selection() -> Iterator[None]:
    """Keeps Mesa's device selection layer out: it asks Wayland which GPU is the display's, and complains on stderr.

    The layer only reorders the devices, which we do ourselves. Seen with Mesa 22.3 and 25; may go when
    `vulkaninfo` prints no "XDG_RUNTIME_DIR is invalid" on a machine without a display.
    """
    if "NODEVICE_SELECT" in os.environ:
        yield
        return
    os.environ["NODEVICE_SELECT"] = "1"
    try:
        yield
    finally:
        del os.environ["NODEVICE_SELECT"]


@dataclass
class Health:
    """What the library's callbacks report of one device; they must not refer to the device itself."""

    errors: list[tuple[int, str]] = field(default_factory=list)  # WGPUErrorType and message, newest last
    lost: str = ""
    interrupts: list[BaseException] = field(default_factory=list)

    def interrupted(self, _type: Any, error: BaseException, _traceback: Any) -> None:
        """Keeps what a signal's handler raised: it runs where Python does next, which may be in a callback.

        Nobody could catch it there, so it is raised when the library's call is over.
        """
        self.interrupts.append(error)

    def check(self) -> None:
        """Raises what interrupted a callback."""
        if self.interrupts:
            raise self.interrupts.pop()


class LogicalDevice:
    """A WGPUDevice with its queue, and the record of its errors.

    `handle`, `queue`: the C objects. `health.errors` fills during the call that is at fault, on its thread: callers
    hold the device's lock and look after each call that can fail.
    """

    def __init__(self, library: Library, adapter: Adapter) -> None:
        library.opens()
        self.library = library
        self.health = Health()
        lib, ffi, health = library.lib, library.ffi, self.health

        @ffi.callback(
            "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)", health.interrupted
        )
        def on_error(_device: Any, kind: int, message: Any, _1: Any, _2: Any) -> None:
            health.errors.append((kind, library.text(message)))

        @ffi.callback(
            "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
            health.interrupted,
        )
        def on_lost(_device: Any, reason: int, message: Any, _1: Any, _2: Any) -> None:
            health.lost = library.text(message) or f"reason {reason}"

        self._callbacks = (on_error, on_lost)
        try:
            self.handle = self._requested(adapter, adapter.features, adapter.limits, self._callbacks)
        except BackendUnavailable:
            features, limits = granted(adapter.features, adapter.limits, partial(self._grants, adapter))
            self.handle = self._requested(adapter, features, limits, self._callbacks)
            actual = ffi.new("WGPULimits *")
            lib.wgpuDeviceGetLimits(self.handle, actual)
            adapter = replace(adapter, features=features, limits=_numbers(actual))
        self.adapter = adapter  # as the device has it
        self.queue = lib.wgpuDeviceGetQueue(self.handle)
        # A device that nobody closed goes with its last reference. At exit the process takes it along.
        self.close = weakref.finalize(
            self, _destroy, lib, self.handle, self.queue, self._callbacks, os.getpid()
        )
        self.close.atexit = False

    def _grants(self, adapter: Adapter, features: frozenset[str], limits: Mapping[str, int]) -> bool:
        """Whether the adapter gives a device with these."""
        lib = self.library.lib
        try:
            handle = self._requested(adapter, features, limits, None)
        except BackendUnavailable:
            return False
        lib.wgpuDeviceDestroy(handle)
        lib.wgpuDeviceRelease(handle)
        return True

    def _requested(
        self,
        adapter: Adapter,
        features: frozenset[str],
        limits: Mapping[str, int],
        callbacks: tuple[Any, Any] | None,
    ) -> Any:
        """A device of the adapter with these features and limits, others as WebGPU has them by default."""
        health, lib, ffi = self.health, self.library.lib, self.library.ffi
        result: list[Any] = []

        @ffi.callback(
            "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)", health.interrupted
        )
        def on_device(_status: int, device: Any, message: Any, _1: Any, _2: Any) -> None:
            result.extend((device, self.library.text(message)))

        named = [getattr(lib, f) for f in FEATURES if f.partition("_")[2] in features]
        c_features = ffi.new("WGPUFeatureName[]", named)
        asked = ffi.new("WGPULimits *")
        for name, kind in ffi.typeof(asked).item.fields:
            if name != "nextInChain":  # where every bit is set nothing is asked for
                setattr(asked, name, limits.get(name, 2 ** (8 * ffi.sizeof(kind.type)) - 1))
        descriptor = ffi.new("WGPUDeviceDescriptor *")
        descriptor.requiredFeatureCount = len(named)
        descriptor.requiredFeatures = c_features
        descriptor.requiredLimits = asked
        if callbacks is not None:
            descriptor.deviceLostCallbackInfo.mode = lib.WGPUCallbackMode_AllowSpontaneous
            descriptor.uncapturedErrorCallbackInfo.callback, descriptor.deviceLostCallbackInfo.callback = (
                callbacks
            )
        request = ffi.new("WGPURequestDeviceCallbackInfo *")
        request.mode = lib.WGPUCallbackMode_AllowProcessEvents
        request.callback = on_device
        lib.wgpuAdapterRequestDevice(adapter.handle, descriptor, request[0])
        lib.wgpuInstanceProcessEvents(self.library.instance)
        health.check()
        if not result or result[0] == ffi.NULL:
            raise BackendUnavailable(
                f"webgpu: {adapter.name} gives no device: {result[1] if result else 'no answer'}"
            )
        return result[0]


def _numbers(limits: Any) -> dict[str, int]:
    """A WGPULimits by its fields' names."""
    return {name: getattr(limits, name) for name in dir(limits) if name != "nextInChain"}


def _destroy(lib: Any, handle: Any, queue: Any, _callbacks: tuple[Any, ...], owner: int) -> None:
    """Frees the device's memory now; other objects made of it go with their last reference. Not in a forked child."""
    if os.getpid() == owner:
        lib.wgpuDeviceDestroy(handle)
        lib.wgpuQueueRelease(queue)
        lib.wgpuDeviceRelease(handle)


@cache
def library() -> Library:
    """The library, loaded once; raises ImportError where wgpu is not installed, OSError where it does not load."""
    return Library()
