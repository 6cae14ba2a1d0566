"""Packages that do not go together, each laid out as the metadata that pip leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hologram.cli import packages

ROOT = Path(__file__).parents[2]


def install(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ({"torch": "2.13.0+cpu", "wgpu": "0.32.0"}, []),
        ({"torch": "2.9.1+cu128"}, ["PyTorch 2.9.1+cu128 is too old for hologram_torch, which needs 2.10: pip"]),
        ({"torch": "2.10.0"}, []),
        ({"torch": "2.15.3"}, []),
        ({"torch": "2.16.0"}, ["PyTorch 2.16.0 is newer than those that hologram_torch was tested with (2.10"]),
        ({"cuda-bindings": "13.4.4", "nvidia-cuda-nvrtc": "13.0.88"}, []),
        ({"cuda-bindings": "13.4.4", "nvidia-cuda-nvrtc-cu12": "12.8.93"}, ["cuda-bindings 13.4.4 is of another CUDA"]),
        (
            {"cuda-bindings": "13.4.4", "nvidia-cuda-nvrtc-cu12": "12.8.93", "nvidia-cuda-nvrtc": "13.0.88"},
            [],
        ),
    ],
)  # fmt: skip
def test_versions_that_do_not_fit_are_said(
    tmp_path: Path, installed: dict[str, str], said: list[str]
) -> None:
    for name, version in installed.items():
        install(tmp_path, name, version)
    found = list(packages.findings([str(tmp_path)]))
    assert len(found) == len(said), found
    for finding, start in zip(found, said, strict=True):
        assert finding.startswith(start)


def test_two_builds_of_pytorch_are_said(tmp_path: Path) -> None:
    for folder, version in (("user", "2.13.0+cpu"), ("system", "2.13.0+cu130")):
        install(tmp_path / folder, "torch", version)
    (finding,) = packages.findings([str(tmp_path / "user"), str(tmp_path / "system")])
    assert finding.startswith("torch is installed 2 times (2.13.0+cpu in ")
    assert finding.endswith("pip uninstall torch until none is left, then install one")


def test_what_is_said_of_pytorchs_versions_agrees() -> None:
    oldest, newest = (".".join(map(str, v)) for v in (packages.OLDEST_TORCH, packages.NEWEST_TORCH))
    major, minor = packages.NEWEST_TORCH
    requirement = (ROOT / "hologram_torch" / "requirement.py").read_text()
    assert f'torch = ["torch>={oldest},<{major}.{minor + 1}"]' in (ROOT / "pyproject.toml").read_text()
    assert f'LEAST = "{oldest}"' in requirement
    assert f'TESTED = "{newest}"' in requirement
    for document in ("README.md", "docs/pytorch.md", "docs/quickstart.md"):
        text = " ".join((ROOT / document).read_text().split())
        assert f"PyTorch {oldest} to {newest}" in text, document


def test_this_environment_is_sound() -> None:
    assert list(packages.findings()) == []
