"""Pieces of the matrix: peaks, operations, launches, transfers and models, by everyone on an adapter."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hologram as hg
from hologram.benchmark.contenders import Who
from hologram.benchmark.contenders.ours import Ours, waited
from hologram.benchmark.jobs import Job, off
from hologram.benchmark.piece import PATIENCE, measured
from hologram.benchmark.process import NOT_REACHED, Process, not_installed
from hologram.benchmark.report.records import TOO_LONG, Key, Kind, Measurement
from hologram.benchmark.timing import NoTime
from hologram.benchmark.works import ALL_SIZES, ELEMENT_BYTES, ROWS, WORKS, Contender, Work
from hologram.foundation.frozen import frozen

Open = Callable[[], hg.Executor]
COPIED = "10M"  # elements of the copy that is the peak
PRODUCT, SOFTWARE_PRODUCT = "1M", "100K"  # of the product: a second of software is too long
LAUNCHES = 200  # small dispatches in a call, each of the result of the one before
LAUNCH_ELEMENTS = 1024
# Elements: at a microsecond an element, more would show nothing.
TRANSFER_LIMITS = {"JSON and back": 10 << 10}
# Times that each number is moved; what is not named need not move it.
MOVED = {"JSON and back": 2, "bytes and back": 2, "from_numpy and to_numpy": 2}
KINDS = {Kind.INFERENCE: "forward", Kind.TRAINING: "step"}
USUAL = {"mlp": 256, "cnn": 64, "transformer": 2}  # models with batches of so many
QUICK = {"small_mlp": 100, "small_cnn": 64, "small_transformer": 4}


class Operations:
    """The rows at one size after another for one who computes; what one size took tells what the next will take."""

    def __init__(self, who: str, adapter: str, rows: Sequence[Work], opened: Callable[[], Contender]) -> None:
        self.who, self.adapter, self.rows, self.opened = who, adapter, rows, opened
        self._rates: dict[str, float] = {}  # seconds for a byte, or for a flop

    def measure(self, size: str, seconds: float) -> Iterator[Measurement]:
        """Every row at a size."""
        for row in self.rows:
            yield self._measured(row, size, seconds / len(self.rows))

    def _measured(self, row: Work, size: str, seconds: float) -> Measurement:
        key, count = Key(Kind.OPERATION, row.name, size, self.who, self.adapter), row.sizes[size]
        blank = amounts(Measurement(key), row, count)
        amount = blank.flops or blank.bytes
        if self._rates.get(row.name, 0.0) * amount > PATIENCE * seconds:
            return replace(blank, why=TOO_LONG)
        measurement = measured(blank, lambda: row.job(self.opened(), count), seconds)
        if measurement.turns:
            self._rates[row.name] = min(measurement.turns) / amount
        return measurement


def amounts(blank: Measurement, row: Work, count: int) -> Measurement:
    """With what it computes and moves."""
    return replace(blank, elements=row.elements(count), bytes=row.bytes(count), flops=row.flops(count))


def peaks(adapter: str, opened: Open, seconds: float) -> Iterator[Measurement]:
    """Copies from buffer to buffer, and a product of matrices."""
    executor, elements = opened(), ALL_SIZES[COPIED]
    array = np.random.default_rng(0).standard_normal(elements, dtype=np.float32)
    blank = Measurement(Key(Kind.PEAK, "copy", COPIED, "hologram", adapter), (), elements, 2 * array.nbytes)
    yield measured(blank, lambda: device_copy(executor, array), seconds / 2)
    product, size = ROWS["matmul"], SOFTWARE_PRODUCT if executor.limits.software else PRODUCT
    count = product.sizes[size]
    blank = amounts(Measurement(Key(Kind.PEAK, "matmul", size, "hologram", adapter)), product, count)
    yield measured(blank, lambda: product.job(Ours(executor), count), seconds / 2)


def device_copy(executor: hg.Executor, array: NDArray[Any]) -> Job:
    """From buffer to buffer: what the adapter's memory can do."""
    source, target = executor.allocate(array.shape).from_numpy(array), executor.allocate(array.shape)
    call = waited(executor, partial(target.copy_from, source))
    return Job(call, target.to_numpy, problem=partial(off, wanted=array))


def launches(adapter: str, opened: Open, seconds: float) -> Iterator[Measurement]:
    """The time of one of many small dispatches."""
    ways = dependent(opened())
    for name, (job, dispatches) in ways.items():
        blank = Measurement(Key(Kind.LAUNCH, name, "1K", "hologram", adapter), (), LAUNCH_ELEMENTS)
        measurement = measured(blank, lambda job=job: job, seconds / len(ways))
        yield replace(measurement, turns=tuple(t / dispatches for t in measurement.turns))


def _steps(x: Any, y: Any) -> Any:
    for _ in range(LAUNCHES):
        x = x + y
    return x


def _turned(x: Any) -> Any:
    """Steps that stay dispatches of their own: copies of two parts each."""
    for _ in range(LAUNCHES):
        x = hg.roll(x, 1, axis=0)
    return x


