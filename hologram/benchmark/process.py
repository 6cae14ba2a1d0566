"""Processes that measure: one computes at a time, and none meets another's threads.

Two libraries that bring a WebGPU implementation each, or an OpenMP each, do not share a process well; one that crashes
does not take the others with it, and one that takes too long can be stopped. What a process is asked is a function of
its Desk (desk.py).
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hologram.benchmark.timing import NOT_REACHED, NoTime
from hologram.foundation.extras import install

# Threads that spin for a while after their work would disturb whoever is next: OpenBLAS's do for 2^28 cycles, which are
# 110 ms at 2.45 GHz, and whoever comes after NumPy has one core of two as long.
SETTLE_SECONDS = 0.15


def not_installed(package: str) -> str:
    """What is missing, and what to do."""
    how = install("torch") if package == "torch" else f"pip install {package}"
    return f"{package} is not installed: {how}"


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
    package.__path__.append(str(Path(__file__).parents[1]))


def serve(pipe: Connection, checkout: str) -> None:
    """Runs in the process: answers every request with a value, or with why there is none, until it is sent None."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches the parent too, who tells of it
    os.environ["ENABLE_TAICHI_HEADER_PRINT"] = "0"
    with contextlib.redirect_stdout(sys.stderr):  # what libraries say is no part of a report
        desk = None
        while (request := pipe.recv()) is not None:
            try:
                if desk is None:
                    if checkout:
                        exchange(checkout)
                    desk = importlib.import_module("hologram.benchmark.desk").Desk()
                name, arguments = request
                pipe.send((getattr(desk, name)(*arguments), ""))
            except NoTime as why:
                pipe.send((None, str(why)))
            except ModuleNotFoundError as error:
                pipe.send((None, not_installed((error.name or str(error)).partition(".")[0])))
            except Exception as error:  # noqa: BLE001  (whatever is raised is reported, and the others go on)
                words = str(error).strip().splitlines() or [""]
                pipe.send((None, f"{type(error).__name__}: {words[0]}"))


class Process:
    """The parent's end of a process; `checkout` is the folder whose `hologram` it imports, this one's where empty."""

    def __init__(self, checkout: str = "", target: Callable[..., None] = serve) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=target, args=(end, checkout), daemon=True)
        self.process.start()
        end.close()

    def ask(self, name: str, *arguments: Any, seconds: float | None = None) -> Any:
        """What a method of the process's Desk gives; NoTime where it gives nothing, or not within so many seconds."""
        self.tell(name, *arguments)
        return self.answer(seconds)

    def tell(self, name: str, *arguments: Any) -> None:
        """Asks, and does not wait for the answer."""
        try:
            self.pipe.send((name, arguments))
        except OSError:  # it has ended, which whoever waits for the answer will be told
            pass

    def answer(self, seconds: float | None = None) -> Any:
        """What came of the request before."""
        try:
            if not self.pipe.poll(seconds):
                self.process.kill()
                raise NoTime(NOT_REACHED)
            value, why = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            raise NoTime(f"its process ended with status {self.process.exitcode}") from None
        if why:
            raise NoTime(why)
        return value

    def close(self) -> None:
        if self.process.is_alive():
            try:
                self.pipe.send(None)
            except OSError:  # it ended in the meantime, which is what was wanted
                pass
            self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
