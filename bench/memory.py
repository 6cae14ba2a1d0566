"""What a training step needs of memory: how much a fresh process grows by, at its peak."""

from __future__ import annotations

import multiprocessing
import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path

from bench.contenders import open_contender
from bench.suites import Goal, Result
from bench.work import WORKS, make_inputs

CONTENDERS = ("hologram jit", "torch")
RESIDENT = Path("/proc/self/statm")  # where there is none, the peak until then is taken
MEGABYTE = 1 << 20


def _grown(pipe: Connection, name: str, work: str, size: int) -> None:
    """Runs in the fresh process: opens the library, then takes some steps."""
    try:
        contender = open_contender(name, "cpu")
    except ImportError as error:
        pipe.send(f"not installed ({error})")
        return
    inputs = make_inputs(work, size)
    before = _peak_bytes()
    if RESIDENT.exists():
        before = int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    job = contender.prepare(work, inputs)
    assert job is not None
    for _ in range(3):
        job.call()
    pipe.send((_peak_bytes() - before) / MEGABYTE)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else peak * 1024


def peak(suite: str, work: str, size: int, goal: Goal) -> Result:
    """Megabytes that steps add to the process, ours beside torch's: parameters, batch and compiled code included."""
    found: dict[str, float] = {}
    missing: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    for name in CONTENDERS:
        pipe, end = context.Pipe(duplex=False)
        process = context.Process(target=_grown, args=(end, name, work, size))
        process.start()
        end.close()
        try:
            answer = pipe.recv()
        except EOFError:
            answer = "its process ended"
        process.join()
        if isinstance(answer, str):
            missing[name] = answer
        else:
            found[name] = round(answer, 1)
    ours = found.pop(CONTENDERS[0], None)
    return Result(suite, f"{work}, peak MB", WORKS[work].label(size), ours, found, goal, missing, unit="MB")
