"""hg.backend: which backends can be used here."""

from hologram.device import BackendType
from hologram.runtime.selector import (
    backends,
    explain_selection,
    get_default_backend,
    is_available,
    is_cuda_available,
    is_metal_available,
    is_webgpu_available,
    validate_backend,
)

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
