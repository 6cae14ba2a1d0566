"""New processes: the first result, with an empty cache, which compiles, and with one that is filled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hologram
from hologram.benchmark.report.records import Adapter, Key, Kind, Measurement
from hologram.benchmark.timing import NoTime

PROGRAM = Path(__file__).with_name("first_result.py").read_text(encoding="utf-8")
TURNS = 5  # of a warm cache; one of a cold one, which compiles
LIMIT_SECONDS = 120


def first_results(adapter: Adapter, seconds: float) -> Iterator[Measurement]:
    """Times from NumPy's being there to an array of results: `import hologram`, an executor, a compiled kernel."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for row, turns in (("empty cache", 1), ("filled cache", TURNS)):
            key, times, why = Key(Kind.START, row, "1K", "hologram", adapter.name), [], ""
            while len(times) < turns and not (times and time.perf_counter() - begun > seconds):
                try:
                    times.append(fresh(PROGRAM, adapter.backend, str(adapter.index), cache=folder))
                except NoTime as missing:
                    times, why = [], str(missing)
                    break
            yield Measurement(key, tuple(times), why=why)


def fresh(program: str, *arguments: str, cache: str = "", enabled: str = "1") -> Any:
    """What a program prints as JSON in a new process, whose kernels are kept in a folder; NoTime says what went wrong.

    It is started by its text: a script's folder would stand first in sys.path, where it shadows other modules.
    """
    here = str(Path(hologram.__file__).parents[1])
    environment = os.environ | {
        "HOLOGRAM_CACHE": enabled,
        "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))),
    }
    environment |= {"HOLOGRAM_CACHE_DIR": cache} if cache else {}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as pip leaves a package
    command = [sys.executable, "-c", program, *arguments]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoTime(f"a new process gave no result within {LIMIT_SECONDS} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise NoTime(f"a new process failed: {said[-1]}")
    return json.loads(done.stdout)
