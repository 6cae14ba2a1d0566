"""The host's time for operators at shapes that were not met before, and at the second call of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.suites import Goal, Result, Suite, result
from hologram.benchmark.timing import Pace

WIDTH = 64
LEARNT, TIMED = range(20, 30), range(30, 60)  # rows
Call = Callable[[Any], object]


def own(executor: hg.Executor) -> dict[str, Call]:
    """Operators of hologram's own matrices with so many columns."""
    draw = np.random.default_rng(0)
    weight = executor.tensor(draw.standard_normal((WIDTH, WIDTH), np.float32))
    row = weight[0].clone()
    return {
        "x + x": lambda x: x + x,
        "x + row": lambda x: x + row,
        "x * 2.0": lambda x: x * 2.0,
        "exp": hg.exp,
        "softmax": hg.softmax,
        "sum": lambda x: x.sum(axis=0),
        "layer_norm": lambda x: hg.layer_norm(x, row, row),
        "concat": lambda x: hg.concat([x, x], axis=1),
        "x.T.clone()": lambda x: x.T.clone(),
        "x @ weight": lambda x: x @ weight,
        "linear": lambda x: hg.linear(x, weight, row),
        "x[...] = 1.0": lambda x: x.__setitem__(..., 1.0),
    }


def calls(device: str) -> dict[str, Call]:
    """PyTorch's operators of such a matrix."""
    import torch
    from torch.nn import functional

    weight, bias = torch.randn(WIDTH, WIDTH).to(device), torch.randn(WIDTH).to(device)
    return {
        "x + x": lambda x: x + x,
        "x + bias": lambda x: x + bias,
        "x * 2.0": lambda x: x * 2.0,
        "x.add_(1.0)": lambda x: x.add_(1.0),
        "gelu": functional.gelu,
        "softmax": lambda x: x.softmax(-1),
        "sum": lambda x: x.sum(0),
        "mean": lambda x: x.mean(-1, keepdim=True),
        "layer_norm": lambda x: functional.layer_norm(x, (WIDTH,), bias, bias),
        "cat": lambda x: torch.cat([x, x], -1),
        "contiguous": lambda x: x.t().contiguous(),
        "x @ weight": lambda x: x @ weight,
        "linear": lambda x: functional.linear(x, weight, bias),
        "zero_": lambda x: x.zero_(),
    }


def seconds(call: Call, matrix: Callable[[int], Any]) -> tuple[list[float], list[float]]:
    """Of the first and of the second call at a shape, this thread's time; others of the class were met."""

    def once(x: Any) -> float:
        begun = time.thread_time()
        call(x)
        return time.thread_time() - begun

    for rows in LEARNT:
        once(matrix(rows))
    pairs = [(once(x), once(matrix(rows))) for rows in TIMED for x in (matrix(rows),)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """A row an operator and call, of hologram's own matrices and of PyTorch's on our device."""
    draw = np.random.default_rng(1)
    with hg.Executor(backend) as executor:

        def matrix(rows: int) -> hg.Tensor:
            return executor.tensor(draw.standard_normal((rows, WIDTH), np.float32))

        taken = {"hologram": {name: seconds(call, matrix) for name, call in own(executor).items()}}
    if find_spec("torch"):
        import torch

        from hologram_torch import module

        module.set_backend(backend)
        with torch.no_grad():
            taken["hologram_torch"] = {
                name: seconds(call, lambda rows: torch.randn(rows, WIDTH).to("hologram"))
                for name, call in calls("hologram").items()
            }
    for name in dict.fromkeys(name for times in taken.values() for name in times):
        for number, word in enumerate(("first", "second")):
            turns = {who: times[name][number] for who, times in taken.items() if name in times}
            yield result(name, word, turns, {}, Goal(), "hologram")


SUITES = (Suite("shapes", "", own_rows=own_rows),)
