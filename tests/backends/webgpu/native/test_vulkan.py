"""What is said of machines whose Vulkan lists no GPU, each laid out as files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hologram.backends.webgpu.native import vulkan
from hologram.backends.webgpu.native.vulkan import System

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files and loader are those of Linux")

LOADED = "libc.so.6"  # a library that is there, in the loader's place


def machine(root: Path, files: dict[str, str]) -> System:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return System(root, {}, LOADED)


UBUNTU = {"proc/version": "Linux version 6.8.0-40-generic (buildd@lcy02) (gcc 13.2)"}
SOFTWARE = {"usr/share/vulkan/icd.d/lvp_icd.x86_64.json": "{}"}
AMD = {"sys/class/drm/card0/device/vendor": "0x1002\n", "dev/dri/renderD128": ""}
NVIDIA = {"dev/nvidia0": "", "dev/nvidiactl": ""}
WSL = {"proc/version": "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@65c757a075e2)"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (UBUNTU | SOFTWARE, []),
        (UBUNTU | AMD | SOFTWARE, ["there is a GPU of AMD, and no Vulkan driver for it: install Mesa's"]),
        (UBUNTU | AMD | {"etc/vulkan/icd.d/radeon_icd.x86_64.json": "{}"}, []),
        (UBUNTU | NVIDIA | SOFTWARE, ["there is a GPU of NVIDIA, and no Vulkan driver for it: install the display"]),
        (UBUNTU | NVIDIA | {"etc/vulkan/icd.d/nvidia_icd.json": "{}"}, []),
        (UBUNTU | {".dockerenv": ""} | SOFTWARE, ["this container has no GPU: pass it"]),
        (UBUNTU | {"run/.containerenv": ""}, ["this container has no GPU: pass it"]),
        (UBUNTU | {".dockerenv": ""} | NVIDIA, ["there is a GPU of NVIDIA, and no Vulkan driver"]),
        (WSL | SOFTWARE, ["WSL passes no GPU"]),
        (WSL | {"dev/dxg": ""}, ["in WSL, Vulkan reaches the GPU through"]),
    ],
    ids=[
        "no GPU", "AMD without driver", "AMD", "NVIDIA without driver", "NVIDIA", "docker", "podman",
        "docker with NVIDIA's compute part", "WSL without GPU", "WSL",
    ],
)  # fmt: skip
def test_what_is_missing_is_said(tmp_path: Path, files: dict[str, str], said: list[str]) -> None:
    found = list(machine(tmp_path, files).findings())
    assert len(found) == len(said), found
    for finding, start in zip(found, said, strict=True):
        assert finding.startswith(start)


def test_a_missing_loader_is_said(tmp_path: Path) -> None:
    (finding,) = System(tmp_path, {}, "libabsent.so.1").findings()
    assert finding.startswith("the Vulkan loader, libabsent.so.1, is missing: install it")


@pytest.mark.parametrize("variable", vulkan.NAMED)
def test_a_variable_that_names_no_file_is_said(tmp_path: Path, variable: str) -> None:
    there = tmp_path / "opt" / "there.json"
    there.parent.mkdir()
    there.touch()
    system = System(tmp_path, {variable: "/opt/there.json:/opt/gone.json"}, LOADED)
    assert list(system.findings()) == [f"{variable} names /opt/gone.json, which is not there: unset it"]


def test_a_device_that_may_not_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine(tmp_path, UBUNTU | AMD | {"etc/vulkan/icd.d/radeon_icd.json": "{}"})
    if os.getuid() == 0:  # who may open all
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    else:
        (tmp_path / "dev/dri/renderD128").chmod(0)
    (finding,) = system.findings()
    assert finding.startswith(
        "this user may not open /dev/dri/renderD128: sudo usermod -aG render,video $USER"
    )


def test_this_machine_is_looked_at() -> None:
    assert all(": " in finding for finding in System().findings())
