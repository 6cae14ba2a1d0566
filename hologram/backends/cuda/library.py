"""The CUDA driver through cuda.bindings: every call is checked here, and its errors become hologram's.

cuda.bindings is the C interface, function by function; why not cuda.core, which stands on it: docs/design/native.md.
The library is imported by `installed()`, never with this module; tests hand in a stand-in for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hologram.foundation import forks
from hologram.foundation.errors import DeviceLost, HologramError, OutOfMemory

BINDINGS_NEEDED = 13  # the first number of the version of cuda-bindings
# After these the driver answers every later call in the same way: only a new context works again.
FATAL = (
    "CUDA_ERROR_DEINITIALIZED",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_EXTERNAL_DEVICE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK",
    "CUDA_ERROR_MPS_CLIENT_TERMINATED",
)


class Library:
    """`driver` holds the functions of cuda.bindings.driver, and its types; `name` is the backend's."""

    def __init__(self, driver: Any, name: str = "cuda") -> None:
        self.driver = driver
        self.name = name
        self._fatal = frozenset(  # older bindings lack the latest
            getattr(driver.CUresult, status) for status in FATAL if hasattr(driver.CUresult, status)
        )

    def start(self) -> Any:
        """Starts the driver; its status. Raises BackendUnavailable in a process that was forked since it was."""
        forks.start(self.name)
        return self.driver.cuInit(0)[0]

    def call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver gives beside its status: nothing, a value, or a tuple of several.

        Raises OutOfMemory, DeviceLost, or HologramError with the driver's words.
        """
        status, *values = function(*arguments)
        if status:
            raise self.error(status, function.__name__)
        return values[0] if len(values) == 1 else tuple(values)

    def error(self, status: Any, function: str) -> HologramError:
        """The exception for what a function of the driver answered."""
        failed, words = self.driver.cuGetErrorString(status)
        text = "" if failed or words is None else f" ({words.decode(errors='replace')})"
        said = f"{self.name}: {function} answers {status.name}{text}"
        if status in self._fatal:
            return DeviceLost(f"{said}; open a new Executor")
        if status == self.driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            return OutOfMemory(said)
        return HologramError(said)


@cache
def installed() -> Library:
    """The library of this machine; raises ImportError without cuda.bindings of this CUDA.

    PyTorch 2.10 brings bindings of CUDA 12, which tell an absent driver in another way.
    """
    from cuda import bindings  # pyright: ignore[reportAttributeAccessIssue]
    from cuda.bindings import driver  # pyright: ignore[reportAttributeAccessIssue]

    version = bindings.__version__
    if int(version.partition(".")[0]) < BINDINGS_NEEDED:
        raise ImportError(f"cuda-bindings {version} is installed, {BINDINGS_NEEDED} or newer is needed")
    return Library(driver)
