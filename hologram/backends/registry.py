"""Finds and asks the backends: each folder here is one, and so is each entry point of the group `hologram.backends`.

A backend is a module with the attributes of `BackendModule` (machine/backend_module.py). Importing it must not load its
vendor's library; `probe()` does that.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import warnings
from collections.abc import Sequence
from functools import cache
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hologram.atlas.program import Launchable
from hologram.foundation import lazy
from hologram.foundation.errors import BackendUnavailable
from hologram.machine.backend_module import BackendModule, Probe
from hologram.machine.limits import Limits

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = lazy.module("importlib.metadata")

GROUP = "hologram.backends"
HERE = Path(__file__).parent


@cache
def load(name: str) -> BackendModule:
    """The backend's module, and no other's; raises BackendUnavailable for a name that no backend has."""
    if name in _folders():
        return _checked(name, importlib.import_module(f"{__package__}.{name}"))
    for entry in metadata.entry_points(group=GROUP, name=name):
        return _checked(name, entry.load())
    raise BackendUnavailable(f"there is no backend {name!r}; use one of auto, {', '.join(discover())}")


@cache
def discover() -> dict[str, BackendModule]:
    """The backend modules by name, in order of preference; hologram's own win over an entry point of the same name."""
    modules = {name: load(name) for name in _folders()}
    for entry in metadata.entry_points(group=GROUP):
        try:
            modules.setdefault(entry.name, load(entry.name))
        except ImportError as error:  # somebody else's package is broken: say so, and do without it
            warnings.warn(f"backend {entry.name!r} ({entry.value}) cannot be imported: {error}", stacklevel=2)
    return {
        name: modules[name] for name in sorted(modules, key=lambda name: (modules[name].PREFERENCE, name))
    }


def _folders() -> list[str]:
    return [module.name for module in pkgutil.iter_modules([str(HERE)]) if module.ispkg]


def _checked(name: str, module: Any) -> BackendModule:
    functions = [a for a, value in vars(BackendModule).items() if isfunction(value) and not a.startswith("_")]
    missing = [a for a in (*BackendModule.__annotations__, *functions) if not hasattr(module, a)]
    if missing:
        raise TypeError(f"backend {name!r} ({module.__name__}) lacks {', '.join(missing)}")
    if name != module.NAME:
        raise TypeError(
            f"backend {name!r} ({module.__name__}): its NAME must be {name!r}, got {module.NAME!r}"
        )
    return module


@cache
def probe(name: str) -> Probe:
    """What a backend has here; asked once. Raises BackendUnavailable for a name that no backend has."""
    return load(name).probe()


@cache
def unopened(name: str) -> dict[int, str]:
    """Devices of a backend that its probe lists and that did not open when they were tried, and why."""
    return {}


if hasattr(os, "register_at_fork"):  # drivers may not survive it
    os.register_at_fork(after_in_child=probe.cache_clear)


def source(
    name: str, kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()
) -> str:
    """The text that a backend compiles for a launch of a kernel, whether or not it has a device here.

    Of an open device, `executor.device.source` tells the same for its own limits. Raises BackendUnavailable for a name
    that no backend has, UnsupportedDType where its language lacks a type of the kernel.
    """
    return load(name).source(kernel, grid, scalars)


def reference_limits(name: str) -> Limits:
    """What a reference device of a backend can do, whether or not there is one here."""
    return load(name).reference_limits()


def forget() -> None:
    """Asks again next time (drivers came or went)."""
    for function in (probe, unopened, discover, load):
        function.cache_clear()


def probes() -> tuple[Probe, ...]:
    """Every backend in order of preference: its devices, or why it has none and what to do."""
    return tuple(probe(name) for name in discover())
