"""hg.backend: which backends can be used here, and which one `auto` takes."""

from __future__ import annotations

from collections.abc import Iterator

from hologram.backends.registry import discover, load, probe
from hologram.backends.registry import probes as backends
from hologram.runtime.selector import choose, explain_selection

__all__ = [
    "BackendType",
    "backends",
    "explain_selection",
    "get_default_backend",
    "is_available",
    "is_cuda_available",
    "is_metal_available",
    "is_webgpu_available",
    "validate_backend",
]


class _Registered(type):
    """The backends there are, as attributes in capitals, and in the order of preference."""

    def __getattr__(cls, name: str) -> BackendType:
        if name.isupper() and name.lower() in discover():
            return BackendType(name.lower())
        raise AttributeError(f"there is no backend {name.lower()!r}; there are {', '.join(discover())}")

    def __iter__(cls) -> Iterator[BackendType]:
        return map(BackendType, discover())

    def __dir__(cls) -> list[str]:
        return [*super().__dir__(), *map(str.upper, discover())]


class BackendType(str, metaclass=_Registered):
    """The name of a backend: a string, of as many as are found. `BackendType.CPU == BackendType("cpu") == "cpu"`.

    Raises BackendUnavailable for a name that no backend has.
    """

    def __new__(cls, name: str) -> BackendType:
        return str.__new__(cls, load(name.lower()).NAME)

    @property
    def value(self) -> str:
        """The name itself, as of a member of an Enum."""
        return str(self)


def get_default_backend() -> BackendType:
    """The backend that `auto` opens now."""
    return BackendType(choose().name)


def validate_backend(name: str) -> BackendType:
    """The backend with that name, or that `auto` opens; raises BackendUnavailable if it is not here."""
    return BackendType(choose(name).name)


def is_available(name: str) -> bool:
    """Whether there is a backend of that name and it has a device here."""
    return name.lower() in discover() and probe(name.lower()).available


def is_cuda_available() -> bool:
    """Whether an NVIDIA GPU can be opened through CUDA."""
    return is_available("cuda")


def is_metal_available() -> bool:
    """Whether an Apple GPU can be opened through Metal."""
    return is_available("metal")


def is_webgpu_available() -> bool:
    """Whether WebGPU has an adapter, a software one included."""
    return is_available("webgpu")
