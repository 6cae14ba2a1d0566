"""Where a report was made: the machine, its software, the revision of the code, and the adapters."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import hologram
from hologram.backends import registry
from hologram.benchmark.report.records import Adapter
from hologram.benchmark.timing import busy
from hologram.foundation.errors import BackendUnavailable
from hologram.machine.backend_module import Probe
from hologram.runtime.selector import number_or_name

LIBRARIES = ("numpy", "wgpu", "llvmlite", "cuda-bindings", "pyobjc-framework-Metal", "torch")


def facts() -> dict[str, str]:
    """Words by name."""
    words = {
        "machine": platform.machine(),
        "processor": processor(),
        "cores": str(available_cores()),
        "busy": busy(available_cores()) or "",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "hologram": hologram.__version__,
        "commit": commit(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    for name in LIBRARIES:
        try:
            words[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {name: value for name, value in words.items() if value}


def available_cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name, from where the system keeps it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def commit() -> str:
    """The revision of the checkout that hologram runs from, marked where files differ; none for installed ones."""
    folder = Path(hologram.__file__).parents[1]
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def absent() -> dict[str, str]:
    """Backends that are not here, and why."""
    return {probe.backend: probe.reason for probe in registry.probes() if not probe.available}


def adapters(backend: str | None = None, device: str | None = None) -> tuple[Adapter, ...]:
    """Every device of every backend, or those of a backend, with a number or words of a name.

    Raises BackendUnavailable where nothing is left, and says what there is.
    """
    probes = registry.probes() if backend is None else (registry.probe(backend.lower()),)
    matches = tuple(a for probe in probes for a in _of(probe) if device is None or _is(a, device))
    if matches:
        return matches
    wanted = f"backend {backend!r}" if backend else "any backend"
    wanted += f" with device {device!r}" if device is not None else ""
    reason = next((f": {probe.reason}" for probe in probes if backend and not probe.available), "")
    here = ", ".join(a.title for probe in registry.probes() for a in _of(probe))
    raise BackendUnavailable(f"bench: there is no adapter for {wanted}{reason}. Those here: {here or 'none'}")


def _of(probe: Probe) -> list[Adapter]:
    return [Adapter(probe.backend, i.index, i.name, i.driver, i.limits.software) for i in probe.devices]


def _is(adapter: Adapter, device: str) -> bool:
    wanted = number_or_name(device)
    return adapter.index == wanted if isinstance(wanted, int) else device.lower() in adapter.device.lower()
