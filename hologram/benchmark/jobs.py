"""Work made ready to be timed: a row of operations, copies, launches and transfers, on an executor or in NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hologram as hg
from hologram.benchmark.rows import Array, Row
from hologram.foundation.frozen import frozen

LAUNCHES = 200  # small dispatches in a call, each of the result of the one before
LAUNCH_ELEMENTS = 1024


@frozen
class Job:
    """`call` computes and waits until it is done; `result` is what it computed."""

    call: Callable[[], object]
    result: Callable[[], NDArray[Any]]


def waiting(executor: hg.Executor, call: Callable[[], object]) -> Callable[[], object]:
    """A call that returns when the work is done."""
    if executor.limits.host_resident:  # which it then is anyway
        return call
    synchronize = executor.synchronize

    def called() -> None:
        call()
        synchronize()

    return called


@contextmanager
def filled(executor: hg.Executor, *arrays: NDArray[Any]) -> Iterator[list[hg.Buffer]]:
    """Buffers with the arrays' elements, which are freed in the end."""
    buffers = [executor.allocate(a.shape, a.dtype).from_numpy(a) for a in arrays]
    try:
        yield buffers
    finally:
        for buffer in buffers:
            buffer.free()


@contextmanager
def operation(executor: hg.Executor, row: Row, inputs: tuple[Array, ...]) -> Iterator[Job]:
    """The out-parameter form on buffers that are there."""
    out_shape = row.result(tuple(a.shape for a in inputs))
    with filled(executor, *inputs, np.zeros(out_shape, np.float32)) as buffers:
        call = partial(row.function, executor, *buffers, **row.attributes)
        yield Job(waiting(executor, call), lambda: np.array(buffers[-1].to_numpy()))


@contextmanager
def numpy_operation(row: Row, inputs: tuple[Array, ...]) -> Iterator[Job]:
    """The same in NumPy, into an array that is there."""
    out = np.empty(row.result(tuple(a.shape for a in inputs)), np.float32)
    assert row.numpy is not None
    yield Job(partial(row.numpy, out, *inputs), out.copy)


@contextmanager
def device_copy(executor: hg.Executor, array: Array) -> Iterator[Job]:
    """From buffer to buffer: what the adapter's memory can do."""
    with filled(executor, array, np.zeros_like(array)) as (source, target):
        yield Job(waiting(executor, partial(target.copy_from, source)), target.to_numpy)


def _steps(x: Any, y: Any) -> Any:
    for _ in range(LAUNCHES):
        x = x + y
    return x


def _turned(x: Any) -> Any:
    """Steps that stay dispatches of their own: copies of two parts each."""
    for _ in range(LAUNCHES):
        x = hg.roll(x, 1, axis=0)
    return x


@frozen
class Launches:
    """A call of so many small dispatches, and what it gives."""

    job: Job
    dispatches: int
    wanted: Array


@contextmanager
def launches(executor: hg.Executor) -> Iterator[dict[str, Launches]]:
    """Many small dispatches in a row, by the three ways there are to ask for them."""
    ones = np.ones(LAUNCH_ELEMENTS, np.float32)
    with filled(executor, np.zeros_like(ones), ones) as (total, one):

        def added() -> None:
            for _ in range(LAUNCHES):
                hg.ops.vector_add(executor, total, one, total)

        def summed() -> NDArray[Any]:
            total.fill(0.0)
            added()
            return total.to_numpy() / LAUNCHES

        x, y = executor.tensor(np.zeros_like(ones)), executor.tensor(ones)
        alone = Job(waiting(executor, added), summed)
        eager = Job(waiting(executor, partial(_steps, x, y)), lambda: _steps(x, y).to_numpy() / LAUNCHES)
        numbers = np.random.default_rng(0).standard_normal(LAUNCH_ELEMENTS, dtype=np.float32)
        z, jitted = executor.tensor(numbers), hg.jit(_turned)
        replayed = Job(waiting(executor, partial(jitted, z)), lambda: jitted(z).to_numpy())
        yield {
            "hg.ops.vector_add": Launches(alone, LAUNCHES, ones),
            "x + y": Launches(eager, LAUNCHES, ones),
            "hg.jit, replayed": Launches(replayed, jitted.dispatches(z), np.roll(numbers, LAUNCHES)),
        }


# Elements: at a microsecond an element, more would show nothing.
TRANSFER_LIMITS = {"JSON and back": 10 << 10}

# Times that each number is moved; what is not named need not move it.
MOVED = {"JSON and back": 2, "bytes and back": 2, "from_numpy and to_numpy": 2}


def transfers(executor: hg.Executor, array: Array) -> dict[str, Callable[[], Any]]:
    """Ways to bring numbers in and out; each gives an array of them."""
    buffer, tensor = executor.allocate(array.shape).from_numpy(array), executor.tensor(array)
    data = array.tobytes()

    def as_text() -> Any:
        buffer.from_numpy(np.array(json.loads(json.dumps(array.tolist())), np.float32))
        executor.synchronize()
        return np.array(json.loads(json.dumps(buffer.to_numpy().tolist())), np.float32)

    def as_bytes() -> Any:
        return np.frombuffer(buffer.from_bytes(data).to_bytes(), np.float32)

    def copied() -> Any:
        return buffer.from_numpy(array).to_numpy()

    return {
        "JSON and back": as_text,
        "bytes and back": as_bytes,
        "from_numpy and to_numpy": copied,
        "to_numpy(copy=False)": lambda: buffer.to_numpy(copy=False),
        "DLPack in": lambda: executor.from_dlpack(array),
        "DLPack out": lambda: np.from_dlpack(tensor),
    }
