"""A contender in a process of its own, driven over a pipe: one computes at a time, and none meets another's threads.

Two libraries that bring a WebGPU implementation each, or an OpenMP each, do not share a process well; and one that
crashes does not take the others with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.contenders import Job, open_contender
from bench.work import check, make_inputs
from hologram.benchmark.process import SETTLE_SECONDS, Answer, Process
from hologram.benchmark.timing import Pace, take_turn


@dataclass(frozen=True)
class CountDispatches:
    """Asks how many kernels a call of the prepared job launches."""


def exchange(checkout: str) -> None:
    """Makes `hologram` that of another checkout, before anything has used it.

    What the benchmarks are made of stays as it is (this process has its clock from there), and is added to a checkout
    that has none yet.
    """
    own, kept = sys.modules["hologram"], "hologram.benchmark"
    for name in [n for n in sys.modules if n.partition(".")[0] == "hologram" and not n.startswith(kept)]:
        del sys.modules[name]
    sys.path.insert(0, checkout)
    try:
        package = importlib.import_module("hologram")
    finally:
        sys.modules.setdefault("hologram", own)  # without which nobody could be told why there is no other
    package.__path__.append(str(Path(__file__).parents[1] / "hologram"))


def serve(pipe: Connection, name: str, backend: str, checkout: str) -> None:
    """Runs in the worker: opens the contender, then prepares works and takes turns until told to stop.

    `checkout` is the folder whose `hologram` is imported; that of this file where it is empty.
    """
    os.environ["ENABLE_TAICHI_HEADER_PRINT"] = "0"
    try:
        if checkout:
            exchange(checkout)
        with contextlib.redirect_stdout(sys.stderr):  # libraries that greet
            contender = open_contender(name, backend)
    except ImportError as error:
        pipe.send(Answer(absent=f"not installed ({error})"))
        return
    except Exception as error:  # noqa: BLE001  (whatever a peer raises is reported, and the others go on)
        pipe.send(Answer(failed=f"{type(error).__name__}: {error}"))
        return
    pipe.send(Answer(contender.device))
    job: Job | None = None
    while (request := pipe.recv()) is not None:
        try:
            if isinstance(request, Pace):
                assert job is not None
                pipe.send(Answer(take_turn(job.call, request)))
                continue
            if isinstance(request, CountDispatches):
                assert job is not None
                count = job.dispatches
                pipe.send(Answer(count()) if count else Answer(absent="it does not count its launches"))
                continue
            job, work, size = None, *request
            inputs = make_inputs(work, size)
            job = contender.prepare(work, inputs)
            pipe.send(Answer(absent="no such operation") if job is None else _first_run(job, work, inputs))
        except Exception as error:  # noqa: BLE001
            job = None
            pipe.send(Answer(failed=f"{type(error).__name__}: {error}"))


def _first_run(job: Job, work: str, inputs: Any) -> Answer:
    """Warms up and looks at the result: a fast wrong answer is none."""
    start = time.perf_counter()
    while True:
        job.call()
        if time.perf_counter() - start > 0.02:
            break
    wrong = check(work, inputs, job.result())
    return Answer(failed=f"wrong result: {wrong}") if wrong else Answer(True)


class Worker(Process):
    """A contender's process."""

    def __init__(self, name: str, backend: str, label: str = "", checkout: str = "") -> None:
        super().__init__(label or name, serve, name, backend, checkout)

    def prepare(self, work: str, size: int) -> Answer:
        """Makes a work ready and checks its result."""
        return self.ask((work, size))

    def turn(self, pace: Pace) -> Answer:
        """Samples in seconds."""
        time.sleep(SETTLE_SECONDS)
        return self.ask(pace)

    def dispatches(self) -> Answer:
        """Kernels launched by a call."""
        return self.ask(CountDispatches())
