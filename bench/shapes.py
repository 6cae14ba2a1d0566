"""The host's time for PyTorch operators at shapes that were not met before, and at the second call of each.

python bench/shapes.py [webgpu]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from hologram_torch import module

WIDTH = 64
LEARNT, TIMED = range(20, 30), range(30, 60)  # rows
Call = Callable[[torch.Tensor], object]


def calls(device: str) -> dict[str, Call]:
    """Operators of a matrix with so many columns."""
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


def microseconds(call: Call, device: str) -> tuple[float, float]:
    """Of the first and of the second call at a shape, this thread's time; others of the class were met."""

    def once(rows: int) -> float:
        x = torch.randn(rows, WIDTH).to(device)
        begun = time.thread_time()
        call(x)
        return (time.thread_time() - begun) * 1e6

    for rows in LEARNT:
        once(rows)
    pairs = [(once(rows), once(rows)) for rows in TIMED]
    return median(a for a, _ in pairs), median(b for _, b in pairs)


def main() -> None:
    module.set_backend(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    table = Table(box=None, pad_edge=False)
    for column in ("operator", "first, µs", "second, µs"):
        table.add_column(column, justify="left" if column == "operator" else "right")
    with torch.no_grad():
        for name, call in calls("hologram").items():
            table.add_row(name, *(f"{us:,.0f}" for us in microseconds(call, "hologram")))
    Console().print(table)


if __name__ == "__main__":
    main()
