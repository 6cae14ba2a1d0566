"""What small eager calls cost the host, beside NumPy and torch: `python bench/eager.py [cpu|webgpu]`.

Microseconds a call, minimum and median of many short turns, in which everybody takes part. Elements are f32, vectors
have 1,024, matrices 32 x 32. Where work is enqueued, none is submitted while the host is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

import hologram as hg

TURNS = 400
CALLS = 50
NO_SUBMISSION = 1 << 30  # dispatches in a batch
Calls = dict[str, Callable[[], Any]]


def assigned(target: Any, position: Any, value: float) -> None:
    target[position] = value


def common(x: Any, y: Any, m: Any) -> Calls:
    """What all of them spell alike."""
    return {
        "x + y": lambda: x + y,
        "x + 1": lambda: x + 1,
        "x.sum()": lambda: x.sum(),
        "m @ m": lambda: m @ m,
        "m[3]": lambda: m[3],
        "m[1:3, ::2]": lambda: m[1:3, ::2],
        "m.T": lambda: m.T,
        "m.reshape(-1)": lambda: m.reshape(-1),
        "y += x": lambda: y.__iadd__(x),
        "y[2:4] = 0.0": lambda: assigned(y, slice(2, 4), 0.0),
    }


def of_numpy(a: np.ndarray, m: np.ndarray) -> Calls:
    x, y, c = a, a.copy(), a > 0.5
    return common(x, y, m) | {
        "exp(x)": lambda: np.exp(x),
        "where(c, x, y)": lambda: np.where(c, x, y),
        "empty": lambda: np.empty((1024,), np.float32),
        "clone": lambda: x.copy(),
        "astype": lambda: x.astype(np.int32),
        "to_numpy": lambda: x.copy(),
        "vector_add": lambda: np.add(a, x, out=y),
    }


def of_torch(a: np.ndarray, m: np.ndarray) -> Calls:
    import torch

    x, y, t = torch.tensor(a), torch.tensor(a), torch.tensor(m)
    c = x > 0.5
    return common(x, y, t) | {
        "exp(x)": lambda: torch.exp(x),
        "where(c, x, y)": lambda: torch.where(c, x, y),
        "empty": lambda: torch.empty((1024,), dtype=torch.float32),
        "clone": lambda: x.clone(),
        "astype": lambda: x.to(torch.int32),
        "to_numpy": lambda: x.numpy().copy(),
        "from_numpy": lambda: y.copy_(torch.from_numpy(a)),
        "vector_add": lambda: torch.add(x, x, out=y),
    }


def of_hologram(ex: hg.Executor, a: np.ndarray, m: np.ndarray) -> Calls:
    x, y, t = ex.tensor(a), ex.tensor(a), ex.tensor(m)
    c = x > 0.5
    b, out = x.buffer, ex.allocate(1024)
    jitted = hg.jit(lambda x, y: x * y + 1)
    return common(x, y, t) | {
        "exp(x)": lambda: hg.exp(x),
        "where(c, x, y)": lambda: hg.where(c, x, y),
        "empty": lambda: ex.empty((1024,), hg.f32),
        "clone": lambda: x.clone(),
        "astype": lambda: x.astype(hg.i32),
        "to_numpy": lambda: b.to_numpy(),
        "from_numpy": lambda: out.from_numpy(a),
        "vector_add": lambda: hg.ops.vector_add(ex, b, b, out),
        "a jitted call": lambda: jitted(x, y),
    }


def turn(call: Callable[[], Any]) -> float:
    """Microseconds a call."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def main(backend: str = "cpu") -> None:
    a = np.random.default_rng(0).random(1024, np.float32)
    m = a.reshape(32, 32)
    with hg.Executor(backend) as executor:
        encoder = getattr(executor.device, "encoder", None)
        if encoder is not None:
            encoder.batch = NO_SUBMISSION
        contenders = {f"hologram, {backend}": of_hologram(executor, a, m), "NumPy": of_numpy(a, m)}
        if find_spec("torch"):
            contenders["torch"] = of_torch(a, m)
        columns = "".join(f"{name:>22}" for name in contenders)
        print(f"{'us, minimum (median)':22}{columns}")
        for row in next(iter(contenders.values())):
            calls = {who: own[row] for who, own in contenders.items() if row in own}
            times: dict[str, list[float]] = {who: [] for who in calls}
            for number in range(TURNS + 20):
                for who, call in calls.items():
                    executor.synchronize()
                    spent = turn(call)
                    if number >= 20:
                        times[who].append(spent)
            cells = (
                f"{min(times[w]):.2f} ({median(times[w]):.2f})" if w in times else "" for w in contenders
            )
            print(f"{row:22}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
