"""How near kernels come to what the adapter can do: arithmetic beside its measured peak, transfers beside its own copy.

Goals stand where the adapter is not software; elsewhere the figures are shown, for smaller sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import fma
from hologram.atlas.program import Access, Program
from hologram.benchmark.jobs import Job, off
from hologram.benchmark.suites import Goal, Result, Suite, own, result, timed
from hologram.benchmark.timing import Pace
from hologram.benchmark.works import format_size, parse_size
from hologram.foundation.dtypes import f32
from hologram.opset import OPERATIONS

SHARE_OF_PEAK = 0.5
SHARE_OF_BANDWIDTH = {"webgpu": 0.85, "cuda": 0.92}  # of copies
CHAINS = 16  # of multiply-adds that do not wait for one another, in a lane
STEPS = 4096  # of each chain
UNROLLED = 8  # of the steps, so that the loop's own arithmetic does not count


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    with hg.Executor(backend) as ex:
        software = ex.limits.software
        yield _arithmetic(ex, 1024 if software else 4096, software, pace)
        goal = Goal() if software else Goal(ratio=round(1 / SHARE_OF_BANDWIDTH[backend], 4))
        for text in ("16M",) if software else ("16M", "256M"):
            yield from bandwidth(ex, parse_size(text), goal, pace)


def peak() -> Program:
    """Multiply-adds in registers: x = x * a + b, which ends where it should whatever it began with."""
    b = Builder("atlas_bench_peak_f32")
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    factor, addend = b.scalar("factor", f32), b.scalar("addend", f32)
    lane = b.coordinate(0)
    first = b.load(x, lane)

    def body(step: Value, *carried: Value) -> tuple[Value, ...]:
        for _ in range(UNROLLED):
            carried = tuple(fma(value, factor, addend) for value in carried)
        return carried

    chains = b.loop(0, STEPS // UNROLLED, body, first=[first + float(k) for k in range(CHAINS)])
    total = chains[0]
    for value in chains[1:]:
        total = total + value
    b.store(y, lane, total)
    return b.build()


def _arithmetic(ex: hg.Executor, side: int, software: bool, pace: Pace) -> Result:
    """A matmul beside as many multiply-adds that hardly touch memory."""
    rng, program, lanes = np.random.default_rng(side), peak(), side**3 // (CHAINS * STEPS)
    values = [rng.standard_normal((side, side), dtype=np.float32) for _ in range(2)]
    a, b = (ex.allocate(v.shape).from_numpy(v) for v in values)
    start = ex.allocate(lanes).from_numpy(rng.standard_normal(lanes, dtype=np.float32))
    out, end = ex.allocate((side, side)), ex.allocate(lanes)
    few = slice(0, 16)
    jobs = {
        "hologram": Job(
            lambda: (hg.ops.matmul(ex, a, b, out), ex.synchronize()),
            lambda: out.to_numpy()[few],
            problem=partial(off, wanted=values[0][few].astype(float) @ values[1], scale=side**0.5),
        ),
        "peak": Job(
            lambda: (ex.launch(program, (start, end), (0.5, 1.0), (lanes,)), ex.synchronize()),
            end.to_numpy,
            problem=partial(off, wanted=np.full(lanes, 2.0 * CHAINS), scale=CHAINS),
        ),
    }
    goal = Goal() if software else Goal(ratio=1 / SHARE_OF_PEAK)
    return own("matmul beside the f32 peak", str(side), jobs, pace, goal)


ROW = 1024
LOOKED_AT = 64  # rows of a result that are compared
# Operations that memory bounds: how many arrays they read and write.
BOUND = {"add": 3, "relu": 2, "exp": 2, "gelu": 2, "sum": 1, "softmax": 2, "layer_norm": 2}


def bandwidth(ex: hg.Executor, size: int, goal: Goal, pace: Pace) -> Iterator[Result]:
    """Operations beside a copy of as many bytes from buffer to buffer."""
    values = np.random.default_rng(1).standard_normal((size // ROW, ROW), dtype=np.float32)
    x, y = (ex.allocate(values.shape).from_numpy(values) for _ in range(2))
    out, sums = ex.allocate(values.shape), ex.allocate(size // ROW)
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: hg.ops.add(ex, x, y, out),
        "sum": lambda: hg.ops.sum(ex, x, sums, axis=1),
        "layer_norm": lambda: hg.ops.layer_norm(ex, x, None, None, out),
    }
    few = values[:LOOKED_AT].astype(float)

    def job(name: str) -> Job:
        call = calls.get(name) or partial(getattr(hg.ops, name), ex, x, out)
        given, more = ((few, few), {}) if name == "add" else ((few,), {"axis": 1} if name == "sum" else {})
        given = (*given, None, None) if name == "layer_norm" else given
        wanted = OPERATIONS[name].reference(*given, **more)
        buffer = sums if name == "sum" else out
        problem = partial(off, wanted=wanted, scale=ROW**0.5)
        return Job(lambda: (call(), ex.synchronize()), lambda: buffer.to_numpy()[:LOOKED_AT], problem=problem)

    copied = Job(
        lambda: (out.copy_from(x), ex.synchronize()), out.to_numpy, problem=partial(off, wanted=values)
    )
    turns, wrong = timed({"copy": copied} | {name: job(name) for name in BOUND}, pace)
    for name, arrays in BOUND.items():
        # A copy reads an array and writes one.
        taken = {"copy": [t * arrays / 2 for t in turns.get("copy", [])]}
        taken |= {"hologram": turns[name]} if name in turns else {}
        missing = {"hologram": wrong[name]} if name in wrong else {}
        yield result(f"{name} beside a copy", format_size(size), taken, missing, goal, "hologram")


SUITES = (Suite("roofline", "webgpu", own_rows=own_rows), Suite("roofline-cuda", "cuda", own_rows=own_rows))
