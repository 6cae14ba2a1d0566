"""`hologram info`: versions, backends and what their devices can do."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import hologram
from hologram.backends import registry
from hologram.cli.display import grid, output, print_json
from hologram.foundation import store
from hologram.foundation.config import knobs
from hologram.foundation.display import size, table
from hologram.foundation.dtypes import ALL
from hologram.foundation.errors import BackendUnavailable, ConfigError
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.runtime import selector

# Distributions whose version decides what works; those of extras are shown where they are installed.
LIBRARIES = ("numpy", "wgpu", "llvmlite", "ml_dtypes", "cuda-bindings", "pyobjc-framework-Metal", "torch")

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
    shown = grid()
    for backend in facts["backends"]:
        for device in backend["devices"]:
            shown.add_row(f"{backend['name']}:{device['index']}", "device", escape(device["name"]))
            shown.add_row("", "driver", escape(device["driver"]))
            if device["software"]:
                shown.add_row("", "emulated by", "software; it is used only where it is asked for by name")
            shown.add_row("", "memory", memory(device["max_buffer_bytes"], device["shared_bytes"]))
            missing = [d.name for d in ALL if d.name not in device["dtypes"]]
            shown.add_row("", "dtypes", f"all but {' '.join(missing)}" if missing else "all")
    add_findings(shown, registry.probes(), facts["cache"])
    output.print(shown)


def add_findings(shown: Table, probes: Sequence[Probe], kept: dict[str, Any]) -> None:
    """Rows for the backends that are missing, each with its reason, for what `auto` opens, and for the cache."""
    for probe in probes:
        if not probe.available:
            shown.add_row(probe.backend, "unavailable", escape(probe.reason))
            if probe.remedy:
                shown.add_row("", "what to do", escape(probe.remedy))
        for note in probe.notes:
            shown.add_row(probe.backend, "note", escape(note))
    try:
        chosen = selector.choose()
    except BackendUnavailable as error:
        shown.add_row("auto", "opens", f"nothing: {escape(str(error))}")
    else:
        shown.add_row("auto", "opens", escape(selector.title(chosen)))
        known = set(map(selector.absence, probes))
        for reason in chosen.reasons:
            if reason not in known:
                shown.add_row("", "because", escape(reason))
    for finding in configuration():
        shown.add_row("environment", "wrong", escape(finding))
    for name, value in cache_rows(kept):
        shown.add_row("cache" if name == "folder" else "", name, escape(value))


def gather() -> dict[str, Any]:
    """All that `info` shows, as plain values."""
    return {
        "versions": versions(),
        "platform": platform.platform(),
        "backends": [describe(probe) for probe in registry.probes()],
        "selection": selector.explain_selection(),
        "cache": cache(),
        "configuration": [*configuration()],
    }


def configuration() -> Iterator[str]:
    """What variables of the environment hold that they must not."""
    for knob in knobs():
        try:
            knob.read()
        except ConfigError as error:
            yield str(error)


def cache() -> dict[str, Any]:
    """Where compiled kernels persist, how large that is, and why nothing is kept, where that showed."""
    kept = store.shared()
    problem = kept.examine()
    return {
        "directory": str(kept.root) if kept.root else None,
        **asdict(kept.usage()),
        "limit_bytes": kept.limit_bytes,
        "problem": problem,
    }


def cache_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The cache in words: where it is, what it holds, and why nothing is kept."""
    if facts["directory"] is None and not facts["problem"]:
        yield "folder", "none: it is switched off, nothing compiled persists"
        return
    yield "folder", facts["directory"] or "none"
    yield (
        "holds",
        f"{facts['entries']} entries, {size(facts['nbytes'])} of at most {size(facts['limit_bytes'])}",
    )
    if facts["problem"]:
        yield "problem", facts["problem"]


def memory(buffer_bytes: int, shared_bytes: int) -> str:
    """The largest buffer and the memory a workgroup shares, in words."""
    largest = "buffers of any size" if buffer_bytes >= UNLIMITED else f"buffers to {size(buffer_bytes)}"
    return f"{largest}, {size(shared_bytes)} shared by a workgroup"


def versions() -> dict[str, str]:
    """hologram's own version, Python's, and those of the libraries that are installed."""
    installed = {"hologram": hologram.__version__, "Python": platform.python_version()}
    for name in LIBRARIES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


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
