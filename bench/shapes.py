"""The host's time for operators at shapes that were not met before, and at the second call of each.

python bench/shapes.py [webgpu]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

import hologram as hg
from hologram_torch import module

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


def microseconds(call: Call, matrix: Callable[[int], Any]) -> tuple[float, float]:
    """Of the first and of the second call at a shape, this thread's time; others of the class were met."""

    def once(x: Any) -> float:
        begun = time.thread_time()
        call(x)
        return (time.thread_time() - begun) * 1e6

    for rows in LEARNT:
        once(matrix(rows))
    pairs = [(once(x), once(matrix(rows))) for rows in TIMED for x in (matrix(rows),)]
    return median(a for a, _ in pairs), median(b for _, b in pairs)


def main() -> None:
    module.set_backend(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    executor = module.executor()
    draw = np.random.default_rng(1)

    def matrix(rows: int) -> hg.Tensor:
        return executor.tensor(draw.standard_normal((rows, WIDTH), np.float32))

    parts = {
        "hologram": (own(executor), matrix),
        "PyTorch": (calls("hologram"), lambda rows: torch.randn(rows, WIDTH).to("hologram")),
    }
    with torch.no_grad():
        for who, (operators, make) in parts.items():
            table = Table(box=None, pad_edge=False)
            for column in (who, "first, µs", "second, µs"):
                table.add_column(column, justify="left" if column == who else "right")
            for name, call in operators.items():
                table.add_row(name, *(f"{us:,.0f}" for us in microseconds(call, make)))
            Console().print(table)


if __name__ == "__main__":
    main()
