"""A process that checks hg.distributed with those beside it: `mpiexec -n 2 python -m tests.frontend.ranks`."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.reduced import REDUCTIONS

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-30, 3e4)
NUMPY = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}


def given(dtype: dtypes.DType, rank: int) -> np.ndarray:
    """What a process has: also numbers that are special, or wrap."""
    rng = np.random.default_rng(rank)
    if dtype.kind in ("int", "uint"):
        limits = np.iinfo(dtype.numpy)
        return rng.integers(limits.min, limits.max, (3, 5), dtype=dtype.numpy, endpoint=True)
    values = rng.normal(0, 2, (3, 5))
    if dtype.kind == "bool":
        return values > 0
    values.flat[: len(SPECIAL)] = np.roll(SPECIAL, 3 * rank)
    if dtype.is_complex:
        values = np.stack([rng.normal(0, 2, (3, 5)), values], axis=-1).view(np.complex128)[..., 0]
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


def wanted(op: str, parts: np.ndarray, dtype: dtypes.DType) -> np.ndarray:
    """By NumPy, in more bits; of complex numbers part by part, for it divides infinities otherwise."""
    if dtype.is_complex:
        return wanted(op, parts.view(dtype.part.numpy), dtype.part).view(parts.dtype)
    wide = parts
    if dtype.kind == "float" and dtype is not dtypes.f64:
        wide = parts.astype(np.float32)
    with np.errstate(all="ignore"):
        if dtype.kind in ("int", "uint") and op in ("sum", "prod"):
            return NUMPY[op](wide, axis=0, dtype=dtype.numpy)
        found = NUMPY[op](wide, axis=0)
    return found.astype(bool) if dtype.kind == "bool" else found


def same(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """NumPy knows no NaN of bf16 and of 8 bits."""
    kind = np.float64 if found.dtype.kind in "Vf" else found.dtype
    np.testing.assert_array_equal(found.astype(kind), expected.astype(kind), what)


def reductions(ex: hg.Executor) -> None:
    rank, size = hg.distributed.rank(), hg.distributed.size()
    for dtype in sorted(ex.limits.dtypes, key=str):
        parts = np.stack([given(dtype, k) for k in range(size)])
        x = ex.tensor(parts[rank])
        for op, kinds in REDUCTIONS.items():
            if dtype.kind not in kinds:
                with pytest.raises(hg.UnsupportedDType, match=f"all_reduce {op}: .* got {dtype}"):
                    hg.distributed.all_reduce(x, op)
                continue
            found = hg.distributed.all_reduce(x, op)
            assert (found.dtype, found.executor) == (dtype, ex)
            expected = ex.tensor(wanted(op, parts, dtype)).astype(dtype).to_numpy()
            if size == 2 or op in ("max", "min"):  # sums of two have one order
                same(found.to_numpy(), expected, f"{op} of {dtype}")
        everywhere = hg.distributed.all_gather(x)
        same(everywhere.to_numpy(), parts, str(dtype))
        for root in range(size):
            sent = hg.distributed.broadcast(x, root)
            assert sent.dtype is dtype
            same(sent.to_numpy(), parts[root], str(dtype))


def shapes(ex: hg.Executor) -> None:
    rank, size = hg.distributed.rank(), hg.distributed.size()
    x = ex.tensor(np.arange(24.0, dtype=np.float32).reshape(4, 6) + rank)
    for view in (x.T, x[::2, 1:], x[1, 2], x[:0], x[::-1]):
        own = view.to_numpy()
        parts = np.stack([own - rank + k for k in range(size)])
        np.testing.assert_array_equal(hg.distributed.all_reduce(view).to_numpy(), parts.sum(0))
        np.testing.assert_array_equal(hg.distributed.all_gather(view).to_numpy(), parts)
        np.testing.assert_array_equal(hg.distributed.broadcast(view, size - 1).to_numpy(), parts[-1])
    large = ex.full((1 << 20,), float(rank))
    assert hg.distributed.all_reduce(large, "max").to_numpy().min() == size - 1
    hg.distributed.barrier()


def disagreements(ex: hg.Executor) -> None:
    """Each process hears what the others asked for, and goes on."""
    rank = hg.distributed.rank()
    one, other = ex.zeros((2, 3)), ex.zeros((3, 2), hg.f16)
    all_reduce, all_gather = hg.distributed.all_reduce, hg.distributed.all_gather
    differing = r"rank 0: all_reduce sum of f32 \(2, 3\); rank.* 1.*: "
    for call, said in (
        (lambda: all_reduce(other if rank else one), r"all_reduce sum of f16 \(3, 2\)"),
        (lambda: all_reduce(one, "max" if rank else "sum"), r"all_reduce max of f32 \(2, 3\)"),
        (lambda: all_gather(one) if rank else all_reduce(one), r"all_gather of f32 \(2, 3\)"),
        (lambda: hg.distributed.barrier() if rank else all_reduce(one), "barrier"),
    ):
        with pytest.raises(hg.DistributedError, match=differing + said):
            call()
    # What one refuses, it is told by its own error, and the others that it refused.
    wrong: tuple[object, str, type[Exception]] = (
        ("x", "sum", TypeError) if rank else (one, "sum", hg.DistributedError)
    )
    with pytest.raises(wrong[2], match="x must be a Tensor"):
        all_reduce(wrong[0], wrong[1])  # type: ignore[arg-type]


def refusals(ex: hg.Executor) -> None:
    """What all refuse, each in its own words."""
    one, all_reduce = ex.zeros((2, 3)), hg.distributed.all_reduce
    with pytest.raises(ValueError, match="op must be one of"):
        all_reduce(one, "xor")
    for root in (-1, hg.distributed.size()):
        with pytest.raises(ValueError, match="root must be from 0"):
            hg.distributed.broadcast(one, root)
    with pytest.raises(hg.TraceError):
        hg.jit(all_reduce)(one)
    with pytest.raises(hg.GradientError):
        hg.grad(lambda x: all_reduce(x).sum())(one)
    assert all_reduce(ex.ones(2)).tolist() == [hg.distributed.size()] * 2


def deserted(ex: hg.Executor) -> str:
    """What the one process is told that asks for something."""
    with pytest.raises(hg.WorkerLost) as lost:
        hg.distributed.all_reduce(ex.ones(2))
    with pytest.raises(hg.DistributedError, match="no collective runs after one that failed"):
        hg.distributed.barrier()
    return str(lost.value)


def check() -> None:
    with hg.Executor("cpu") as ex:
        reductions(ex)
        shapes(ex)
        refusals(ex)
        if hg.distributed.size() > 1:
            disagreements(ex)


if __name__ == "__main__":
    hg.distributed.init()
    check()
    print(f"rank {hg.distributed.rank()} of {hg.distributed.size()} is well")
