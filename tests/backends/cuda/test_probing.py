"""CUDA says why it cannot be used; the machine's driver is emulated."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]
from cuda.pathfinder import DynamicLibNotFoundError

from hologram.backends import cuda
from hologram.backends.cuda import compiler, library
from hologram.foundation.errors import BackendUnavailable
from hologram.machine.backend_module import Probe
from tests.backends.emulated.cuda.driver import Driver

probing = importlib.import_module("hologram.backends.cuda.probing")  # the package has a lazy one


def refused() -> Probe:
    """The probe, which has no device; opening one says the same."""
    probe = cuda.probe()
    assert not probe.available
    assert probe.remedy
    with pytest.raises(BackendUnavailable) as error:
        cuda.open_device(0)
    assert probe.reason in str(error.value)
    assert probe.remedy in str(error.value)
    return probe


def play(monkeypatch: pytest.MonkeyPatch, driver: Driver, start: Any = None) -> None:
    """Makes it the machine's driver; `start` is what cuInit answers, or raises."""

    def begin(flags: int) -> Any:
        if isinstance(start, Exception):
            raise start
        return (start,)

    if start is not None:
        driver.cuInit = begin  # type: ignore[method-assign]
    emulated = library.Library(driver)
    monkeypatch.setattr(probing, "installed", lambda: emulated)


def test_cuda_python_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "installed", library.installed.__wrapped__)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    probe = refused()
    assert "cuda-python is not installed" in probe.reason
    assert "pip install 'hologram[cuda]'" in probe.remedy


def test_bindings_of_an_older_cuda_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import bindings

    monkeypatch.setattr(probing, "installed", library.installed.__wrapped__)
    monkeypatch.setattr(bindings, "__version__", "12.9.4")
    probe = refused()
    assert "cuda-bindings 12.9.4 is installed, 13 or newer is needed" in probe.reason
    assert "pip install 'hologram[cuda]'" in probe.remedy


@pytest.mark.parametrize(
    ("start", "facts", "reason", "remedy"),
    [
        (DynamicLibNotFoundError("cuda"), {}, "no NVIDIA driver", "Install the NVIDIA display driver"),
        (real.CUresult.CUDA_ERROR_NO_DEVICE, {}, "sees no GPU", "nvidia-smi"),
        (real.CUresult.CUDA_ERROR_SYSTEM_NOT_READY, {}, "CUDA_ERROR_SYSTEM_NOT_READY", "webgpu"),
        (None, {"version": 12080}, "it runs CUDA 12.8, not 13.0", "580"),
        (
            None,
            {"architecture": 70},
            "emulated card 0 has compute capability 7.0, CUDA 13 needs 7.5",
            "webgpu",
        ),
        (None, {"pools": 0}, "emulated card 0 has no memory pools", "webgpu"),
        (real.CUresult.CUDA_ERROR_NOT_INITIALIZED, {}, "was forked", "spawn"),
    ],
    ids=["driver", "GPU", "start", "version", "architecture", "pools", "fork"],
)
def test_it_says_why(
    monkeypatch: pytest.MonkeyPatch, start: Any, facts: dict[str, int], reason: str, remedy: str
) -> None:
    play(monkeypatch, Driver(**facts), start)
    probe = refused()
    assert reason in probe.reason
    assert remedy in probe.remedy


@pytest.mark.parametrize("missing", ["nvrtc", "headers"])
def test_the_compiler_is_missing(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def absent() -> None:
        raise BackendUnavailable(f"{missing} is not there")

    play(monkeypatch, Driver())
    monkeypatch.setattr(compiler, missing, absent)
    probe = refused()
    assert probe.reason == f"{missing} is not there"
    assert "pip install 'hologram[cuda]'" in probe.remedy


def test_it_names_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Driver(cards=2))
    first, second = cuda.probe().devices
    assert (first.name, second.name) == ("emulated card 0", "emulated card 1")
    assert (second.index, second.driver) == (1, "CUDA 13.0")
    assert dict(second.details)["architecture"] == "sm_90"
    assert first.limits.subgroup == 32
    assert first.limits.shared_bytes == 48 << 10


def test_other_failures_of_the_driver_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Driver(), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cuda.probe()
