"""The emulated driver behind its C interface: a libcuda.so.1 that the real cuda.bindings loads and calls.

So what bindings make of the backend's arguments, and of the driver's answers, is tested as well: handles, structs,
arrays, addresses. As a plugin of pytest (`-p`, in a process of its own that has no other driver), this is the machine's
driver: then the CUDA backend as it is runs above it, all of it but NVRTC.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_ushort, c_void_p
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from hologram.backends.cuda import compiler
from tests.backends.emulated.cuda.driver import Driver
from tests.backends.emulated.cuda.kernels import Clang
from tests.backends.emulated.cuda.memory import Misuse
from tests.shaders import emulator

# What cuda.bindings looks for in the library: by these it finds every other function.
SHIM = """
typedef int (*Find)(const char*, void**);
static Find find;
void emulated_install(Find found) { find = found; }
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status) {
    return find(name, function);
}
"""
NOT_FOUND, UNKNOWN = 500, 999  # CUDA_ERROR_NOT_FOUND, CUDA_ERROR_UNKNOWN
HANDLE, ADDRESS, FLAGS = c_void_p, c_ulonglong, c_uint  # as the header types them


@dataclass(frozen=True)
class Out:
    """A pointer through which the function answers."""

    type: Any

    @property
    def pointer(self) -> Any:
        return ctypes.POINTER(self.type)


@dataclass(frozen=True)
class Struct:
    """A pointer to a struct of that name."""

    name: str


@dataclass(frozen=True)
class Content:
    """A pointer to a struct of that name and size that the function fills."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Numbers:
    """A pointer to numbers: as many as the argument at `count` says, but for `less`."""

    type: Any
    count: int
    less: int = 0


@dataclass(frozen=True)
class Handles:
    """A pointer to as many handles as the next argument says."""


@dataclass(frozen=True)
class One:
    """A pointer to structs of that name, of which there is one."""

    name: str


@dataclass(frozen=True)
class Text:
    """Room for text, as long as the next argument says."""


OUT_HANDLE, OUT_ADDRESS = Out(HANDLE), Out(ADDRESS)
# From cuda.h: the arguments of each function, in order.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (FLAGS,),
    "cuGetErrorString": (c_int, Out(c_char_p)),
    "cuDriverGetVersion": (Out(c_int),),
    "cuDeviceGetCount": (Out(c_int),),
    "cuDeviceGet": (Out(c_int), c_int),
    "cuDeviceGetName": (Text(), c_int, c_int),
    "cuDeviceTotalMem": (Out(c_size_t), c_int),
    "cuDeviceGetAttribute": (Out(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (OUT_HANDLE, c_int),
    "cuDevicePrimaryCtxRelease": (c_int,),
    "cuDevicePrimaryCtxReset": (c_int,),
    "cuCtxPushCurrent": (HANDLE,),
    "cuCtxPopCurrent": (OUT_HANDLE,),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (OUT_HANDLE, FLAGS),
    "cuStreamSynchronize": (HANDLE,),
    "cuStreamDestroy": (HANDLE,),
    "cuStreamGetCtx": (HANDLE, OUT_HANDLE),
    "cuStreamWaitEvent": (HANDLE, HANDLE, FLAGS),
    "cuEventCreate": (OUT_HANDLE, FLAGS),
    "cuEventRecord": (HANDLE, HANDLE),
    "cuEventSynchronize": (HANDLE,),
    "cuEventQuery": (HANDLE,),
    "cuEventElapsedTime": (Out(c_float), HANDLE, HANDLE),
    "cuEventDestroy": (HANDLE,),
    "cuPointerGetAttribute": (Out(c_int), c_int, ADDRESS),
    "cuMemPoolCreate": (OUT_HANDLE, Struct("CUmemPoolProps")),
    "cuMemPoolDestroy": (HANDLE,),
    "cuDeviceCanAccessPeer": (Out(c_int), c_int, c_int),
    "cuMemPoolSetAccess": (HANDLE, One("CUmemAccessDesc"), c_size_t),
    "cuMemAllocFromPoolAsync": (OUT_ADDRESS, c_size_t, HANDLE, HANDLE),
    "cuMemFreeAsync": (ADDRESS, HANDLE),
    "cuMemHostAlloc": (OUT_HANDLE, c_size_t, FLAGS),
    "cuMemFreeHost": (HANDLE,),
    "cuMemcpyHtoDAsync": (ADDRESS, HANDLE, c_size_t, HANDLE),
    "cuMemcpyDtoHAsync": (HANDLE, ADDRESS, c_size_t, HANDLE),
    "cuMemcpyDtoDAsync": (ADDRESS, ADDRESS, c_size_t, HANDLE),
    "cuMemcpyPeerAsync": (ADDRESS, HANDLE, ADDRESS, HANDLE, c_size_t, HANDLE),
    "cuMemsetD8Async": (ADDRESS, c_ubyte, c_size_t, HANDLE),
    "cuMemsetD16Async": (ADDRESS, c_ushort, c_size_t, HANDLE),
    "cuMemsetD32Async": (ADDRESS, c_uint, c_size_t, HANDLE),
    "cuLibraryLoadData": (OUT_HANDLE, c_char_p, HANDLE, HANDLE, c_uint, HANDLE, HANDLE, c_uint),
    "cuLibraryGetKernel": (OUT_HANDLE, HANDLE, c_char_p),
    "cuKernelSetAttribute": (c_int, c_int, HANDLE, c_int),
    "cuLibraryUnload": (HANDLE,),
    "cuLaunchKernel": (HANDLE, *(c_uint,) * 7, HANDLE, HANDLE, HANDLE),
    "cuTensorMapEncodeTiled": (
        Content("CUtensorMap", 128),
        c_int,
        c_uint,
        HANDLE,
        Numbers(c_ulonglong, 2),
        Numbers(c_ulonglong, 2, 1),
        Numbers(c_uint, 2),
        Numbers(c_uint, 2),
        c_int,
        c_int,
        c_int,
        c_int,
    ),
    "cuGraphCreate": (OUT_HANDLE, FLAGS),
    "cuGraphAddKernelNode": (OUT_HANDLE, HANDLE, Handles(), c_size_t, Struct("CUDA_KERNEL_NODE_PARAMS")),
    "cuGraphInstantiateWithFlags": (OUT_HANDLE, HANDLE, c_ulonglong),
    "cuGraphDestroy": (HANDLE,),
    "cuGraphLaunch": (HANDLE, HANDLE),
    "cuGraphExecDestroy": (HANDLE,),
}
RENAMED = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}  # as cuda.bindings calls them


