"""What `import torch` calls, by the entry point `torch.backends`: makes hologram a device of PyTorch's.

PyTorch has one place for other people's devices, and takes whoever is there for the accelerator of the machine. So a
machine with an accelerator of PyTorch's own keeps that, and another package's device its place, until HOLOGRAM_BACKEND
or `import hologram_torch` asks for ours. This module stands apart from the packages, so that nothing else is imported
where nothing is to be done.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import torch

GROUP = "torch.backends"
VARIABLE = "HOLOGRAM_BACKEND"
# Files below /dev that Linux has where a card for PyTorch's builds for CUDA and ROCm is; looking opens no driver.
CARDS = {"cuda": ("nvidia[0-9]*", "dxg", "nvgpu*", "nvhost-gpu"), "hip": ("kfd",)}


def asked() -> bool:
    """Whether the environment names one of hologram's backends."""
    return os.environ.get(VARIABLE, "").strip().lower() not in ("", "auto")


def theirs(devices: Path = Path("/dev")) -> bool:
    """Whether PyTorch may have an accelerator of its own here."""
    if torch.backends.mps.is_available() or torch.xpu.is_available():
        return True
    if not torch.backends.cuda.is_built():
        return False
    if sys.platform != "linux":
        return torch.cuda.is_available()
    return any(next(devices.glob(p), None) for p in CARDS["hip" if torch.version.hip else "cuda"])


def others() -> list[str]:
    """Other packages that make devices of PyTorch's."""
    return [entry.name for entry in entry_points(group=GROUP) if entry.name != "hologram"]


def load() -> None:
    """Makes the device known, unless it would take another's place; warns where hologram cannot be imported.

    Whatever is wrong with hologram, `import torch` goes on.
    """
    if not asked() and (theirs() or others()):
        return
    try:
        import hologram_torch  # noqa: F401
    except (ImportError, AttributeError, RuntimeError) as error:  # half installed, or for another PyTorch
        warnings.warn(f"hologram is not a device of this PyTorch: {error}", RuntimeWarning, stacklevel=2)
