"""Metal says why it cannot be used, and never claims that it can; the machine is played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from hologram.backends import metal
from hologram.device import Probe
from hologram.errors import BackendUnavailable


def refused(backend: ModuleType) -> Probe:
    """The probe, which has no device; opening one says the same."""
    probe = backend.probe()
    assert not probe.available
    assert probe.remedy
    with pytest.raises(BackendUnavailable) as error:
        backend.open_device(0)
    assert probe.reason in str(error.value)
    assert probe.remedy in str(error.value)
    return probe


def test_metal_needs_macos(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert "macOS only, this is linux" in refused(metal).reason


def test_metal_needs_pyobjc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "Metal", None)
    assert "pip install 'hologram[metal]'" in refused(metal).remedy


@pytest.mark.parametrize(("names", "reason"), [((), "lists no Metal device"), (("M4",), "devices seen: M4")])
def test_metal_names_what_it_sees(monkeypatch: pytest.MonkeyPatch, names, reason):
    monkeypatch.setattr(sys, "platform", "darwin")
    module = ModuleType("Metal")
    devices = [SimpleNamespace(name=lambda n=n: n) for n in names]
    module.MTLCopyAllDevices = lambda: devices  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "Metal", module)
    assert reason in refused(metal).reason