class Interface:
    """The functions of a Driver with C's types. `misuse` is what they raised, which C code cannot pass on."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.misuse: list[BaseException] = []
        self._functions = {name.encode(): self._function(name) for name in FUNCTIONS}
        self._kept: list[Any] = []  # text that was given out

    def install(self) -> None:
        """Makes it the driver of this process, which must not have loaded one."""
        flags = ["-x", "c", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
        shim = ctypes.CDLL(str(emulator.kept(".so", flags, SHIM)), mode=ctypes.RTLD_GLOBAL)

        def find(name: bytes, function: Any) -> int:
            found = self._functions.get(name)
            function[0] = ctypes.cast(found, c_void_p).value if found is not None else None
            return 0 if found is not None else NOT_FOUND

        self._find = ctypes.CFUNCTYPE(c_int, c_char_p, ctypes.POINTER(c_void_p))(find)
        shim.emulated_install(self._find)

    def _function(self, name: str) -> Any:
        kinds = FUNCTIONS[name]
        types = [
            getattr(k, "pointer", c_void_p)
            if isinstance(k, (Out, Struct, One, Content, Numbers, Handles, Text))
            else k
            for k in kinds
        ]

        def call(*given: Any) -> int:
            try:
                status, *values = getattr(self.driver, RENAMED.get(name, name))(*self._inputs(kinds, given))
            except BaseException as error:  # noqa: BLE001  # C code cannot pass it on; a test is told
                self.misuse.append(error)
                return UNKNOWN
            self._answer(kinds, given, values)
            return int(status)

        return ctypes.CFUNCTYPE(c_int, *types)(call)

    def _inputs(self, kinds: tuple[Any, ...], given: tuple[Any, ...]) -> list[Any]:
        found: list[Any] = []
        for k, (kind, value) in enumerate(zip(kinds, given, strict=True)):
            if isinstance(kind, (Out, Text, Content)):
                continue
            if isinstance(kind, Struct):
                found.append(getattr(real, kind.name)(_ptr=value))
            elif isinstance(kind, One):
                found.append([getattr(real, kind.name)(_ptr=value)])
            elif isinstance(kind, Numbers):
                found.append(list((kind.type * (given[kind.count] - kind.less)).from_address(value)))
            elif isinstance(kind, Handles):
                found.append(list((c_void_p * given[k + 1]).from_address(value)) if given[k + 1] else [])
            else:
                found.append(value or 0 if kind is HANDLE else value)
        return found

    def _answer(self, kinds: tuple[Any, ...], given: tuple[Any, ...], values: list[Any]) -> None:
        for k, (kind, place) in enumerate(zip(kinds, given, strict=True)):
            if isinstance(kind, Text):
                content = values.pop(0)[: given[k + 1]]
                ctypes.memmove(place, content, len(content))
            elif isinstance(kind, Content) and values:
                ctypes.memmove(place, int(values.pop(0).getPtr()), kind.size_bytes)
            elif isinstance(kind, Out) and values:
                value = values.pop(0)
                if isinstance(value, bytes):
                    self._kept.append(value)
                place[0] = value


INTERFACE = Interface(Driver())


def pytest_configure() -> None:
    """As a plugin: the machine's driver is emulated, and NVRTC is clang."""
    INTERFACE.install()
    compiler.NVRTC = Clang  # type: ignore[assignment]


def pytest_runtest_teardown() -> None:
    """What was raised behind the C interface fails the test."""
    raised, INTERFACE.misuse[:] = INTERFACE.misuse[:], []
    if raised:
        raise Misuse(f"behind the C interface: {raised!r}") from raised[0]
