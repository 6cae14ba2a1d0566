"""PyTorch's part of the pipelines, in a process of its own, which says what it measures line by line.

Two OpenMP runtimes in a process disturb one another, and a compiler that takes too long can be stopped. The parent
calls `measure`; `python -m hologram.benchmark.torch_process` is PyTorch on the host, and hologram_torch's own module of
the same kind is PyTorch on an adapter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import hologram
from hologram.benchmark.pipelines import Pipeline, Way
from hologram.benchmark.process import not_installed
from hologram.benchmark.report.records import NOT_REACHED, Key, Kind, Measurement, as_dict, measurement

ON_HOST = "hologram.benchmark.torch_process"
ON_ADAPTER = "hologram_torch.benchmark"
KINDS = (Kind.INFERENCE, Kind.TRAINING)


def measure(
    module: str,
    adapters: Sequence[str],
    who: Sequence[str],
    pipelines: Sequence[Pipeline],
    seconds: float,
    share: float = 0.9,
) -> Iterator[Measurement]:
    """What the process measures, as it comes; then what is missing, and why.

    It is stopped after so many seconds, and plans with a share of them.
    """
    keys = [
        Key(kind, p.name, str(p.batch), name, adapter)
        for p in pipelines
        for adapter in adapters
        for name in who
        for kind in KINDS
    ]
    if find_spec("torch") is None:
        yield from (Measurement(key, why=not_installed("torch")) for key in keys)
        return
    task = {"adapters": adapters, "seconds": share * seconds, "pipelines": [asdict(p) for p in pipelines]}
    environment = os.environ | {"PYTHONPATH": _path()}
    command, seen, late = [sys.executable, "-m", module, json.dumps(task)], set(), threading.Event()
    # Into a file: a pipe that nobody reads stops the process once it is full.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said, text=True)
        timer = threading.Timer(seconds, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                found = measurement(json.loads(line))
                seen.add(found.key)
                yield found
            process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()
        why = NOT_REACHED if late.is_set() else _failure(process.returncode, said)
    yield from (Measurement(key, why=why) for key in keys if key not in seen)


def _failure(status: int, said: TextIO) -> str:
    """Why a process ended by itself, by its last words."""
    said.seek(0)
    words = said.read().strip().splitlines() or [f"exit status {status}, and it said nothing"]
    return f"its process failed: {words[-1]}"


def _path() -> str:
    """Where the process finds this hologram."""
    return os.pathsep.join(
        filter(None, (str(Path(hologram.__file__).parents[1]), os.environ.get("PYTHONPATH")))
    )


def answer(ways: Callable[[str], Sequence[Way]], arguments: Sequence[str]) -> None:
    """What the process does: an adapter's pipelines in every way, then the next's, each in a share of the time left."""
    begun = time.perf_counter()
    task: dict[str, Any] = json.loads(arguments[0])
    pipelines = [Pipeline(**p) for p in task["pipelines"]]
    everyone = map(ways, task["adapters"])
    wanted = [(way, p, kind) for own in everyone for p in pipelines for way in own for kind in KINDS]
    for done, (way, pipeline, kind) in enumerate(wanted):
        left = task["seconds"] - (time.perf_counter() - begun)
        found = way.measure_one(kind, pipeline, max(left / (len(wanted) - done), 0.05))
        print(json.dumps(as_dict(found)), flush=True)


def on_host(adapter: str) -> list[Way]:
    from hologram.benchmark.models import with_torch  # torch is an optional peer

    return [Way("PyTorch", adapter, with_torch.forward, with_torch.trained, with_torch.to_numpy)]


if __name__ == "__main__":
    answer(on_host, sys.argv[1:])
