"""The host's share of launches: enqueued many at once, by the forms there are, and replayed as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.jobs import Job, off
from hologram.benchmark.suites import Goal, Result, Suite, own
from hologram.benchmark.timing import Pace
from hologram.foundation.dtypes import f32
from hologram.machine.layout import Layout
from hologram.opset import OPERATIONS
from hologram.opset.forms.steps import Steps
from hologram.runtime.launches.replay import Replay

N = 1024
KERNELS, ELEMENTS = 50, 16  # so small that they compute next to nothing
NO_SUBMISSION = 1 << 30  # dispatches in a batch: none is submitted while the host is measured


def host(
    row: str,
    ex: hg.Executor,
    call: Callable[[], object] | Job,
    pace: Pace,
    goal: Goal,
    each: float,
    size: str = "1K",
) -> Result:
    """Host time of one of the `each` launches that a call makes, handed over to the device.

    The device is waited for before the clock starts, not behind. On the CPU backend the kernels themselves are in it.
    """
    job = call if isinstance(call, Job) else Job(call)

    def flushed() -> None:
        job.call()
        ex.device.flush()

    many = replace(pace, turns=5 * pace.turns, turn_seconds=0)
    return own(row, size, {"hologram": replace(job, call=flushed)}, many, goal, each, ex.synchronize)


def scans(x: Any) -> Any:
    """Running sums of running sums: each needs the whole of the one before, and nothing can join them."""
    for _ in range(KERNELS):
        x = hg.cumsum(x)
    return x


def replayed(backend: str, goal: Goal, pace: Pace) -> Result:
    """Host time of a kernel of a replayed graph; none where the kernels are fewer, or their result is wrong."""
    with hg.Executor(backend) as ex:
        compiled: Any = hg.jit(scans)
        values = np.random.default_rng(0).uniform(0.5, 1.0, ELEMENTS).astype(np.float32)
        x, wanted = ex.tensor(values), values.astype(np.float64)
        for _ in range(KERNELS):
            wanted = np.cumsum(wanted)
        launched = compiled.dispatches(x)

        def problem(result: np.ndarray) -> str:
            if launched < KERNELS:
                return f"it made {launched} kernels of {KERNELS} operations"
            return off(result, wanted)

        job = Job(lambda: compiled(x), lambda: compiled(x).to_numpy(), problem=problem)
        name = f"host time of a kernel, {KERNELS} replayed"
        return replace(host(name, ex, job, pace, goal, launched, str(ELEMENTS)), dispatches=launched)


def chain(executor: hg.Executor, length: int) -> Replay:
    """`length` additions, each of the result before and the second input."""
    layout = Layout.contiguous(f32, (N,))
    steps, source = Steps(3), 0
    for k in range(length):
        target = 2 if k == length - 1 else steps.place(f32, (N,)).position
        plan = OPERATIONS["add"].plan([layout, layout], [layout], {}, executor.target)
        steps.extend(plan, (source, 1, target))
        source = target
    return Replay(executor, steps.plan(), (layout, layout), (layout,))


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    with hg.Executor(backend) as executor:
        encoder = getattr(executor.device, "encoder", None)
        if encoder is not None:
            encoder.batch = NO_SUBMISSION
        x, y = (executor.tensor(np.ones(N, np.float32)) for _ in range(2))
        a, b, out = (executor.allocate(N) for _ in range(3))
        calls: dict[str, Callable[[], Any]] = {
            "allocate(1024)": lambda: executor.allocate(N),
            "allocate(100_000)": lambda: executor.allocate(100_000),
            "hg.add(x, y)": lambda: hg.add(x, y),
            "hg.ops.vector_add": lambda: hg.ops.vector_add(executor, a, b, out),
        }
        for length in (1, 2, KERNELS):
            calls[f"replay of {length}"] = partial(chain(executor, length), (x, y))
        for name, call in calls.items():
            yield own(name, "1K", {"hologram": call}, pace, before=executor.synchronize)


SUITES = (Suite("replay", "", own_rows=own_rows),)
