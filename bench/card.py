"""Everything that waits for a real GPU, in one command: the tests and the benchmarks on it, kept under bench/results/.

    python bench/card.py                    # every adapter that is no software; fails where there is none
    python bench/card.py --minutes 10       # what has not ended by then is cut off, and counts as failed

Writes bench/results/<adapter>-<driver>-<commit>/ (with -<number> behind it for all but a backend's first): tests.txt,
a file for each suite (peers-webgpu.json, ...), torch-conformance.txt, bench/ with the report of `hologram bench`,
tune.txt, and card.json (adapter, driver, limits, commit); of CUDA also what compute-sanitizer says of kernels, where it
is installed. Metal joins when it has devices.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import TIMEOUT_MAX, Timer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `bench`, and a checkout's own `hologram`

from bench.suites import SUITES
from hologram.backends.registry import probes
from hologram.machine.device import DeviceInfo

ROOT = Path(__file__).parents[1]
TESTS = tuple(
    f"tests/{name}"
    for name in (
        "test_ops.py",
        "backends",
        "runtime",
        "frontend",
        "compiler",
        "opset",
        "kernels",
        "llm",
        "torch",
    )
)
# What a card beside the first of its backend is asked, by HOLOGRAM_DEVICE: tests that open another backend by its name
# would ask that for a device of the same number.
BESIDE = ("tests/test_ops.py",)
# What looks at every access of a kernel takes a hundred times as long: the tests of hand-written kernels (by `-k`), and
# of all operations one in so many.
SANITIZER, SANITIZED = "compute-sanitizer", 16
WRITTEN = ("-k", "test_tiles or test_candidates or attention", "tests/opset", "tests/backends/cuda")
TOOLS = ("memcheck", "racecheck", "synccheck")


def cards() -> list[tuple[DeviceInfo, bool]]:
    """The real GPUs of every backend, each with whether it is that backend's first."""
    gpus = []
    for probe in probes():
        real = [d for d in probe.devices if not d.limits.software and d.backend != "cpu"]
        gpus += [(device, device is real[0]) for device in real]
    return gpus


def folder(card: DeviceInfo, commit: str, *, first: bool) -> Path:
    parts = (card.name, card.driver, commit) if first else (card.name, card.driver, commit, str(card.index))
    name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-") for part in parts)
    path = ROOT / "bench" / "results" / f"{card.backend}-{name}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(command: list[str], log: Path, environment: dict[str, str], until: float) -> int:
    """Runs a command, its output shown and kept, until a time of `time.monotonic` at the latest."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        print(f"{log.name}: no time is left")
        return 1
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        timer = Timer(min(seconds, TIMEOUT_MAX), process.kill)
        timer.start()
        try:
            for line in process.stdout:
                print(line, end="")
                file.write(line)
            return abs(process.wait())  # killed: the signal's number
        finally:
            timer.cancel()


def commands(card: DeviceInfo, out: Path, *, first: bool) -> Iterator[tuple[Path, list[str]]]:
    """What is run on a card, and where its output is kept."""

    def tests(*arguments: str) -> list[str]:
        beside = ["-n", str(max((os.cpu_count() or 2) // 2, 1)), "--dist", "worksteal"]
        return [sys.executable, "-m", "pytest", "-q", "--backend", card.backend, *beside, *arguments]

    yield out / "tests.txt", tests(*(TESTS if first else BESIDE))
    if not first:
        return
    ours = [sys.executable, "-m", "hologram", "bench", "--backend", card.backend]
    yield out / "tune.txt", [*ours, "--tune"]
    yield out / "bench.txt", [*ours, "--output", str(out / "bench")]
    if card.backend == "cuda" and shutil.which(SANITIZER):
        for tool in TOOLS:
            sanitizer = [SANITIZER, "--tool", tool, "--error-exitcode", "1"]
            yield out / f"{tool}.txt", [*sanitizer, *tests("-n", "0", *WRITTEN)]
            sample = tests("-n", "0", "--every", str(SANITIZED), "tests/test_ops.py")
            yield out / f"{tool}-operations.txt", [*sanitizer, *sample]
    for suite in [name for name, one in SUITES.items() if one.backend in (card.backend, "")]:
        file = out / f"peers-{suite}.json"
        named = ["--suite", suite, "--backend", card.backend]
        command = [sys.executable, "bench/peers.py", *named, "--json", str(file)]
        yield file.with_suffix(".txt"), command
    conformance = [sys.executable, "-m", "tests.conformance", "--backend", card.backend]
    yield out / "torch-conformance.txt", conformance


def measure(card: DeviceInfo, commit: str, until: float, *, first: bool) -> int:
    """The tests and benchmarks of one card, until a time of `time.monotonic`; the worst exit code."""
    out = folder(card, commit, first=first)
    facts = {"adapter": card.name, "driver": card.driver, "backend": card.backend, "commit": commit}
    facts |= {"details": dict(card.details), "limits": {k: str(v) for k, v in vars(card.limits).items()}}
    (out / "card.json").write_text(json.dumps(facts, indent=1) + "\n")
    environment = os.environ | ({} if first else {"HOLOGRAM_DEVICE": str(card.index)})
    return max(run(command, log, environment, until) for log, command in commands(card, out, first=first))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all of it")
    until = time.monotonic() + 60 * parser.parse_args().minutes
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    gpus = cards()
    if not gpus:
        print("There is no real GPU here; `hologram doctor` says why.")
        return 1
    return max(measure(card, commit, until, first=first) for card, first in gpus)


if __name__ == "__main__":
    sys.exit(main())
