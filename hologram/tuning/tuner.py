"""The tuner: measures the candidates of a kernel on a device, in turns, and keeps the fastest.

At work in the background it has a device of its own, so that what it enqueues and waits for stands in nobody's queue.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import Any, Protocol

import numpy as np

from hologram.foundation.errors import CompileError, HologramError
from hologram.foundation.frozen import frozen
from hologram.machine.choices import Candidate, Problem
from hologram.machine.device import Device
from hologram.machine.kernel import Launch
from hologram.machine.limits import Limits
from hologram.machine.plan import Target
from hologram.runtime.launches.launcher import Launches
from hologram.tuning.tunable import TUNABLES
from hologram.tuning.winners import Winners


class Host(Protocol):
    """What measuring needs of an Executor."""

    limits: Limits
    device: Device
    bound: Launches

    def allocate(self, shape: Any, dtype: Any) -> Any: ...

    def synchronize(self) -> None: ...

    def close(self) -> None: ...


@frozen
class Pace:
    """How long to measure: rounds in which every candidate has its turn, and seconds of a turn at the least."""

    rounds: int = 7
    turn_seconds: float = 5e-3


HOPELESS = 1.5  # what takes so many times the fastest one's time after two rounds is dropped
WORTH = 0.97  # of the default's time: what is no faster than this stays the default


@frozen
class Measured:
    """What measuring found: seconds of a call, by candidate that ran to the end."""

    problem: Problem
    default: Candidate
    winner: Candidate
    seconds: dict[Candidate, float]
    operations: int


def measure(host: Host, problem: Problem, pace: Pace = Pace(), stop: Callable[[], bool] = bool) -> Measured:
    """Times every candidate that the device can run, on random operands; a call is all of a plan's launches.

    Between two calls of a turn nothing waits, so what counts is throughput. `stop` ends it early.
    """
    tunable = TUNABLES[problem.kernel]
    trial = tunable.trial(problem)
    default = tunable.default(problem, host.limits)
    rng = np.random.default_rng(0)
    with contextlib.ExitStack() as held:
        buffers = []
        for layout in (*trial.inputs, trial.output):
            buffers.append(host.allocate(layout.size, layout.dtype))
            held.callback(buffers[-1].free)
            buffers[-1].from_numpy(rng.standard_normal(layout.size).astype(layout.dtype.numpy))
        calls: dict[Candidate, Launch] = {}
        for candidate in (default, *tunable.candidates(problem, host.limits)):
            if candidate not in calls and not stop():
                plan = trial.plan(Target(host.limits, partial(_only, candidate)))
                try:
                    calls[candidate] = call = host.bound.call(plan, buffers)
                    _time(host, call, 1)  # compiles
                except CompileError:  # the device does not take it after all
                    calls.pop(candidate, None)
                    if candidate == default:
                        raise
        samples = _samples(host, calls, default, pace, stop)
    seconds = {candidate: median(times) for candidate, times in samples.items() if times}
    winner = min(seconds, key=seconds.__getitem__, default=default)
    if winner not in seconds or seconds[winner] > WORTH * seconds.get(default, 0.0):
        winner = default
    return Measured(problem, default, winner, seconds, trial.operations)


def _samples(
    host: Host, calls: dict[Candidate, Launch], default: Candidate, pace: Pace, stop: Callable[[], bool]
) -> dict[Candidate, list[float]]:
    """Seconds of a call in each turn; who is hopeless after two of them has no more."""
    repeats: dict[Candidate, int] = {}
    for candidate, call in calls.items():
        if stop():
            break
        repeats[candidate] = max(1, round(pace.turn_seconds / max(_time(host, call, 1), 1e-6)))
    racing: dict[Candidate, list[float]] = {candidate: [] for candidate in repeats}
    for turn in range(pace.rounds):
        if turn == 2 and racing and all(racing.values()):  # none where it was stopped at once
            best = min(map(median, racing.values()))
            racing = {
                c: times for c, times in racing.items() if c == default or median(times) <= HOPELESS * best
            }
        for candidate, times in racing.items():
            if not stop():
                times.append(_time(host, calls[candidate], repeats[candidate]))
    return racing


def _only(candidate: Candidate, _problem: Problem) -> Candidate:
    """A choice, whatever the problem."""
    return candidate


def _time(host: Host, call: Launch, repeats: int) -> float:
    """Seconds of one call."""
    host.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    host.synchronize()
    return (time.perf_counter() - start) / repeats


def tune(
    host: Host, problems: Iterable[Problem], winners: Winners, pace: Pace = Pace()
) -> Iterable[Measured]:
    """Measures problems one after the other, and keeps the winner of each."""
    for problem in problems:
        measured = measure(host, problem, pace)
        winners.put(problem, measured.winner)
        yield measured


def usual(limits: Limits) -> tuple[Problem, ...]:
    """The problems worth tuning on a device before anybody asks: those with a choice."""
    return tuple(
        problem
        for tunable in TUNABLES.values()
        for problem in tunable.usual
        if problem.dtype in limits.product_dtypes and len(set(tunable.candidates(problem, limits))) > 1
    )


class Background:
    """A thread that tunes the problems that plans had no choice for, one by one, on a device of its own.

    Call it with a problem to have that measured. The thread begins with the first one, and ends with the process or
    with `close`; what it measures is kept at once.
    """

    def __init__(self, open_host: Callable[[], Host], winners: Callable[[], Winners | None]) -> None:
        self._open_host = open_host
        self._winners = winners
        self._asked: queue.SimpleQueue[Problem | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __call__(self, problem: Problem) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self._asked.put(problem)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hologram tuner", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def stop(self) -> None:
        """Tells the thread to end."""
        self._ended.set()
        self._asked.put(None)

    def close(self) -> None:
        """Ends the thread, after the call it is timing."""
        with self._lock:
            self.stop()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
            atexit.unregister(self.close)

    def _work(self) -> None:
        # A device that will not open or run a kernel is no reason to disturb the program, which has its defaults.
        with contextlib.suppress(HologramError), contextlib.closing(self._open_host()) as host:
            while (problem := self._asked.get()) is not None and not self._ended.is_set():
                with contextlib.suppress(HologramError):  # one that does not fit, say: the next one may
                    measured = measure(host, problem, stop=self._ended.is_set)
                    winners = self._winners()
                    if winners is None or self._ended.is_set():
                        return
                    winners.put(problem, measured.winner)
