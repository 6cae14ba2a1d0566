"""Operators of your own for PyTorch, from a function and from an Atlas program: eager, under autograd, compiled.

python examples/torch_operator.py --backend webgpu times one beside the same formula in PyTorch's operators.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

import hologram as hg
import hologram_torch
import hologram_torch.module  # it makes the device
from hologram.demo.gallery import run
from hologram.foundation.display import duration

DOUBLED = """
program doubled rank 1 reduced 0
buffer x : f32 read_write
%0 = coordinate 0 : index
%1 = load x %0 : f32
%2 = add %1, %1 : f32
store x %0, %2
"""


@hologram_torch.custom_op("demo::huber")
def huber(x: hg.Tensor, delta: float = 1.0) -> hg.Tensor:
    """x^2 / 2 near 0, and straight beyond delta (Huber 1964): one kernel, and its derivative another."""
    far = hg.abs(x)
    return hg.where(far < delta, 0.5 * x * x, delta * (far - 0.5 * delta))


def in_torch(x: torch.Tensor, delta: float = 1.0) -> torch.Tensor:
    far = x.abs()
    return torch.where(far < delta, 0.5 * x * x, delta * (far - 0.5 * delta))


doubled = hologram_torch.custom_op("demo::doubled", DOUBLED, outputs={"x": "x"})


def seconds(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, turns: int = 10) -> float:
    """The median time of a call and its backward pass."""
    times = []
    for _ in range(turns + 2):
        start = time.perf_counter()
        function(x).sum().backward()
        hologram_torch.module.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def main(size: int = 1_000_000) -> None:
    hologram_torch.module.set_backend(hg.default_executor().backend)
    x = torch.randn(size, device="hologram", requires_grad=True)
    gap = (huber(x, 1.5) - in_torch(x, 1.5)).abs().max().item()
    print(f"huber of {size:,} numbers: {gap:.1e} from PyTorch's operators at most")
    for name, function in (("one operator", huber), ("PyTorch's eight", in_torch)):
        print(f"{name:15} {duration(seconds(function, x))} forward and backward")
    compiled = torch.compile(lambda x: doubled(huber(x)), backend="hologram")
    with torch.no_grad():
        print("compiled with an Atlas program:", torch.equal(compiled(x), 2 * huber(x)))


if __name__ == "__main__":
    run(main)
