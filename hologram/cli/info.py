"""`hologram info`: versions, backends and what their devices can do."""

from __future__ import annotations

import platform
from dataclasses import asdict, fields
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.markup import escape

import hologram
from hologram import store
from hologram.backends import registry
from hologram.cli.display import output, print_json
from hologram.device import DeviceInfo, Probe
from hologram.display import size, table
from hologram.dtypes import ALL
from hologram.runtime import selector

# Distributions whose version decides what works; those of extras are shown where they are installed.
LIBRARIES = (
    "numpy",
    "wgpu",
    "llvmlite",
    "ml_dtypes",
    "cuda-core",
    "cuda-bindings",
    "pyobjc-framework-Metal",
    "torch",
)

UNLIMITED = 1 << 50  # bytes: more than any machine has


def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions, backends and what their devices can do."""
    facts = gather()
    if as_json:
        print_json(facts)
        return
    versions = table("software", "version")
    for name, version in facts["versions"].items():
        versions.add_row(name, version)
    output.print(versions)
    output.print()
    devices = table("backend", "device", "driver", "memory", "dtypes missing")
    for backend in facts["backends"]:
        for device in backend["devices"]:
            devices.add_row(
                f"{backend['name']}:{device['index']}",
                device["name"] + (" (software)" if device["software"] else ""),
                device["driver"],
                memory(device["max_buffer_bytes"], device["shared_bytes"]),
                " ".join(d.name for d in ALL if d.name not in device["dtypes"]) or "none",
            )
        if not backend["devices"]:
            devices.add_row(backend["name"], f"[dim]unavailable: {escape(backend['reason'])}[/]", "", "", "")
    output.print(devices)
    output.print()
    output.print(facts["selection"], highlight=False, markup=False)
    output.print()
    output.print(cache_line(facts["cache"]), highlight=False, markup=False)


def gather() -> dict[str, Any]:
    """All that `info` shows, as plain values."""
    return {
        "versions": versions(),
        "platform": platform.platform(),
        "backends": [describe(probe) for probe in registry.probes()],
        "selection": selector.explain_selection(),
        "cache": cache(),
    }


def cache() -> dict[str, Any]:
    """Where compiled kernels persist, how large that is, and why nothing is kept, where that showed."""
    kept = store.shared()
    return {
        "directory": str(kept.root) if kept.root else None,
        **asdict(kept.usage()),
        "limit_bytes": kept.limit_bytes,
        "problem": kept.problem,
    }


def cache_line(facts: dict[str, Any]) -> str:
    """The cache in words."""
    if facts["directory"] is None:
        return "cache: switched off, nothing compiled persists"
    held = f"{facts['entries']} entries, {size(facts['nbytes'])} of at most {size(facts['limit_bytes'])}"
    return f"cache: {facts['directory']}, {held}" + (f"; {facts['problem']}" if facts["problem"] else "")


def memory(buffer_bytes: int, shared_bytes: int) -> str:
    """The largest buffer and the memory a workgroup shares, in words."""
    largest = "buffers of any size" if buffer_bytes >= UNLIMITED else f"buffers to {size(buffer_bytes)}"
    return f"{largest}, {size(shared_bytes)} shared"


def versions() -> dict[str, str]:
    """hologram's own version, Python's, and those of the libraries that are installed."""
    found = {"hologram": hologram.__version__, "Python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe(probe: Probe) -> dict[str, Any]:
    """A backend as plain values."""
    return {
        "name": probe.backend,
        "available": probe.available,
        "reason": probe.reason,
        "remedy": probe.remedy,
        "notes": list(probe.notes),
        "devices": [describe_device(device) for device in probe.devices],
    }


def describe_device(device: DeviceInfo) -> dict[str, Any]:
    """A device and its limits as plain values."""
    limits = device.limits
    return {
        "index": device.index,
        "name": device.name,
        "driver": device.driver,
        **{field.name: plain(getattr(limits, field.name)) for field in fields(limits) if field.repr},
        "dtypes": [d.name for d in ALL if d in limits.dtypes],
        "details": dict(device.details),
    }


def plain(value: Any) -> Any:
    """A limit as JSON has it: sets as sorted lists of names."""
    return sorted(map(str, value)) if isinstance(value, frozenset) else value
