"""The test environment and every extra can be installed together, on each Python that is at hand, says pip.

Whatever resolves together resolves apart, so one question a Python is enough. PyTorch is played by a wheel without
content that needs, of CUDA, what its stock wheel needs: that one is half a gigabyte, brings two more, and pip must
download what an index has no metadata for. The CPU build needs less.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTRAS = "cuda,metal,torch,demo,bench,dev"
SOURCES = (ROOT / "pyproject.toml", ROOT / "requirements" / "test.txt")
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
UNREACHABLE = re.compile(
    r"Retrying|NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|CERTIFICATE_VERIFY"
)


def interpreter(minor: int) -> Path | None:
    """A Python of that version, by pyenv or on the path; not one of pyenv's shims, which may lead nowhere."""
    if sys.version_info[1] == minor:
        return Path(sys.executable)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [str(path) for path in sorted(root.glob(f"versions/3.{minor}.*/bin/python"))]
    found += filter(None, [shutil.which(f"python3.{minor}")])
    return next((Path(path) for path in reversed(found) if "shims" not in path), None)


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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "minor",
    [
        pytest.param(k, marks=pytest.mark.skipif(not interpreter(k), reason=f"Python 3.{k} is not at hand"))
        for k in range(10, 15)
    ],
    ids=lambda minor: f"3.{minor}",
)
def test_the_environment_resolves(minor: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    python = interpreter(minor)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (*SOURCES, Path(__file__)))).hexdigest()
    cache, known = getattr(request.config, "cache", None), f"hologram/requirements-3.{minor}"
    if cache is not None and cache.get(known, None) == digest:
        return  # pip was asked this before, in this checkout
    command = [str(python), "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--retries", "2", "--timeout", "30", "--disable-pip-version-check", f".[{EXTRAS}]"]
    command += ["--requirement", str(SOURCES[1]), f"torch @ {stand_in(tmp_path).as_uri()}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    if said.returncode and UNREACHABLE.search(said.stderr):
        request.applymarker(pytest.mark.skipif(True, reason="no index"))  # no installing mends that
        pytest.skip(f"pip reaches no index of packages: {said.stderr.strip().splitlines()[-1]}")
    assert said.returncode == 0, said.stderr
    if cache is not None:
        cache.set(known, digest)
