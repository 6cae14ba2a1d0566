"""The CUDA backend: so far the spelling of CUDA C++ (dialect.py), and what can be asked of the machine.

Kernels are generated and compiled for CUDA in the tests, but nothing launches them yet: the probe names the devices
it sees and reports none as usable.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from hologram import lazy
from hologram.atlas.program import Program
from hologram.device import Probe
from hologram.errors import BackendUnavailable
from hologram.limits import Limits
from hologram.plan import Tile

if TYPE_CHECKING:
    from hologram.backends.cuda import dialect, usual
    from hologram.compiler.source import listing
else:  # needed for source alone
    dialect = lazy.module("hologram.backends.cuda.dialect")
    usual = lazy.module("hologram.backends.cuda.usual")
    listing = lazy.module("hologram.compiler.source.listing")

NAME = "cuda"
PREFERENCE = 10
DRIVER_NEEDED = 13000  # as cuDriverGetVersion counts: 1000 * major + 10 * minor
WEBGPU = "Use backend='webgpu', which reaches NVIDIA GPUs through Vulkan or DX12."


def probe() -> Probe:
    """Why CUDA cannot be used, and what to do. Loads the driver's library, if there is one."""
    try:
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
        from cuda.pathfinder import DynamicLibNotFoundError  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return Probe(
            NAME, reason=f"cuda-python is not installed ({error})", remedy="pip install 'hologram[cuda]'."
        )
    try:
        (status,) = driver.cuInit(0)
    except DynamicLibNotFoundError:
        return Probe(
            NAME,
            reason="there is no NVIDIA driver: its library (libcuda.so.1, nvcuda.dll) is not found",
            remedy="Install the NVIDIA display driver, 580 or newer, if the machine has an NVIDIA GPU.",
        )
    if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        return Probe(
            NAME,
            reason="the NVIDIA driver sees no GPU",
            remedy="See what `nvidia-smi` lists; in a container, pass the GPU through; check CUDA_VISIBLE_DEVICES.",
        )
    if status != driver.CUresult.CUDA_SUCCESS:
        return Probe(
            NAME, reason=f"the NVIDIA driver does not start: cuInit gives {status.name}", remedy=WEBGPU
        )
    version = _value(driver, driver.cuDriverGetVersion())
    if version < DRIVER_NEEDED:
        return Probe(
            NAME,
            reason=f"the NVIDIA driver is too old: it runs CUDA {_spelled(version)}, not {_spelled(DRIVER_NEEDED)}",
            remedy=f"Update the driver to 580 or newer. {WEBGPU}",
        )
    names = ", ".join(_name(driver, k) for k in range(_value(driver, driver.cuDeviceGetCount())))
    return Probe(
        NAME,
        reason=f"this version of hologram has no CUDA launch path yet; devices seen: {names}",
        remedy=WEBGPU,
    )


def open_device(index: int) -> NoReturn:
    """Raises BackendUnavailable with the probe's reason."""
    found = probe()
    raise BackendUnavailable(f"cuda: device {index} cannot be opened: {found.reason}. {found.remedy}")


def _value(driver: ModuleType, answer: tuple):
    """What a call of the driver gave beside its status; a call that fails after cuInit succeeded is an error."""
    status, value = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise BackendUnavailable(f"cuda: the driver answers {status.name}")
    return value


def _name(driver: ModuleType, index: int) -> str:
    device = _value(driver, driver.cuDeviceGet(index))
    name = _value(driver, driver.cuDeviceGetName(128, device))
    return name.split(b"\0")[0].decode()


def _spelled(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def usual_limits() -> Limits:
    """Those of a usual device; none has to be here."""
    return usual.LIMITS


def source(kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The CUDA C++ of a kernel on a usual device; none has to be here."""
    return listing.listing(kernel, dialect.cuda(), usual.LIMITS, grid, scalars)
