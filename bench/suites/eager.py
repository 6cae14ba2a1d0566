"""What small eager calls cost the host, beside NumPy and PyTorch, on its CPU and on our device.

Elements are f32, vectors have 1,024, matrices 32 x 32. Where work is enqueued, none is submitted while the host is
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import hologram as hg
from bench.suites.replay import NO_SUBMISSION
from hologram.benchmark.suites import Result, Suite, own
from hologram.benchmark.timing import Pace

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


def of_torch(a: np.ndarray, m: np.ndarray, device: str) -> Calls:
    import torch

    x, y, t = (torch.tensor(array).to(device) for array in (a, a, m))
    c = x > 0.5
    return common(x, y, t) | {
        "exp(x)": lambda: torch.exp(x),
        "where(c, x, y)": lambda: torch.where(c, x, y),
        "empty": lambda: torch.empty((1024,), dtype=torch.float32, device=device),
        "clone": lambda: x.clone(),
        "astype": lambda: x.to(torch.int32),
        "to_numpy": lambda: x.cpu().numpy().copy(),
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


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    a = np.random.default_rng(0).random(1024, np.float32)
    m = a.reshape(32, 32)
    with hg.Executor(backend) as executor:
        executors = [executor]
        everyone = {"hologram": of_hologram(executor, a, m), "numpy": of_numpy(a, m)}
        if find_spec("torch"):
            from hologram_torch import module

            module.set_backend(backend)
            everyone |= {"torch": of_torch(a, m, "cpu"), "hologram_torch": of_torch(a, m, "hologram")}
            executors.append(module.executor())
        for encoder in (getattr(one.device, "encoder", None) for one in executors):
            if encoder is not None:
                encoder.batch = NO_SUBMISSION

        def settled() -> None:
            for one in executors:
                one.synchronize()

        for row in everyone["hologram"]:
            calls = {who: calls[row] for who, calls in everyone.items() if row in calls}
            yield own(row, "", calls, pace, before=settled, against=("numpy", "torch"))


SUITES = (Suite("eager", "", own_rows=own_rows),)
