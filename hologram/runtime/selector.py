"""Chooses the backend and the device: by name, by HOLOGRAM_BACKEND and HOLOGRAM_DEVICE, or the best there is."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import hologram.backends.cpu  # noqa: F401  (always there, and opened at once: loaded with the package)
from hologram.backends.registry import discover, load, probe, unopened
from hologram.foundation import debug
from hologram.foundation.config import config
from hologram.foundation.debug import Rung
from hologram.foundation.errors import BackendUnavailable
from hologram.foundation.frozen import frozen
from hologram.machine import claims
from hologram.machine.backend_module import BackendModule, Probe
from hologram.machine.device import Device, DeviceInfo

AUTO = "auto"
DEVICE_FILES = Path("/dev")


@frozen
class Selection:
    """What was chosen, and the reasons, one line each, in the order they were met."""

    name: str
    index: int
    reasons: tuple[str, ...]
    passed: tuple[str, ...] = ()  # those for which `auto` went on from a device that is no software's


def opened(name: str = AUTO, device: int | str | None = None) -> Device:
    """The device that was chosen, open. Raises BackendUnavailable when an explicit choice cannot be had.

    Where `auto` has the choice and what it chose does not open, it warns, and takes the next one.
    """
    module, index = select(name, device)
    automatic = name.lower() == AUTO == config.backend and device is None and config.device is None
    try:
        result = module.open_device(index)
        claims.check(result)
    except BackendUnavailable as error:
        chosen = choose(name, device)
        known = unopened(chosen.name)
        if not automatic or load(chosen.name) is not module or index in known:
            raise
        known[index] = str(error)
        return opened(name, device)
    for reason in choose(name, device).passed if automatic else ():
        warnings.warn(f"auto opens {module.NAME}: {reason}", RuntimeWarning, stacklevel=3)
    return result


def select(name: str = AUTO, device: int | str | None = None) -> tuple[BackendModule, int]:
    """The backend module, and the index of the device in its probe.

    `auto` is what HOLOGRAM_BACKEND says, or else the first of the order of preference with a device that no software
    emulates. `device` is an index, or part of a name. Raises BackendUnavailable when an explicit choice is not here.
    """
    chosen = choose(name, device)
    if debug.shows(Rung.DEVICE):
        debug.show(Rung.DEVICE, title(chosen), "\n".join(chosen.reasons))
    return load(chosen.name), chosen.index


def choose(name: str = AUTO, device: int | str | None = None) -> Selection:
    """As `select`, with the reasons."""
    if not isinstance(name, str):
        raise TypeError(f"a backend must be a name such as 'cpu', got {name!r}")
    reasons: list[str] = []
    asked = name = name.lower()
    if name == AUTO and config.backend != AUTO:
        name = config.backend
        reasons.append(f"HOLOGRAM_BACKEND asks for {name}")
    elif name != AUTO:
        reasons.append(f"{name} was asked for")
    if device is None and config.device is not None:
        wish = number_or_name(config.device)
        reasons.append(f"HOLOGRAM_DEVICE asks for {config.device}")
        if wish is None or asked in (AUTO, config.backend) or _match(probe(name).devices, wish) is not None:
            device = wish
        else:
            reasons.append(f"{name} has no such device, and was named by the program")
    if name != AUTO:
        return _explicit(name, device, reasons)
    passed: list[str] = []
    for candidate in discover():
        index = _automatic(candidate, device, reasons, passed)
        if index is not None:
            return Selection(candidate, index, tuple(reasons), tuple(passed))
    wanted = "" if device is None else f" with device {device!r}"
    raise BackendUnavailable(f"no backend{wanted}: {'; '.join(reasons)}. {_available()}")


def number_or_name(text: str | None) -> int | str | None:
    """What a text says of a device: its number, a part of its name, or nothing."""
    return int(text) if text and text.isdecimal() else text or None


def explain_selection(name: str = AUTO, device: int | str | None = None) -> str:
    """Which backend and device an Executor with these arguments opens, and why, line by line."""
    try:
        chosen = choose(name, device)
    except BackendUnavailable as error:
        return f"nothing can be opened: {error}"
    return "\n".join([title(chosen), *(f"  {r}" for r in chosen.reasons)])


def absence(probed: Probe) -> str:
    """Why a backend is not here and what to do, as a reason for choosing another."""
    return f"{probed.backend}: unavailable, {probed.reason}. {probed.remedy}".rstrip()


def title(chosen: Selection) -> str:
    """The device that was chosen, in a line."""
    info = probe(chosen.name).devices[chosen.index]
    return f"{chosen.name}: {info.name} (device {info.index}, {info.driver})"


def _explicit(name: str, device: int | str | None, reasons: list[str]) -> Selection:
    probed = probe(name)
    if not probed.available:
        raise BackendUnavailable(
            f"backend {name!r} is unavailable: {probed.reason}. {probed.remedy} {_available(name)}"
        )
    if device is None:
        # Software only where there is nothing else.
        index = min(range(len(probed.devices)), key=lambda i: (probed.devices[i].limits.software, i))
    else:
        index = _match(probed.devices, device)
        if index is None:
            names = "; ".join(f"{i}: {d.name}" for i, d in enumerate(probed.devices))
            raise BackendUnavailable(f"backend {name!r} has no device {device!r}; it has {names}")
    return Selection(name, index, (*reasons, f"{probed.devices[index].name} is device {index} of {name}"))


def _automatic(name: str, device: int | str | None, reasons: list[str], passed: list[str]) -> int | None:
    """The device `auto` takes of a backend, or None; either way a reason is added, and if it did not open, to both."""
    if device is None and _has_no_files(name):
        reasons.append(
            f"{name}: no GPU has a device file here; backend={name!r} asks its library all the same"
        )
        return None
    probed = probe(name)
    if not probed.available:
        reasons.append(absence(probed))
        return None
    if isinstance(device, str):  # naming a software adapter is asking for it
        index = _match(probed.devices, device)
        reasons.append(
            f"{name}: {'no device' if index is None else probed.devices[index].name} matches {device!r}"
        )
        return index
    real = [i for i, info in enumerate(probed.devices) if not info.limits.software]
    if not real:
        names = ", ".join(info.name for info in probed.devices)
        reasons.append(
            f"{name}: only software emulates its device ({names}); ask for it with backend={name!r}"
        )
        return None
    if device is not None and device not in real:
        reasons.append(f"{name}: no device {device}")
        return None
    if device is not None:
        reasons.append(f"{name}: {probed.devices[device].name} is device {device}")
        return device
    for index in real:
        why = unopened(name).get(index)
        if why is None:
            reasons.append(f"{name}: {probed.devices[index].name} is the first in order of preference")
            return index
        passed.append(f"{name}: {probed.devices[index].name} is here and does not open: {why}")
        reasons.append(passed[-1])
    return None


def _has_no_files(name: str) -> bool:
    """Whether the kernel shows no real device of a backend: a look takes 0.1 ms, its library may take half a second."""
    patterns = getattr(load(name), "DEVICE_FILES", ())
    return (
        bool(patterns)
        and sys.platform == "linux"
        and not any(next(DEVICE_FILES.glob(p), None) for p in patterns)
    )


def _match(devices: tuple[DeviceInfo, ...], device: int | str) -> int | None:
    if isinstance(device, int):
        return device if 0 <= device < len(devices) else None
    if not isinstance(device, str):
        raise TypeError(f"a device must be a number or a part of a name, got {device!r}")
    return next((i for i, info in enumerate(devices) if device.lower() in info.name.lower()), None)


def _available(besides: str = "") -> str:
    names = [name for name in discover() if name != besides and probe(name).available]
    return f"Available here: {', '.join(names) or 'nothing'}."
