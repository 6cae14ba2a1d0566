"""C types by their text, known before anybody asks.

cffi parses a text when it first meets it, each time along with the names of all types of the header (430): the 30 texts
until a device is open and one kernel has run took half of a process's start. So all are parsed together, as the
parameters of one function; a text that is missing here still works, and takes its time. Seen with cffi 2.1; may go when
`ffi.typeof("WGPULimits *")` takes less than a millisecond.
"""

from __future__ import annotations

from typing import Any

VALUES = (
    "char *",
    "int *",
    "WGPUAdapterInfo *",
    "WGPUBindGroupDescriptor *",
    "WGPUBindGroupLayoutDescriptor *",
    "WGPUBufferDescriptor *",
    "WGPUBufferMapCallbackInfo *",
    "WGPUChainedStruct *",
    "WGPUComputePipelineDescriptor *",
    "WGPUDeviceDescriptor *",
    "WGPUInstanceDescriptor *",
    "WGPUInstanceExtras *",
    "WGPULimits *",
    "WGPUPipelineLayoutDescriptor *",
    "WGPUQuerySetDescriptor *",
    "WGPURequestDeviceCallbackInfo *",
    "WGPUShaderModuleDescriptor *",
    "WGPUShaderSourceWGSL *",
    "WGPUStringView *",
    "uintptr_t",
)
ARRAYS = (
    "char[]",
    "WGPUAdapter[]",
    "WGPUBindGroupEntry[]",
    "WGPUBindGroupLayout[]",
    "WGPUBindGroupLayoutEntry[]",
    "WGPUCommandBuffer[1]",
    "WGPUFeatureName[]",
    "uint32_t[]",
)
FUNCTIONS = (
    "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
    "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)",
)


class Declared:
    """cffi's FFI, knowing those types already."""

    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi
        # A parameter of array or function type would decay to a pointer to its element, or to itself.
        arrays = [text.replace("[", "(*)[") for text in ARRAYS]
        functions = [text.replace("(", "(*)(", 1) for text in FUNCTIONS]
        together = ffi.typeof(f"void(*)({', '.join([*VALUES, *arrays, *functions])})").args
        values, rest = together[: len(VALUES)], together[len(VALUES) :]
        self.types: dict[str, Any] = dict(zip(VALUES, values, strict=True))
        self.types |= {text: type_.item for text, type_ in zip(ARRAYS, rest[: len(ARRAYS)], strict=True)}
        self.types |= dict(zip(FUNCTIONS, rest[len(ARRAYS) :], strict=True))

    def new(self, text: str, *initial: Any) -> Any:
        return self._ffi.new(self.types.get(text, text), *initial)

    def cast(self, text: str, value: Any) -> Any:
        return self._ffi.cast(self.types.get(text, text), value)

    def callback(self, text: str, onerror: Any) -> Any:
        """A decorator, as cffi's; `onerror` is told what the function raises."""
        return self._ffi.callback(self.types.get(text, text), onerror=onerror)

    def __getattr__(self, name: str) -> Any:
        """All else as it is; looked up once, since launches use it."""
        value = getattr(self._ffi, name)
        setattr(self, name, value)
        return value
