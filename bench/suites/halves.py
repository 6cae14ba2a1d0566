"""Products and attention of 16 bits beside PyTorch's own (cuBLAS, FlashAttention) on the same card, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.jobs import Job
from hologram.benchmark.suites import Goal, Result, Suite, own
from hologram.benchmark.timing import Pace
from hologram.foundation import dtypes

PRODUCTS = Goal(ratio=1 / 0.75)  # of cuBLAS
ATTENTION = Goal(ratio=1.3)
SIDES = (4096, 8192)
HEADS = (16, 4096, 128)
LOOKED_AT = 16  # rows that are compared
TOLERANCE = {"f16": 4e-3, "bf16": 3e-2}  # of results of standard normal numbers, relative to the largest


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """All is measured in this process, where PyTorch is a peer."""
    with hg.Executor(backend) as ex:
        yield from beside_torch(ex, backend, pace, SIDES, HEADS)


def beside_torch(
    ex: hg.Executor, device: str, pace: Pace, sides: tuple[int, ...], heads: tuple[int, int, int]
) -> Iterator[Result]:
    """Both multiply the same random matrices, and attend to the same random keys."""
    import torch

    def settle() -> None:
        ex.synchronize()
        if device == "cuda":
            torch.cuda.synchronize()

    for dtype in (dtypes.f16, dtypes.bf16):
        theirs = getattr(torch, dtype.numpy_name)
        for side in sides:
            values = [
                np.random.default_rng(k).standard_normal((side, side), dtype=np.float32) for k in range(2)
            ]
            given = [_both(ex, torch.from_numpy(v).to(device, theirs), v, dtype) for v in values]
            wanted = values[0][:LOOKED_AT].astype(float) @ values[1]
            ways = (partial(hg.matmul, *(g[0] for g in given)), partial(torch.matmul, *(g[1] for g in given)))
            yield _row(f"matmul {dtype}", str(side), ways, wanted, dtype.name, PRODUCTS, settle, pace)
        count, length, size = heads
        values = [np.random.default_rng(k).standard_normal((1, *heads), dtype=np.float32) for k in range(3)]
        given = [_both(ex, torch.from_numpy(v).to(device, theirs), v, dtype) for v in values]
        wanted = _attended(*(v[0, 0].astype(float) for v in values))
        ways = (
            partial(hg.scaled_dot_product_attention, *(g[0] for g in given), causal=True),
            partial(torch.nn.functional.scaled_dot_product_attention, *(g[1] for g in given), is_causal=True),
        )
        text = f"{count} x {length} x {size}"
        yield _row(f"attention, causal {dtype}", text, ways, wanted, dtype.name, ATTENTION, settle, pace)


def _both(ex: hg.Executor, theirs: Any, values: np.ndarray, dtype: dtypes.DType) -> tuple[hg.Tensor, Any]:
    return ex.tensor(values.astype(dtype.numpy)), theirs


def _attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The first rows of one head, which see the keys up to their own."""
    scores = q[:LOOKED_AT] @ k[:LOOKED_AT].T / np.sqrt(q.shape[-1])
    powers = np.exp(scores) * np.tril(np.ones(scores.shape))
    return powers / powers.sum(-1, keepdims=True) @ v[:LOOKED_AT]


def _row(
    row: str,
    size: str,
    ways: tuple[Callable[[], Any], Callable[[], Any]],
    wanted: np.ndarray,
    dtype: str,
    goal: Goal,
    settle: Callable[[], None],
    pace: Pace,
) -> Result:
    def timed(way: Callable[[], Any]) -> Any:
        result = way()
        settle()
        return result

    def computed(way: Callable[[], Any]) -> np.ndarray:
        result = way()
        array = result.to_numpy() if isinstance(result, hg.Tensor) else result.float().cpu().numpy()
        return array.reshape(-1, array.shape[-1])[:LOOKED_AT].astype(float)

    def problem(few: np.ndarray) -> str:
        error = float(np.abs(few - wanted).max() / np.abs(wanted).max())
        return "" if error <= TOLERANCE[dtype] else f"it is off by {error:.1e} of the largest"

    jobs = {
        name: Job(partial(timed, way), partial(computed, way), problem=problem)
        for name, way in zip(("hologram", "torch"), ways, strict=True)
    }
    return own(row, size, jobs, pace, goal)


SUITES = (Suite("halves-cuda", "cuda", own_rows=own_rows),)
