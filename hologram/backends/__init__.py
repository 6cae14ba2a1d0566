"""Finds and asks the backends: each folder here is one, and so is each entry point of the group `hologram.backends`.

A backend is a module with the attributes of `hologram.device.Backend`. `auto` takes the available backend with the
lowest `PREFERENCE`; equals stand in the order of the alphabet. Importing a backend's module must not load its vendor's
library; `probe()` does that.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from functools import cache, lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from hologram.device import Backend, Probe
from hologram.errors import BackendUnavailable

GROUP = "hologram.backends"
DEFAULT_PREFERENCE = 50  # of a backend that states none: before the CPU


@lru_cache(maxsize=1)
def discover() -> dict[str, Backend]:
    """The backend modules by name, in order of preference; hologram's own win over an entry point of the same name."""
    found: dict[str, ModuleType] = {}
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()
        except ImportError as error:  # somebody else's package is broken: say so, and do without it
            warnings.warn(f"backend {entry.name!r} ({entry.value}) cannot be imported: {error}", stacklevel=2)
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            found[module.name] = importlib.import_module(f"{__name__}.{module.name}")
    for name, module in found.items():
        missing = [a for a in ("TYPE", "probe", "open_device") if not hasattr(module, a)]
        if missing:
            raise TypeError(f"backend {name!r} ({module.__name__}) lacks {', '.join(missing)}")
    # ModuleType cannot be checked against the protocol by a type checker; the loop above has just done it.
    ordered = sorted(found, key=lambda name: (getattr(found[name], "PREFERENCE", DEFAULT_PREFERENCE), name))
    return {name: found[name] for name in ordered}  # type: ignore[misc]


@cache
def probe(name: str) -> Probe:
    """What a backend has here; asked once. Raises BackendUnavailable for a name that no backend has."""
    if name not in discover():
        raise BackendUnavailable(f"there is no backend {name!r}; use one of auto, {', '.join(discover())}")
    return discover()[name].probe()


def forget() -> None:
    """Asks again next time (drivers came or went)."""
    probe.cache_clear()
    discover.cache_clear()


def probes() -> tuple[Probe, ...]:
    """Every backend in order of preference: its devices, or why it has none and what to do."""
    return tuple(probe(name) for name in discover())


class _Backends(ModuleType):
    """This package, which can be called: `hg.backends()` are the probes."""

    def __call__(self) -> tuple[Probe, ...]:
        return probes()


sys.modules[__name__].__class__ = _Backends
