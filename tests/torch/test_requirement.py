"""What hologram_torch says where PyTorch is absent or too old."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def imported(folder: Path) -> str:
    """The last line of what an interpreter prints that finds PyTorch in a folder, if at all."""
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; import hologram_torch"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode
    return done.stderr.strip().splitlines()[-1]


def test_pytorch_is_named_where_it_is_absent(tmp_path: Path) -> None:
    assert (
        imported(tmp_path)
        == "ModuleNotFoundError: hologram_torch needs PyTorch: pip install 'hologram[torch]' (in a checkout '.[torch]')"
    )


def test_an_old_pytorch_is_refused_by_its_version(tmp_path: Path) -> None:
    real = Path(torch.__file__).parent
    old = tmp_path / "torch"
    shutil.copytree(real / "_vendor", old / "_vendor")
    shutil.copy(real / "torch_version.py", old)
    (old / "__init__.py").touch()
    (old / "version.py").write_text("__version__ = '2.9.1'\n")
    said = imported(tmp_path)
    assert said.startswith("ImportError: hologram_torch needs PyTorch 2.10 or newer, this is 2.9.1")


def test_a_pytorch_without_devices_in_python_is_named() -> None:
    code = (
        "import torch.utils.backend_registration as b; del b._setup_privateuseone_for_python_backend\n"
        "import hologram_torch"
    )
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(
        f"ImportError: hologram cannot be a device of PyTorch {torch.__version__}, it is tested with"
    )
    assert said.endswith(".*'")
