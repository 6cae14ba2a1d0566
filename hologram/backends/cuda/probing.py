"""What CUDA devices there are, what they can do, and what to do where there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hologram.backends.cuda.library import Library, installed
from hologram.foundation import dtypes, forks, lazy
from hologram.foundation.errors import BackendUnavailable, HologramError
from hologram.foundation.extras import install
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.machine.limits import Limits

if TYPE_CHECKING:
    from hologram.backends.cuda import compiler, context, vendor
    from hologram.backends.cuda import device as opened
    from hologram.backends.cuda.compiler import Compiler
    from hologram.backends.cuda.device import CudaDevice
else:  # needed where there are devices, not to find out that there are none
    compiler = lazy.module("hologram.backends.cuda.compiler")
    context = lazy.module("hologram.backends.cuda.context")
    opened = lazy.module("hologram.backends.cuda.device")
    vendor = lazy.module("hologram.backends.cuda.vendor")

DRIVER_NEEDED = 13000  # as cuDriverGetVersion counts: 1000 * major + 10 * minor
ARCHITECTURE_NEEDED = 75  # Turing's, the oldest that CUDA 13 compiles for
BFLOAT_NEEDED = 80  # Ampere's, the first whose matrix units take bfloat16 and tf32
WEBGPU = "Use backend='webgpu', which reaches NVIDIA GPUs through Vulkan or DX12."
BULK = 90  # Hopper's, which alone has warpgroups' products (wgmma); bulk copies (TMA) came with it
BINDING_BYTES = 16  # the largest vector that generated code loads
MAX_BINDINGS = 128  # pointers, of the 4 KiB of parameters that every architecture takes, beside the scalars
MAX_WORKGROUPS = 65535  # along y and z; x takes 2^31 - 1


def probe(name: str) -> Probe:
    """The devices of this machine, or why there are none."""
    try:
        library = installed()
    except ImportError as error:
        return Probe(name, reason=f"cuda-python is not installed ({error})", remedy=f"{install('cuda')}.")
    probed = probe_library(library)
    if probed.available:
        try:
            compiler.examine()
        except BackendUnavailable as error:
            return Probe(name, reason=str(error), remedy=f"{install('cuda')}.")
    return probed


def probe_library(library: Library) -> Probe:
    """As `probe`, of what a driver says."""
    from cuda.pathfinder import DynamicLibNotFoundError  # an optional third party

    name, driver = library.name, library.driver
    if forks.started_elsewhere(name):
        return Probe(name, reason=forks.REASON, remedy=forks.REMEDY)
    try:
        status = library.start()
    except DynamicLibNotFoundError:
        return Probe(
            name,
            reason="there is no NVIDIA driver: its library (libcuda.so.1, nvcuda.dll) is not found",
            remedy="Install the NVIDIA display driver, 580 or newer, if the machine has an NVIDIA GPU.",
        )
    if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        return Probe(
            name,
            reason="the NVIDIA driver sees no GPU",
            remedy="See what `nvidia-smi` lists; in a container, pass the GPU through; check CUDA_VISIBLE_DEVICES.",
        )
    # By another library, which `forked` cannot know of.
    if status == driver.CUresult.CUDA_ERROR_NOT_INITIALIZED:
        return Probe(name, reason=forks.REASON, remedy=forks.REMEDY)
    if status:
        return Probe(
            name, reason=f"the NVIDIA driver does not start: cuInit gives {status.name}", remedy=WEBGPU
        )
    version = library.call(driver.cuDriverGetVersion)
    if version < DRIVER_NEEDED:
        return Probe(
            name,
            reason=f"the NVIDIA driver is too old: it runs CUDA {_spelled(version)}, not {_spelled(DRIVER_NEEDED)}",
            remedy=f"Update the driver to 580 or newer. {WEBGPU}",
        )
    return _usable_devices(library, _spelled(version))


def _usable_devices(library: Library, version: str) -> Probe:
    """The devices that can be used; of the others a note each."""
    devices: list[DeviceInfo] = []
    notes: list[str] = []
    for ordinal in range(library.call(library.driver.cuDeviceGetCount)):
        card = Card(library, ordinal)
        if card.obstacle:
            notes.append(card.obstacle)
        else:
            devices.append(card.describe(len(devices), version))
    if not devices:
        return Probe(library.name, reason="; ".join(notes), remedy=WEBGPU)
    return Probe(library.name, tuple(devices), notes=tuple(notes))


def _spelled(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


class Card:
    """One device of the driver's list."""

    def __init__(self, library: Library, ordinal: int) -> None:
        self.library = library
        self.ordinal = ordinal
        self.device = library.call(library.driver.cuDeviceGet, ordinal)
        name = library.call(library.driver.cuDeviceGetName, 128, self.device)
        self.name: str = name.split(b"\0")[0].decode()
        major, minor = self.ask("COMPUTE_CAPABILITY_MAJOR"), self.ask("COMPUTE_CAPABILITY_MINOR")
        self.architecture: int = 10 * major + minor

    @property
    def obstacle(self) -> str:
        """Why it cannot be used, or nothing."""
        if self.architecture < ARCHITECTURE_NEEDED:
            what = f"{self.name} has compute capability {self.architecture / 10}"
            return f"{what}, CUDA 13 needs {ARCHITECTURE_NEEDED / 10} (Turing) or newer"
        if not self.ask("MEMORY_POOLS_SUPPORTED"):  # some virtual GPUs
            return f"{self.name} has no memory pools (stream-ordered allocation)"
        return ""

    def ask(self, attribute: str) -> int:
        driver = self.library.driver
        which = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")
        return self.library.call(driver.cuDeviceGetAttribute, which, self.device)

    def describe(self, index: int, version: str) -> DeviceInfo:
        details = (
            ("architecture", f"sm_{self.architecture}"),
            ("ordinal", str(self.ordinal)),
            ("memory", f"{self.memory_bytes / 2**30:.1f} GiB"),
        )
        return DeviceInfo(self.library.name, index, self.name, f"CUDA {version}", self.limits(), details)

    @property
    def memory_bytes(self) -> int:
        return self.library.call(self.library.driver.cuDeviceTotalMem, self.device)

    def limits(self) -> Limits:
        nbytes = self.memory_bytes
        return Limits(
            dtypes=frozenset(dtypes.ALL),
            max_buffer_bytes=nbytes,
            max_binding_bytes=nbytes,
            max_bindings=MAX_BINDINGS,
            max_workgroups=min(MAX_WORKGROUPS, self.ask("MAX_GRID_DIM_Y"), self.ask("MAX_GRID_DIM_Z")),
            max_workgroup_threads=self.ask("MAX_THREADS_PER_BLOCK"),
            shared_bytes=self.ask("MAX_SHARED_MEMORY_PER_BLOCK"),
            subgroup=self.ask("WARP_SIZE"),
            unified_memory=False,
            parallelism=self.ask("MULTIPROCESSOR_COUNT"),
            software=False,
            matrix_dtypes=frozenset(
                {dtypes.f16, dtypes.bf16} if self.architecture >= BFLOAT_NEEDED else {dtypes.f16}
            ),
            rounded_dtypes=frozenset({dtypes.f32} if self.architecture >= BFLOAT_NEEDED else ()),
            copies_ahead=True,
            matrix_attention=True,
            bulk_bytes=self.ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") if self.architecture == BULK else 0,
            binding_alignment=BINDING_BYTES,
        )


