"""The pool with real processes: what a run says of tests that fail or crash, and how many it ran."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.choice import ROOT

TESTS = "tests/harness/crashing.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """A run of the suite in a process of its own; the one of this test may be a worker."""
    names = ("HOLOGRAM_TESTS_KIND", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250, check=False
    )


def test_a_crash_costs_one_test_and_a_failure_names_its_kind(tmp_path: Path) -> None:
    done = run("--pool=2", "--kinds=unoptimised", f"--profile={tmp_path / 'profile'}", TESTS)
    text = done.stdout
    assert done.returncode == 1, text[-3000:] + done.stderr[-3000:]
    assert "2 failed, 6 passed" in text
    assert f"crashed while running '{TESTS}::test_crashes'" in text
    assert "unoptimised HOLOGRAM_CPU_OPTIMISE=0 GALLIVM_PERF=nopt" in text
    assert "cases chosen: 8 of 8 (unoptimised 8 of 8)" in text
    assert (
        sum(f"{TESTS}::test_passes" in line for line in (tmp_path / "profile").read_text().splitlines()) == 6
    )


def test_unknown_kinds_are_refused() -> None:
    done = run("--pool=2", "--kinds=nobody", TESTS)
    assert done.returncode == 4
    assert (
        "kinds must be among unoptimised, as-users, emulated, lacking, swiftshader, got nobody" in done.stderr
    )


def test_a_kind_whose_processes_die_is_no_success(tmp_path: Path) -> None:
    """A module that ends every process that collects it."""
    (tmp_path / "test_dies.py").write_text(
        "import os\n\nif 'PYTEST_XDIST_WORKER' in os.environ:\n    os._exit(9)\n"
    )
    done = run("--pool=1", "--kinds=lacking", "-p", "tests.conftest", f"--rootdir={ROOT}", str(tmp_path))
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    assert "NOT ALL RUN: lacking" in done.stdout
