"""Pieces of the matrix about single operations: peaks, rows, launches and transfers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

import hologram as hg
from hologram.benchmark import jobs
from hologram.benchmark.jobs import Job
from hologram.benchmark.piece import PATIENCE, measured
from hologram.benchmark.report.records import TOO_LONG, Key, Kind, Measurement
from hologram.benchmark.rows import ALL_SIZES, BY_NAME, ELEMENT_BYTES, Row

Open = Callable[[], hg.Executor]
COPIED = "10M"  # elements of the copy that is the peak
PRODUCT, SOFTWARE_PRODUCT = "1M", "100K"  # of the product: a second of software is too long
TOLERANCE = 1e-4
MATMUL = BY_NAME["matmul"]


class Operations:
    """The rows at one size after another for one who computes; what one size took tells what the next will take."""

    def __init__(self, who: str, adapter: str, rows: tuple[Row, ...], opened: Open | None) -> None:
        self.who, self.adapter, self.rows, self.opened = who, adapter, rows, opened
        self._rates: dict[str, float] = {}  # seconds for a byte, or for a flop

    def measure(self, size: str, seconds: float) -> Iterator[Measurement]:
        """Every row at a size."""
        for row in self.rows:
            yield self._measured(row, size, seconds / len(self.rows))

    def _measured(self, row: Row, size: str, seconds: float) -> Measurement:
        key = Key(Kind.OPERATION, row.operation, size, self.who, self.adapter)
        amount = row.flops(size) or row.bytes(size)
        blank = Measurement(key, (), row.elements(size), row.bytes(size), row.flops(size))
        if self.opened is None and row.numpy is None:
            return Measurement(key, why="NumPy has no such function")
        if self._rates.get(row.operation, 0.0) * amount > PATIENCE * seconds:
            return replace(blank, why=TOO_LONG)
        inputs = row.inputs(size)
        job = jobs.operation(self.opened(), row, inputs) if self.opened else jobs.numpy_operation(row, inputs)
        found = measured(blank, job, lambda ready: row.problem(inputs, ready.result()), seconds)
        if found.turns:
            self._rates[row.operation] = min(found.turns) / amount
        return found


def peaks(adapter: str, opened: Open, seconds: float) -> Iterator[Measurement]:
    """Copies from buffer to buffer, and a product of matrices."""
    executor, elements = opened(), ALL_SIZES[COPIED]
    array = np.random.default_rng(0).standard_normal(elements, dtype=np.float32)
    key = Key(Kind.PEAK, "copy", COPIED, "hologram", adapter)
    blank = Measurement(key, (), elements, 2 * ELEMENT_BYTES * elements)
    job = jobs.device_copy(executor, array)
    yield measured(blank, job, lambda ready: _off(ready, array), seconds / 2)
    size = SOFTWARE_PRODUCT if executor.limits.software else PRODUCT
    inputs = MATMUL.inputs(size)
    key = Key(Kind.PEAK, "matmul", size, "hologram", adapter)
    blank = Measurement(key, (), MATMUL.elements(size), MATMUL.bytes(size), MATMUL.flops(size))
    job = jobs.operation(executor, MATMUL, inputs)
    yield measured(blank, job, lambda ready: MATMUL.problem(inputs, ready.result()), seconds / 2)


def launches(adapter: str, opened: Open, seconds: float) -> Iterator[Measurement]:
    """The time of one of many small dispatches."""
    with jobs.launches(opened()) as ways:
        for name, way in ways.items():
            key = Key(Kind.LAUNCH, name, "1K", "hologram", adapter)
            blank = Measurement(key, (), jobs.LAUNCH_ELEMENTS)
            found = measured(
                blank, nullcontext(way.job), partial(_off, wanted=way.wanted), seconds / len(ways)
            )
            turns = tuple(t / way.dispatches for t in found.turns)
            yield Measurement(key, turns, found.elements, why=found.why)


def transfers(adapter: str, opened: Open, size: str, seconds: float) -> Iterator[Measurement]:
    """Numbers in and out, by every way there is."""
    elements, executor = ALL_SIZES[size], opened()
    array = np.random.default_rng(0).standard_normal(elements, dtype=np.float32)
    ways = jobs.transfers(executor, array)
    for name, way in ways.items():
        key = Key(Kind.TRANSFER, name, size, "hologram", adapter)
        blank = Measurement(key, (), elements, jobs.MOVED.get(name, 0) * ELEMENT_BYTES * elements)
        if elements > jobs.TRANSFER_LIMITS.get(name, elements):
            continue
        job = nullcontext(Job(jobs.waiting(executor, way), lambda way=way: np.asarray(way())))
        yield measured(blank, job, lambda ready: _off(ready, array), seconds / len(ways))


def _off(job: Job, wanted: np.ndarray) -> str:
    """What is wrong with a result."""
    error = float((np.abs(job.result() - wanted) / np.maximum(np.abs(wanted), 1)).max())
    return "" if error <= TOLERANCE else f"wrong result: it is off by {error:.1e}, more than {TOLERANCE:.0e}"
