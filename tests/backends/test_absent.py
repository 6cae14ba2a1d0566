"""CUDA and Metal say why they cannot be used, and never claim that they can; the machine is played."""

from __future__ import annotations

import sys
from enum import IntEnum
from types import ModuleType, SimpleNamespace

import pytest

from hologram.backends import cuda, metal
from hologram.device import Probe
from hologram.errors import BackendUnavailable


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_SYSTEM_NOT_READY = 802


class LibraryMissing(RuntimeError):
    pass


def install_cuda(monkeypatch: pytest.MonkeyPatch, *, init=Status.CUDA_SUCCESS, version: int = 13020) -> None:
    """Puts a cuda-python in place that answers so."""

    def start(flags: int) -> tuple[Status]:
        if init is LibraryMissing:
            raise LibraryMissing("cuda")
        return (init,)

    ok = Status.CUDA_SUCCESS
    bindings, pathfinder = ModuleType("cuda.bindings"), ModuleType("cuda.pathfinder")
    bindings.driver = SimpleNamespace(  # type: ignore[attr-defined]
        CUresult=Status,
        cuInit=start,
        cuDriverGetVersion=lambda: (ok, version),
        cuDeviceGetCount=lambda: (ok, 2),
        cuDeviceGet=lambda k: (ok, k),
        cuDeviceGetName=lambda size, device: (ok, b"Card %d" % device + b"\0" * 10),
    )
    pathfinder.DynamicLibNotFoundError = LibraryMissing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)


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


def test_cuda_python_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    probe = refused(cuda)
    assert "cuda-python is not installed" in probe.reason
    assert "pip install 'hologram[cuda]'" in probe.remedy


@pytest.mark.parametrize(
    ("facts", "reason", "remedy"),
    [
        ({"init": LibraryMissing}, "no NVIDIA driver", "Install the NVIDIA display driver"),
        ({"init": Status.CUDA_ERROR_NO_DEVICE}, "sees no GPU", "nvidia-smi"),
        ({"init": Status.CUDA_ERROR_SYSTEM_NOT_READY}, "CUDA_ERROR_SYSTEM_NOT_READY", "webgpu"),
        ({"version": 12080}, "it runs CUDA 12.8, not 13.0", "580"),
        ({}, "no CUDA launch path yet; devices seen: Card 0, Card 1", "webgpu"),
    ],
)
def test_cuda_says_why(monkeypatch: pytest.MonkeyPatch, facts, reason, remedy):
    install_cuda(monkeypatch, **facts)
    probe = refused(cuda)
    assert reason in probe.reason
    assert remedy in probe.remedy


def test_other_failures_of_the_driver_are_not_hidden(monkeypatch: pytest.MonkeyPatch):
    install_cuda(monkeypatch)
    monkeypatch.setattr(sys.modules["cuda.bindings"].driver, "cuInit", lambda flags: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cuda.probe()


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