def dependent(executor: hg.Executor) -> dict[str, tuple[Job, int]]:
    """Many small dispatches in a row, by the three ways there are to ask for them, and how many these are."""
    ones = np.ones(LAUNCH_ELEMENTS, np.float32)
    total, one = executor.allocate(ones.shape), executor.allocate(ones.shape).from_numpy(ones)
    x, y = executor.tensor(np.zeros_like(ones)), executor.tensor(ones)
    numbers = np.random.default_rng(0).standard_normal(LAUNCH_ELEMENTS, dtype=np.float32)
    z, jitted = executor.tensor(numbers), hg.jit(_turned)

    def added() -> None:
        for _ in range(LAUNCHES):
            hg.ops.vector_add(executor, total, one, total)

    def summed() -> NDArray[Any]:
        total.fill(0.0)
        added()
        return total.to_numpy() / LAUNCHES

    def job(call: Callable[[], Any], result: Callable[[], NDArray[Any]], wanted: NDArray[Any]) -> Job:
        return Job(waited(executor, call), result, problem=partial(off, wanted=wanted))

    eager, replayed = partial(_steps, x, y), partial(jitted, z)
    turned = np.roll(numbers, LAUNCHES)
    return {
        "hg.ops.vector_add": (job(added, summed, ones), LAUNCHES),
        "x + y": (job(eager, lambda: eager().to_numpy() / LAUNCHES, ones), LAUNCHES),
        "hg.jit, replayed": (job(replayed, lambda: replayed().to_numpy(), turned), jitted.dispatches(z)),
    }


def transfers(adapter: str, opened: Open, size: str, seconds: float) -> Iterator[Measurement]:
    """Numbers in and out, by every way there is."""
    elements, executor = ALL_SIZES[size], opened()
    array = np.random.default_rng(0).standard_normal(elements, dtype=np.float32)
    ways = moved(executor, array)
    for name, way in ways.items():
        key = Key(Kind.TRANSFER, name, size, "hologram", adapter)
        blank = Measurement(key, (), elements, MOVED.get(name, 0) * ELEMENT_BYTES * elements)
        if elements > TRANSFER_LIMITS.get(name, elements):
            continue
        result = partial(lambda way: np.asarray(way()), way)
        job = Job(waited(executor, way), result, problem=partial(off, wanted=array))
        yield measured(blank, lambda job=job: job, seconds / len(ways))


def moved(executor: hg.Executor, array: NDArray[Any]) -> dict[str, Callable[[], Any]]:
    """Ways to bring numbers in and out; each gives an array of them."""
    buffer, tensor = executor.allocate(array.shape).from_numpy(array), executor.tensor(array)
    data = array.tobytes()

    def as_text() -> Any:
        buffer.from_numpy(np.array(json.loads(json.dumps(array.tolist())), np.float32))
        executor.synchronize()
        return np.array(json.loads(json.dumps(buffer.to_numpy().tolist())), np.float32)

    return {
        "JSON and back": as_text,
        "bytes and back": lambda: np.frombuffer(buffer.from_bytes(data).to_bytes(), np.float32),
        "from_numpy and to_numpy": lambda: buffer.from_numpy(array).to_numpy(),
        "to_numpy(copy=False)": lambda: buffer.to_numpy(copy=False),
        "DLPack in": lambda: executor.from_dlpack(array),
        "DLPack out": lambda: np.from_dlpack(tensor),
    }


@frozen
class Models:
    """Whole models, inference and a training step, by one who computes them."""

    who: str
    adapter: str
    opened: Callable[[], Contender]

    def measure(self, name: str, batch: int, seconds: float) -> Iterator[Measurement]:
        for kind, part in KINDS.items():
            blank, work = (
                Measurement(Key(kind, name, str(batch), self.who, self.adapter)),
                WORKS[f"{name}_{part}"],
            )
            yield measured(blank, lambda work=work: work.job(self.opened(), batch), seconds / 2)


def in_process(
    everyone: Sequence[tuple[str, Who]], models: dict[str, int], seconds: float, share: float = 0.9
) -> Iterator[Measurement]:
    """Models by PyTorch, in one process that is stopped after so many seconds, and plans with a share of them.

    Each of everyone has the name that reports call them. OpenMP runtimes in one process disturb one another.
    """
    begun, process = time.monotonic(), Process()
    wanted = [
        (who, Key(kind, model, str(batch), name, who.where))
        for where in dict.fromkeys(who.where for _, who in everyone)
        for model, batch in models.items()
        for name, who in everyone
        if who.where == where
        for kind in KINDS
    ]
    late = "" if find_spec("torch") else not_installed("torch")
    try:
        for done, (who, key) in enumerate(wanted):
            left = seconds - (time.monotonic() - begun)
            if late:
                yield Measurement(key, why=late)
                continue
            try:
                planned = max((left - (1 - share) * seconds) / (len(wanted) - done), 0.05)
                yield process.ask("measure", who, key, planned, seconds=max(left, 0.0))
            except NoTime as why:
                yield Measurement(key, why=str(why))
                late = str(why) if not process.process.is_alive() or str(why) == NOT_REACHED else ""
    finally:
        process.close()
