"""The test environment and every extra can be installed together, on each Python, says uv's resolver.

uv needs neither those Pythons nor the packages, of which it reads metadata only: a second where pip takes half a
minute. Whatever resolves together resolves apart, so one question a Python is enough. PyTorch is emulated by a wheel
without content that needs, of CUDA, what its stock wheel needs; the CPU build needs less.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parent.parent
EXTRAS = "cuda,cublas,metal,torch,llm,demo,bench,docs,dev"
SOURCES = (ROOT / "pyproject.toml", ROOT / "requirements" / "test.txt")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TORCH = "2.13.0"
NEEDS = (
    'cuda-toolkit[cudart,nvrtc]==13.0.3; platform_system == "Linux"',
    'cuda-bindings<14,>=13.0.3; platform_system == "Linux" and python_version < "3.15"',
    "filelock",
    "typing-extensions>=4.10.0",
    "setuptools>=77.0.3",
    "sympy>=1.13.3",
    "networkx>=2.5.1",
    "jinja2",
    "fsspec>=0.8.5",
)
UV = find_uv_bin()  # before there are threads, which sysconfig is not made for
UNREACHABLE = re.compile("error sending request|HTTP status server error|operation timed out")


def stand_in(folder: Path) -> Path:
    """A wheel of PyTorch without content."""
    info = f"torch-{TORCH}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in NEEDS),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    path = folder / f"torch-{TORCH}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def test_every_extra_is_asked_for_and_torch_is_the_pinned_one() -> None:
    project, pins = (path.read_text() for path in SOURCES)
    section = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert re.findall(r"^(\w+) = \[", section, re.MULTILINE) == EXTRAS.split(",")
    assert re.findall(r"^torch==(.*)$", pins, re.MULTILINE) == [TORCH]


def resolved(python: str, torch: Path) -> subprocess.CompletedProcess[str]:
    """What uv says of the environment on that Python."""
    command = [UV, "pip", "compile", "--quiet", "--only-binary=:all:", "--python-version", python]
    command += [f"--extra={extra}" for extra in EXTRAS.split(",")]
    return subprocess.run(
        [*command, *map(str, SOURCES), str(torch)], cwd=ROOT, capture_output=True, text=True, timeout=280
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_environment_resolves(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    torch = tmp_path / "torch.in"
    torch.write_text(f"torch @ {stand_in(tmp_path).as_uri()}\n")
    with ThreadPoolExecutor() as pool:  # they wait for the index
        for python, said in zip(PYTHONS, pool.map(lambda p: resolved(p, torch), PYTHONS), strict=True):
            if said.returncode and UNREACHABLE.search(said.stderr):
                request.applymarker(pytest.mark.skipif(True, reason="no index"))  # no installing mends that
                pytest.skip(f"no index of packages is reached: {said.stderr.strip().splitlines()[-1]}")
            assert said.returncode == 0, f"Python {python}: {said.stderr}"
            assert f"torch @ {tmp_path.as_uri()}" in said.stdout
            assert "\nllvmlite==" in said.stdout
