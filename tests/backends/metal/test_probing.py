"""Metal says why it cannot be used and what to do; the machine is emulated."""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Callable

import pytest

from hologram.backends import metal
from hologram.foundation.errors import BackendUnavailable
from hologram.machine.backend_module import Probe
from tests.backends.emulated.metal.framework import APPLE_7, METAL_3, Device, Emulated

probing = importlib.import_module("hologram.backends.metal.probing")  # the package has a lazy one
NAME = "metal-emulated"
MAC_2 = 2002


def refused(asked: Callable[[], Probe], opened: Callable[[], object]) -> Probe:
    """The probe, which has no device; opening one says the same."""
    probe = asked()
    assert not probe.available
    assert probe.remedy
    with pytest.raises(BackendUnavailable) as error:
        opened()
    assert probe.reason in str(error.value)
    assert probe.remedy in str(error.value)
    return probe


def here() -> Probe:
    """On this machine."""
    return refused(metal.probe, lambda: metal.open_device(0))


def mac(*devices: Device) -> tuple[Callable[[], Probe], Callable[[], object]]:
    """What asks an emulated Mac, and what opens its first device."""
    framework = Emulated(devices)
    return (
        lambda: probing.probe(NAME, lambda: framework),
        lambda: probing.open_device(NAME, lambda: framework, 0),
    )


@pytest.mark.parametrize(
    ("system", "reason"), [("linux", "macOS only, this is linux"), ("ios", "for macOS only, this is ios")]
)
def test_metal_needs_macos(monkeypatch: pytest.MonkeyPatch, system: str, reason: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert reason in here().reason


def test_metal_needs_pyobjc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "Metal", None)
    assert "pip install 'hologram[metal]'" in here().remedy


def test_metal_needs_a_device() -> None:
    assert "lists no Metal device" in refused(*mac()).reason


def test_an_intel_mac_says_what_it_has() -> None:
    intel = Device(5, families=(MAC_2, METAL_3))
    probe = refused(*mac(intel))
    assert f"an Intel Mac has {intel.name()}" in probe.reason
    assert "webgpu" in probe.remedy


@pytest.mark.parametrize("version", ["13.6.1", "11.0"])
def test_an_old_macos_says_so(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), "arm64"))
    assert f"macOS 14 or newer is needed, for MSL 3.1; this is {version}" in refused(*mac(Device(1))).reason


@pytest.mark.parametrize("version", ["14.0", "26.1", "10.16", ""])
def test_a_new_one_is_taken(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), "arm64"))
    asked, _ = mac(Device(1))
    assert asked().available


def test_a_system_without_the_language_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "NOTHING", "kernel void atlas_nothing() { of another language; }")
    _, opened = mac(Device(1))
    with pytest.raises(BackendUnavailable, match=r"does not compile MSL 3\.1"):
        opened()


def test_devices_are_described_by_the_driver() -> None:
    asked, _ = mac(Device(3), Device(2, families=(MAC_2,)), Device(1, families=(APPLE_7,), room=1 << 20))
    probe = asked()
    first, second = probe.devices  # by Metal's own numbers, whatever their order
    assert [d.name for d in probe.devices] == [Device(1).name(), Device(3).name()]
    assert (first.limits.max_buffer_bytes, second.limits.max_buffer_bytes) == (1 << 19, 4 << 30)
    assert first.limits.unified_memory
    assert dict(second.details)["families"] == "Apple7 Metal3"
    assert probe.notes == (f"{Device(2).name()} is not used: it is not Apple's own",)
