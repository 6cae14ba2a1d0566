"""How near kernels come to what the adapter can do: arithmetic beside its measured peak, transfers beside its own copy.

Goals stand where the adapter is not software; elsewhere the figures are shown, for smaller sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import hologram as hg
from bench.suites import Goal, Result, Row, Suite
from bench.timing import Pace, microseconds, take_turn
from bench.work import format_size, parse_size
from hologram.atlas.builder import Builder, Value, fma
from hologram.atlas.program import Access, Program
from hologram.dtypes import f32

SHARE_OF_PEAK = 0.5
SHARE_OF_BANDWIDTH = 0.85
CHAINS = 16  # of multiply-adds that do not wait for one another, in a lane
STEPS = 256  # of each chain
UNROLLED = 8  # of the steps, so that the loop's own arithmetic does not count


def rows() -> Iterator[Row]:
    """None: no library is beside these."""
    yield from ()


def own_rows(pace: Pace) -> Iterator[Result]:
    with hg.Executor("webgpu") as ex:
        software = ex.limits.software
        yield _arithmetic(ex, 1024 if software else 4096, software, pace)
        for text in ("16M",) if software else ("16M", "64M", "256M"):
            yield from _bandwidth(ex, parse_size(text), software, pace)


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
    """A matmul beside as many multiply-adds that touch no memory, at the rate measured for them."""
    lanes = parse_size("64K" if software else "4M")
    start, end = ex.allocate(lanes), ex.allocate(lanes)
    start.from_numpy(np.random.default_rng(0).standard_normal(lanes, dtype=np.float32))
    program = peak()
    rng = np.random.default_rng(side)
    a, b, out = (ex.allocate((side, side)) for _ in range(3))
    values = [rng.standard_normal((side, side), dtype=np.float32) for _ in range(2)]
    for buffer, array in zip((a, b), values, strict=True):
        buffer.from_numpy(array)
    for buffer in (end, out):
        buffer.fill(float("nan"))
    us = _in_turns(
        pace,
        {
            "matmul": lambda: (hg.ops.matmul(ex, a, b, out), ex.synchronize()),
            "peak": lambda: (ex.launch(program, (start, end), (0.5, 1.0), (lanes,)), ex.synchronize()),
        },
    )
    _expect("peak", end.to_numpy(), np.full(lanes, 2.0 * CHAINS), 1e-3)
    few = slice(0, 16)
    wanted = values[0][few].astype(np.float64) @ values[1].astype(np.float64)
    _expect("matmul", out.to_numpy()[few], wanted, 1e-3 * side**0.5)
    operations_per_us = 2.0 * lanes * CHAINS * STEPS / us["peak"]
    at_peak_us = round(2.0 * side**3 / operations_per_us, 3)
    goal = Goal() if software else Goal(ratio=1 / SHARE_OF_PEAK)
    return Result(
        "roofline", "matmul beside the f32 peak", str(side), us["matmul"], {"peak": at_peak_us}, goal
    )


def _bandwidth(ex: hg.Executor, size: int, software: bool, pace: Pace) -> Iterator[Result]:
    """Additions and exponentials beside copies of as many bytes from buffer to buffer."""
    x, y, out = (ex.allocate(size) for _ in range(3))
    values = np.random.default_rng(1).standard_normal(size, dtype=np.float32)
    for buffer in (x, y):
        buffer.from_numpy(values)
    us = _in_turns(
        pace,
        {
            "copy": lambda: (out.copy_from(x), ex.synchronize()),
            "add": lambda: (hg.ops.vector_add(ex, x, y, out), ex.synchronize()),
            "exp": lambda: (hg.ops.exp(ex, x, out), ex.synchronize()),
        },
    )
    goal = Goal() if software else Goal(ratio=round(1 / SHARE_OF_BANDWIDTH, 4))
    for name, arrays in (("add", 3), ("exp", 2)):
        copy_us = round(us["copy"] * arrays / 2, 3)  # a copy reads an array and writes one
        yield Result(
            "roofline", f"{name} beside a copy", format_size(size), us[name], {"copy": copy_us}, goal
        )


def _in_turns(pace: Pace, ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(pace.turns):
        for name, way in ways.items():
            samples[name] += take_turn(way, pace)
    return {name: microseconds(found) for name, found in samples.items()}


def _expect(name: str, found: np.ndarray, wanted: np.ndarray, error: float) -> None:
    if not np.allclose(found, wanted, rtol=0, atol=error):
        raise ArithmeticError(f"{name}: off by {np.abs(found - wanted).max():.3g}, more than {error:.3g}")


SUITE = Suite("roofline", "webgpu", "hologram", (), rows, own_rows)
