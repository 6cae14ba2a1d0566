"""The first result of a new process: with an empty cache, which compiles, and with one that is filled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hologram
from hologram.benchmark.report.records import Adapter, Key, Kind, Measurement

PROGRAM = Path(__file__).with_name("first_result.py")
TURNS = 5  # of a warm cache; one of a cold one, which compiles
LIMIT_SECONDS = 120


def first_results(adapter: Adapter, seconds: float) -> Iterator[Measurement]:
    """Times from NumPy's being there to an array of results: `import hologram`, an executor, a compiled kernel."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        cold = _process(adapter, folder)
        yield _measurement(adapter, "empty cache", [cold])
        warm = [_process(adapter, folder)]
        while len(warm) < TURNS and not any(isinstance(w, str) for w in warm):
            if time.perf_counter() - begun > seconds:
                break
            warm.append(_process(adapter, folder))
        yield _measurement(adapter, "filled cache", warm)


def _measurement(adapter: Adapter, row: str, found: list[float | str]) -> Measurement:
    key = Key(Kind.START, row, "1K", "hologram", adapter.name)
    why = next((f for f in found if isinstance(f, str)), "")
    return Measurement(key, () if why else tuple(float(f) for f in found), why=why)


def _process(adapter: Adapter, folder: str) -> float | str:
    """Seconds of a fresh process, or what went wrong in it."""
    here = str(Path(hologram.__file__).parents[1])
    environment = os.environ | {
        "HOLOGRAM_CACHE": "1",
        "HOLOGRAM_CACHE_DIR": folder,
        "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))),
    }
    # By its text: a script's folder would stand first in sys.path, where it shadows other modules.
    command = [sys.executable, "-c", PROGRAM.read_text(encoding="utf-8"), adapter.backend, str(adapter.index)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a new process gave no result within {LIMIT_SECONDS} s"
    if done.returncode:
        return f"a new process failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    return float(json.loads(done.stdout))
