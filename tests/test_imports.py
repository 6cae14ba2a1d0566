"""Importing hologram does nothing: no device is opened, no vendor library loaded, and it is quick."""

from __future__ import annotations

import json
import os
import subprocess
import sys

FORBIDDEN = ("wgpu", "cuda", "Metal", "objc", "llvmlite", "torch", "rich", "typer", "ml_dtypes")
BUDGET_MS = 100.0

PROBE = """
import json, sys, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import hologram
end = time.perf_counter()
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"numpy_ms": 1e3 * (middle - start), "own_ms": 1e3 * (end - middle), "loaded": loaded}))
"""


def probe() -> dict:
    """What one fresh interpreter says, which keeps byte code as those of users do."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    result = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment,
    )
    return json.loads(result.stdout)


def test_import_loads_no_vendor_library() -> None:
    assert not set(FORBIDDEN) & set(probe()["loaded"])


def test_import_is_quick() -> None:
    probe()  # warms the file cache and writes the byte code
    runs = [probe() for _ in range(7)]  # of which the least disturbed one counts
    own_ms = min(run["own_ms"] for run in runs)
    numpy_ms = min(run["numpy_ms"] for run in runs)
    # NumPy's own import is the yardstick of a machine that is slow or busy: hologram never costs more than it.
    assert own_ms < max(BUDGET_MS, numpy_ms), (
        f"import hologram takes {own_ms:.0f} ms beside NumPy's {numpy_ms:.0f} ms"
    )
    if numpy_ms < BUDGET_MS:
        assert own_ms < BUDGET_MS


def test_an_executor_opens_without_loading_more() -> None:
    """What it needs is loaded with the package."""
    code = "import sys, hologram; before = set(sys.modules); hologram.Executor(backend='cpu')\n"
    code += "print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == ""


def test_an_operation_may_be_the_first_thing_that_a_program_asks_for() -> None:
    for call, size in (("random_uniform((3,))", 3), ("eye(2)", 4), ("sin([0.5])", 1)):
        code = f"import hologram; print(hologram.{call}.size)"
        environment = {**os.environ, "HOLOGRAM_BACKEND": "cpu"}
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment
        )
        assert run.stdout.strip() == str(size), run.stderr
