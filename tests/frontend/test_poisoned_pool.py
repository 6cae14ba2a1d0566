"""Results of operands without elements, where the pool's memory is full of NaN: somebody must write the zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

NAN = 0x7FC01234
EMPTY, NONE = np.zeros((3, 0), np.float32), np.zeros((2, 0, 0), np.float32)
# What is computed of hologram's functions, and what of NumPy's, by one function.
CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{
        f"{name} {n}": lambda xp, x, _, name=name, n=n: getattr(xp.fft, name)(x, n=n)
        for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft")
        for n in (4, 5, 17)
    },
    **{
        name: lambda xp, x, _, name=name: getattr(xp, name)(x, axis=1)
        for name in ("sum", "prod", "any", "all", "count_nonzero", "nansum")
    },
    "matmul": lambda xp, x, _: x @ x.T,
    "vecdot": lambda xp, x, _: xp.vecdot(x, x),
    "einsum": lambda xp, x, _: xp.einsum("ij,kj->ik", x, x),
    "pad": lambda xp, x, _: xp.pad(x, ((1, 1), (2, 3))),
    "sums": lambda xp, x, _: xp.cumulative_sum(x, axis=1, include_initial=True),
    "vector_norm": lambda xp, x, _: xp.linalg.vector_norm(x, axis=1),
    "qr": lambda xp, x, _: xp.linalg.qr(x, mode="complete")[0],
    "svd": lambda xp, x, _: xp.abs(xp.linalg.svd(x)[0]),
    "det": lambda xp, _, none: xp.linalg.det(none),
    "slogdet": lambda xp, _, none: xp.linalg.slogdet(none)[1],
}


def poisoned(executor: hg.Executor) -> None:
    """Blocks of many sizes hold NaN, and wait in the pool."""
    blocks = [executor.empty((n,), "i32") for n in (1, 64, 128, 256, 1024) for _ in range(6)]
    for block in blocks:
        block.buffer.from_numpy(np.full(block.shape, NAN, np.int32))


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_it_is_seen(executor: hg.Executor, name: str) -> None:
    function = CASES[name]
    x = (
        np.zeros((3, 1), np.float32) if name.split()[0] in dir(np.fft) else EMPTY
    )  # NumPy's refuse to have none
    wanted = function(np, x, NONE)
    poisoned(executor)
    found = function(hg, executor.tensor(EMPTY), executor.tensor(NONE)).to_numpy()
    assert np.array_equal(found, wanted), (found, wanted)
