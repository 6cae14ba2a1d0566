"""NVRTC: CUDA C++ to the machine code of one architecture, kept on disk.

It needs no driver and no GPU. The library and CUDA's headers come as wheels (the extra `cuda`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeVar

from hologram.backends.cuda.dialect import OPTIONS
from hologram.foundation import store
from hologram.foundation.errors import BackendUnavailable, CompileError
from hologram.foundation.extras import install

T = TypeVar("T")
KIND = "cubin"  # the store's
SPECIFIC = (90,)  # architectures with instructions of their own that kernels use (wgmma)
INSTALL = install("cuda")


class Compiler(Protocol):
    """What turns text into code that the driver loads."""

    identity: str  # tells apart what may give different code for one text

    def compile(self, entry: str, text: str) -> bytes:
        """Raises CompileError."""
        ...


def kept(compiler: Compiler, entry: str, text: str, load: Callable[[bytes], T]) -> T:
    """What `load` makes of a text's code, from the store if any process compiled it before.

    `load` raises ValueError for code that is no good, which is then compiled again.
    """
    key = store.key(compiler.identity, text)
    return store.shared().kept(KIND, key, lambda: compiler.compile(entry, text), load)


@cache
def nvrtc() -> Any:
    """The binding of NVRTC with its library loaded; raises BackendUnavailable."""
    try:
        from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]
        from cuda.pathfinder import DynamicLibNotFoundError
    except ImportError as error:
        raise BackendUnavailable(f"cuda-python is not installed ({error})") from error
    try:
        nvrtc.nvrtcVersion()
    except DynamicLibNotFoundError as error:
        raise BackendUnavailable("NVRTC, CUDA's run-time compiler, is not installed") from error
    return nvrtc


@cache
def headers() -> str:
    """The folder of cuda_fp16.h and its like; raises BackendUnavailable."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory  # an optional third party
    except ImportError as error:  # before 1.2.3
        raise BackendUnavailable(f"cuda-pathfinder is too old to find CUDA's headers: {error}") from error
    folder = find_nvidia_header_directory("cudart")
    if folder is None:
        raise BackendUnavailable("CUDA's headers (cuda_fp16.h, cuda_bf16.h) are not installed")
    return folder


def examine() -> None:
    """Raises BackendUnavailable with what is missing here."""
    nvrtc()
    headers()


def architectures() -> tuple[int, ...]:
    """Those that NVRTC compiles for: 75 is Turing's."""
    return tuple(_checked(nvrtc().nvrtcGetSupportedArchs()))


class NVRTC:
    """The compiler for one architecture: 90 is compute capability 9.0.

    For one that is newer than NVRTC it gives PTX of the newest it knows, which the driver compiles.
    """

    def __init__(self, architecture: int) -> None:
        self.nvrtc = nvrtc()
        known = [a for a in architectures() if a <= architecture]
        if not known:
            raise BackendUnavailable(
                f"NVRTC {self.version} compiles for compute capability {min(architectures()) / 10} and newer, "
                f"this GPU has {architecture / 10}"
            )
        self.native = known[-1] == architecture
        own = "a" if architecture in SPECIFIC else ""
        target = f"sm_{architecture}{own}" if self.native else f"compute_{known[-1]}"
        self.options = (*OPTIONS, f"--gpu-architecture={target}", f"--include-path={headers()}")
        # Where the headers lie is of no consequence, which they are is: they come with NVRTC's version.
        self.identity = store.key(self.version, *OPTIONS, target)

    @property
    def version(self) -> str:
        return ".".join(map(str, _checked(self.nvrtc.nvrtcVersion())))

    def compile(self, entry: str, text: str) -> bytes:
        """See Compiler."""
        nvrtc = self.nvrtc
        program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), f"{entry}.cu".encode(), 0, [], []))
        try:
            options = [option.encode() for option in self.options]
            (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            if status:
                raise CompileError(entry, self._log(program) or status.name, text)
            if self.native:
                return self._bytes(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
            return self._bytes(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        finally:
            nvrtc.nvrtcDestroyProgram(program)

    def _log(self, program: Any) -> str:
        said = self._bytes(program, self.nvrtc.nvrtcGetProgramLogSize, self.nvrtc.nvrtcGetProgramLog)
        return said.rstrip(b"\0").decode(errors="replace").strip()

    @staticmethod
    def _bytes(program: Any, size: Any, get: Any) -> bytes:
        room = b" " * _checked(size(program))
        _checked(get(program, room))
        return room


def _checked(answer: tuple) -> Any:
    """What NVRTC gave beside its status; what fails but compiling is an error of ours."""
    status, *values = answer
    if status:
        raise CompileError("NVRTC", status.name)
    return values[0] if len(values) == 1 else tuple(values)
