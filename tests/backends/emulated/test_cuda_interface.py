"""The CUDA backend above the real cuda.bindings, whose libcuda.so.1 is the emulated driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

ROOT = Path(__file__).parents[3]
PLUGIN = "tests.backends.emulated.cuda.interface"
SUITES = {
    "device": (
        "-k",
        "card",
        *(f"tests/backends/cuda/test_{n}.py" for n in ("launch", "memory", "tensor_maps")),
    ),
    "operations": ("--backend", "cuda", "--every", "199", "tests/test_ops.py"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is found by its name as ELF libraries are")
@pytest.mark.parametrize("arguments", SUITES.values(), ids=SUITES)
def test_bindings_and_backend_agree_on_the_interface(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