def open_device(name: str, index: int) -> CudaDevice:
    """Opens the device with that index in the probe's list; raises BackendUnavailable."""
    probed = probe(name)
    if not probed.available:
        raise BackendUnavailable(f"{name}: device {index} cannot be opened: {probed.reason}. {probed.remedy}")
    return open_probed(installed(), probed, index, compiler.NVRTC, vendor.bindings())


def open_probed(
    library: Library, probed: Probe, index: int, compiler_for: Callable[[int], Compiler], products: Any = None
) -> CudaDevice:
    """Opens a device that a probe found; `compiler_for` gives the compiler for its architecture.

    `products` are the bindings of the vendor's library of products, where there is one.
    """
    if not 0 <= index < len(probed.devices):
        raise BackendUnavailable(
            f"{probed.backend}: no device {index}: there are {len(probed.devices)} devices"
        )
    info = probed.devices[index]
    details: dict[str, Any] = dict(info.details)
    library.start()
    made = compiler_for(int(details["architecture"].removeprefix("sm_")))
    try:
        entered = context.Context(library, int(details["ordinal"]), info.name)
    except BackendUnavailable:
        raise
    except HologramError as error:
        raise BackendUnavailable(f"{probed.backend}: {info.name} cannot be opened: {error}") from error
    limits = replace(info.limits, library_products=frozenset(vendor.TYPES) if products else frozenset())
    return opened.CudaDevice(replace(info, limits=limits), entered, made, products)
