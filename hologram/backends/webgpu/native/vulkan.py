"""Why Vulkan on Linux lists no GPU though the machine may have one: containers, permissions, drivers, WSL.

Looked up only where no GPU was found. Files and folders are those that the loader and the kernel document: drivers'
manifests (docs.vulkan.org, "Linux Driver Discovery"), DRM's render nodes, PCI's vendor numbers in sysfs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from hologram.backends.webgpu.native.files import DEVICE_FILES
from hologram.foundation.frozen import frozen

LOADER = "libvulkan.so.1"
MANIFESTS = ("etc/vulkan", "usr/share/vulkan", "usr/local/share/vulkan", "usr/local/etc/vulkan")
NAMED = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")  # manifests that the loader is told to use, and no others
CONTAINERS = (".dockerenv", "run/.containerenv")
MESA = "install Mesa's Vulkan drivers (Debian, Ubuntu: apt install mesa-vulkan-drivers)"
NVIDIA = (
    "install the display driver; in a container, start it with --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all, "
    "since 'compute' alone leaves Vulkan out"
)
# By the number that PCI knows them by: makers of GPUs, words in the names of their drivers' manifests, what to do.
VENDORS = {
    "0x1002": ("AMD", ("radeon", "amd"), MESA),
    "0x8086": ("Intel", ("intel",), MESA),
    "0x10de": ("NVIDIA", ("nvidia", "nouveau"), NVIDIA),
}
OLD_WSL = (
    "WSL passes no GPU: it takes WSL 2 (`wsl --set-version`) and a current driver on Windows, none inside"
)
WSL = (
    "in WSL, Vulkan reaches the GPU through Mesa's driver 'dozen' only (mesa-vulkan-drivers 22.1 or newer); "
    "backend='cuda' works with the driver of Windows"
)
CONTAINER = (
    "this container has no GPU: pass it (--device /dev/dri for AMD and Intel, --gpus all for NVIDIA), "
    "and install the driver's Vulkan part inside"
)


@frozen
class System:
    """The machine as files, variables and its dynamic linker show it."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    loader: str = LOADER

    def findings(self) -> Iterator[str]:
        """What is wrong, each with what to do."""
        try:
            ctypes.CDLL(self.loader)
        except OSError:
            yield f"the Vulkan loader, {self.loader}, is missing: install it (Debian, Ubuntu: apt install libvulkan1)"
        for variable in NAMED:
            for path in filter(None, self.environment.get(variable, "").split(os.pathsep)):
                if not (self.root / path.lstrip("/")).exists():
                    yield f"{variable} names {path}, which is not there: unset it"
        nodes = [node for pattern in DEVICE_FILES for node in (self.root / "dev").glob(pattern)]
        if "microsoft" in self._read("proc/version").lower():
            yield WSL if nodes else OLD_WSL
        elif not nodes and any((self.root / name).exists() for name in CONTAINERS):
            yield CONTAINER
        for node in nodes:
            if not os.access(node, os.R_OK | os.W_OK):
                groups = "sudo usermod -aG render,video $USER, then log in again"
                yield f"this user may not open /{node.relative_to(self.root)}: {groups}"
        yield from self._undriven(nodes)

    def _undriven(self, nodes: list[Path]) -> Iterator[str]:
        """GPUs of vendors none of whose drivers has a manifest."""
        manifests = [p.name for folder in MANIFESTS for p in (self.root / folder / "icd.d").glob("*.json")]
        cards = {self._read(path) for path in self.root.glob("sys/class/drm/card*/device/vendor")}
        # Its driver makes no card of DRM's by default.
        if any(node.name.startswith("nvidia") for node in nodes):
            cards.add("0x10de")
        for number, (vendor, drivers, remedy) in VENDORS.items():
            if number in cards and not any(word in name for name in manifests for word in drivers):
                yield f"there is a GPU of {vendor}, and no Vulkan driver for it: {remedy}"

    def _read(self, path: str | Path) -> str:
        try:
            return (self.root / path).read_text().strip()
        except OSError:
            return ""
