"""Everything that waits for a real GPU, in one command: the tests and the benchmarks on it, kept under bench/results/.

    python bench/card.py            # the first adapter that is no software; fails where there is none

Writes bench/results/<adapter>-<driver>-<commit>/: tests.txt, a file for each suite (peers-webgpu.json,
torch-training.txt, ...) and card.json (adapter, driver, limits, commit); of CUDA also what compute-sanitizer says of
kernels, where it is installed. Metal joins when it has devices.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `bench`, and a checkout's own `hologram`

from bench import peers
from hologram.backends.registry import probes
from hologram.device import DeviceInfo

ROOT = Path(__file__).parents[1]
# PyTorch on the device: which of its operators pass, and how fast it trains.
TORCH = {"conformance": "tests.conformance", "training": "bench.torch_training"}


# What looks at every access of a kernel: one test of operations in so many, as it takes a hundred times as long.
SANITIZER, SANITIZED = "compute-sanitizer", 16
TOOLS = ("memcheck", "racecheck")


def cards() -> list[DeviceInfo]:
    """The real GPUs of every backend, the first of each."""
    found = []
    for probe in probes():
        real = [d for d in probe.devices if not d.limits.software and d.backend != "cpu"]
        found += real[:1]
    return found


def folder(card: DeviceInfo, commit: str) -> Path:
    name = "-".join(
        re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-") for part in (card.name, card.driver, commit)
    )
    path = ROOT / "bench" / "results" / f"{card.backend}-{name}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(command: list[str], log: Path, environment: dict[str, str]) -> int:
    """Runs a command, its output shown and kept."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="")
            file.write(line)
        return process.wait()


def sanitize(card: DeviceInfo, out: Path, environment: dict[str, str]) -> int:
    """NVIDIA's checks of accesses and races, where they are installed; the worst exit code."""
    if card.backend != "cuda" or not shutil.which(SANITIZER):
        return 0
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--backend",
        "cuda",
        "--every",
        str(SANITIZED),
        "tests/test_ops.py",
    ]
    worst = 0
    for tool in TOOLS:
        command = [SANITIZER, "--tool", tool, "--error-exitcode", "1", *tests]
        worst = max(worst, run(command, out / f"{tool}.txt", environment))
    return worst


def measure(card: DeviceInfo, commit: str) -> int:
    """The tests and benchmarks of one card; the worst exit code."""
    out = folder(card, commit)
    facts = {"adapter": card.name, "driver": card.driver, "backend": card.backend, "commit": commit}
    facts |= {"details": dict(card.details), "limits": {k: str(v) for k, v in vars(card.limits).items()}}
    (out / "card.json").write_text(json.dumps(facts, indent=1) + "\n")
    environment = os.environ | {"HOLOGRAM_DEVICE": card.name}
    backend = card.backend
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--backend",
        backend,
        "tests/test_ops.py",
        "tests/backends",
        "tests/compiler",
        "tests/torch",
    ]
    worst = max(run(tests, out / "tests.txt", environment), sanitize(card, out, environment))
    for suite in [name for name in peers.SUITES if peers.load(name).backend == backend]:
        file = out / f"peers-{suite}.json"
        command = [sys.executable, "bench/peers.py", "--suite", suite, "--json", str(file)]
        worst = max(worst, run(command, file.with_suffix(".txt"), environment))
    for name, module in TORCH.items():
        command = [sys.executable, "-m", module, "--backend", backend]
        worst = max(worst, run(command, out / f"torch-{name}.txt", environment))
    return worst


def main() -> int:
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    found = cards()
    if not found:
        print("There is no real GPU here; `hologram doctor` says why.")
        return 1
    return max(measure(card, commit) for card in found)


if __name__ == "__main__":
    sys.exit(main())
