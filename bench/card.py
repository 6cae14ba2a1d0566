"""Everything that waits for a real GPU, in one command: the tests and the benchmarks on it, kept under bench/results/.

    python bench/card.py            # every adapter that is no software; fails where there is none

Writes bench/results/<adapter>-<driver>-<commit>/: tests.txt, a file for each suite (peers-webgpu.json,
torch-training.txt, ...), bench/ with the report of `hologram bench`, tune.txt, and card.json (adapter, driver, limits,
commit); of CUDA also what compute-sanitizer says of kernels, where it is installed. Metal joins when it has devices.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `bench`, and a checkout's own `hologram`

from bench import peers
from hologram.backends.registry import probes
from hologram.device import DeviceInfo

ROOT = Path(__file__).parents[1]
TESTS = tuple(
    f"tests/{name}" for name in ("test_ops.py", "backends", "runtime", "frontend", "compiler", "torch")
)
# PyTorch on the device: which of its operators pass, and how fast it trains.
TORCH = {"conformance": "tests.conformance", "training": "bench.torch_training"}
# What looks at every access of a kernel: one test of operations in so many, as it takes a hundred times as long.
SANITIZER, SANITIZED = "compute-sanitizer", 16
TOOLS = ("memcheck", "racecheck")


def cards() -> list[DeviceInfo]:
    """The real GPUs of every backend; of several of one name the first."""
    found = {}
    for probe in probes():
        for device in probe.devices:
            if not device.limits.software and device.backend != "cpu":
                found.setdefault((device.backend, device.name), device)
    return list(found.values())


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


def commands(card: DeviceInfo, out: Path) -> Iterator[tuple[Path, list[str]]]:
    """What is run on a card, and where its output is kept."""

    def tests(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "pytest", "-q", "--backend", card.backend, *arguments]

    yield out / "tests.txt", tests(*TESTS)
    ours = [str(Path(sys.executable).with_name("hologram")), "bench", "--backend", card.backend]
    yield out / "tune.txt", [*ours, "--tune"]
    yield out / "bench.txt", [*ours, "--output", str(out / "bench")]
    if card.backend == "cuda" and shutil.which(SANITIZER):
        for tool in TOOLS:
            sanitizer = [SANITIZER, "--tool", tool, "--error-exitcode", "1"]
            yield out / f"{tool}.txt", [*sanitizer, *tests("--every", str(SANITIZED), "tests/test_ops.py")]
    for suite in [name for name in peers.SUITES if peers.load(name).backend == card.backend]:
        file = out / f"peers-{suite}.json"
        command = [sys.executable, "bench/peers.py", "--suite", suite, "--json", str(file)]
        yield file.with_suffix(".txt"), command
    for name, module in TORCH.items():
        yield out / f"torch-{name}.txt", [sys.executable, "-m", module, "--backend", card.backend]


def measure(card: DeviceInfo, commit: str) -> int:
    """The tests and benchmarks of one card; the worst exit code."""
    out = folder(card, commit)
    facts = {"adapter": card.name, "driver": card.driver, "backend": card.backend, "commit": commit}
    facts |= {"details": dict(card.details), "limits": {k: str(v) for k, v in vars(card.limits).items()}}
    (out / "card.json").write_text(json.dumps(facts, indent=1) + "\n")
    environment = os.environ | {"HOLOGRAM_DEVICE": card.name}
    return max(run(command, log, environment) for log, command in commands(card, out))


def main() -> int:
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    found = cards()
    if not found:
        print("There is no real GPU here; `hologram doctor` says why.")
        return 1
    return max(measure(card, commit) for card in found)


if __name__ == "__main__":
    sys.exit(main())
