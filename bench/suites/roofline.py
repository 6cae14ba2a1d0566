"""How near kernels come to what the adapter can do: arithmetic beside its measured peak, transfers beside its own copy.

Goals stand where the adapter is not software; elsewhere the figures are shown, for smaller sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

import hologram as hg
from bench.suites import Goal, Result, Row, Suite
from bench.work import format_size, parse_size
from hologram.atlas.builder import Builder, Value, fma
from hologram.atlas.program import Access, Program
from hologram.benchmark.timing import Pace, microseconds, take_turn
from hologram.foundation.dtypes import f32

SHARE_OF_PEAK = 0.5
SHARE_OF_BANDWIDTH = 0.85
CHAINS = 16  # of multiply-adds that do not wait for one another, in a lane
STEPS = 4096  # of each chain
TOLERANCE = 1e-4  # of results, which are checked before they are timed
UNROLLED = 8  # of the steps, so that the loop's own arithmetic does not count


def rows() -> Iterator[Row]:
    """None: no library is beside these."""
    yield from ()


def own_rows(pace: Pace, backend: str = "webgpu", share: float = SHARE_OF_BANDWIDTH) -> Iterator[Result]:
    with hg.Executor(backend) as ex:
        software = ex.limits.software
        yield _arithmetic(ex, 1024 if software else 4096, software, pace)
        goal = Goal() if software else Goal(ratio=round(1 / share, 4))
        for text in ("16M",) if software else ("16M", "256M"):
            yield from _bandwidth(ex, parse_size(text), goal, pace)


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
    a, b, start = map(_filled, [ex] * 3, [*values, rng.standard_normal(lanes, dtype=np.float32)])
    out, end = ex.allocate((side, side)), ex.allocate(lanes)
    few = slice(0, 16)
    us, wrong = in_turns(
        pace,
        {
            "matmul": lambda: (hg.ops.matmul(ex, a, b, out), ex.synchronize()),
            "peak": lambda: (ex.launch(program, (start, end), (0.5, 1.0), (lanes,)), ex.synchronize()),
        },
        {
            "matmul": lambda: _off(out.to_numpy()[few], values[0][few].astype(float) @ values[1], side**0.5),
            "peak": lambda: _off(end.to_numpy(), np.full(lanes, 2.0 * CHAINS), CHAINS),
        },
    )
    goal = Goal() if software else Goal(ratio=1 / SHARE_OF_PEAK)
    return _result(
        "matmul beside the f32 peak", str(side), us.get("matmul"), {"peak": us.get("peak")}, goal, wrong
    )


ROW = 1024
Call = Callable[[hg.Executor, hg.Buffer, hg.Buffer, hg.Buffer, hg.Buffer], object]


@dataclass(frozen=True)
class Bound:
    """An operation that memory bounds: the arrays that it reads and writes, how it is called, what it gives.

    The call has two arrays of rows, one for results, and one for a number for each row.
    """

    arrays: int
    call: Call
    reference: Callable[[np.ndarray], np.ndarray]


BOUND = {
    "add": Bound(3, lambda ex, x, y, out, _: hg.ops.vector_add(ex, x, y, out), lambda x: x + x),
    "relu": Bound(2, lambda ex, x, y, out, _: hg.ops.relu(ex, x, out), lambda x: np.maximum(x, 0)),
    "exp": Bound(2, lambda ex, x, y, out, _: hg.ops.exp(ex, x, out), np.exp),
    "gelu": Bound(
        2, lambda ex, x, y, out, _: hg.ops.gelu(ex, x, out), lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2)))
    ),
    "sum": Bound(1, lambda ex, x, y, _, sums: hg.ops.sum(ex, x, sums, axis=1), lambda x: x.sum(-1)),
    "softmax": Bound(2, lambda ex, x, y, out, _: hg.ops.softmax(ex, x, out), lambda x: _softmax(x)),
    "layer_norm": Bound(
        2, lambda ex, x, y, out, _: hg.ops.layer_norm(ex, x, None, None, out), lambda x: _normal(x)
    ),
}
LOOKED_AT = 64  # rows of a result that are compared


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[float])(x)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _normal(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _bandwidth(ex: hg.Executor, size: int, goal: Goal, pace: Pace) -> Iterator[Result]:
    """Operations beside a copy of as many bytes from buffer to buffer."""
    values = np.random.default_rng(1).standard_normal((size // ROW, ROW), dtype=np.float32)
    x, y, out, sums = (
        _filled(ex, values),
        _filled(ex, values),
        ex.allocate(values.shape),
        ex.allocate(size // ROW),
    )
    ways: dict[str, Callable[[], object]] = {"copy": lambda: (out.copy_from(x), ex.synchronize())}
    checks: dict[str, Callable[[], str | None]] = {"copy": lambda: _off(out.to_numpy(), values)}
    few = values[:LOOKED_AT].astype(float)

    def check(name: str) -> str | None:
        result = sums if name == "sum" else out
        return _off(result.to_numpy()[:LOOKED_AT], BOUND[name].reference(few), ROW**0.5)

    def run(name: str) -> None:
        BOUND[name].call(ex, x, y, out, sums)
        ex.synchronize()

    ways |= {name: partial(run, name) for name in BOUND}
    checks |= {name: partial(check, name) for name in BOUND}
    us, wrong = in_turns(pace, ways, checks)
    copy_us = us.get("copy")
    for name, bound in BOUND.items():
        beside = copy_us and round(copy_us * bound.arrays / 2, 3)  # a copy reads an array and writes one
        yield _result(f"{name} beside a copy", format_size(size), us.get(name), {"copy": beside}, goal, wrong)


def _filled(ex: hg.Executor, array: np.ndarray) -> hg.Buffer:
    buffer = ex.allocate(array.shape)
    buffer.from_numpy(array)
    return buffer


def _off(found: np.ndarray, wanted: np.ndarray, scale: float = 1.0) -> str | None:
    """What is wrong with a result."""
    error = float((np.abs(found - wanted) / np.maximum(np.abs(wanted), scale)).max())
    return (
        None if error <= TOLERANCE else f"wrong result: it is off by {error:.1e}, more than {TOLERANCE:.0e}"
    )


def in_turns(
    pace: Pace, ways: Mapping[str, Callable[[], object]], checks: Mapping[str, Callable[[], str | None]]
) -> tuple[dict[str, float], dict[str, str]]:
    """Microseconds of those whose result is right, and what is wrong with the others."""
    wrong: dict[str, str] = {}
    for name, way in ways.items():
        way()
        why = checks[name]()
        if why:
            wrong[name] = why
    samples: dict[str, list[float]] = {name: [] for name in ways if name not in wrong}
    for _ in range(pace.turns):
        for name in samples:
            samples[name] += take_turn(ways[name], pace)
    return {name: microseconds(found) for name, found in samples.items()}, wrong


def _result(
    row: str,
    size: str,
    ours_us: float | None,
    beside: dict[str, float | None],
    goal: Goal,
    wrong: dict[str, str],
) -> Result:
    peers_us = {name: us for name, us in beside.items() if us is not None}
    return Result("roofline", row, size, ours_us, peers_us, goal, wrong)


SUITE = Suite("roofline", "webgpu", "hologram", (), rows, own_rows)
