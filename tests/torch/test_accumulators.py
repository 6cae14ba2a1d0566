"""Sums, counts and means of PyTorch's floats of 16 bits, and their gradients: beyond 65,504, against f64 on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

MANY = 70_000
NARROW = (torch.float16, torch.bfloat16)


def zeros(x: Any) -> Any:
    return torch.zeros(x.shape, dtype=torch.int64, device=x.device)


def one(x: Any) -> Any:
    return torch.zeros(1, dtype=x.dtype, device=x.device)


def as_table(x: Any) -> Any:
    return x[:1, None]


def lengths(x: Any) -> Any:
    return torch.tensor([len(x)], device=x.device)


FUNCTIONS: dict[str, Any] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: x.amax(),
    "amin": lambda x: x.amin(0),
    "aminmax": lambda x: x.aminmax()[1],
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "norm of infinity": lambda x: torch.linalg.vector_norm(x, float("inf")),
    "mean": lambda x: x.mean(),
    "nanmean": lambda x: x.nanmean(),
    "nanmean along": lambda x: x.reshape(2, -1).nanmean(1, keepdim=True),
    "var": lambda x: x.var(),
    "std": lambda x: (x * 0.5).std(),
    "cov": lambda x: torch.cov(torch.stack([x, x])),
    "corrcoef": lambda x: torch.corrcoef(torch.stack([x, -x])),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.25),
    "logsumexp": lambda x: x.logsumexp(0),
    "cross entropy": lambda x: torch.nn.functional.cross_entropy(torch.stack([x, -x], 1), zeros(x)),
    "mean of a bag": lambda x: torch.nn.functional.embedding_bag(
        zeros(x), as_table(x), zeros(x)[:1], mode="mean"
    ),
    "embedding by frequency": lambda x: torch.nn.functional.embedding(
        zeros(x), as_table(x), scale_grad_by_freq=True
    ).double().mean().to(x.dtype),
    "mean of segments": lambda x: torch.segment_reduce(x, "mean", lengths=lengths(x)),
    "largest of segments": lambda x: torch.segment_reduce(x, "max", lengths=lengths(x)),
    "pdist": lambda x: torch.pdist(x.reshape(2, -1)),
}  # fmt: skip
# Whose gradients PyTorch computes by counts in the operand's dtype.
VALUES: dict[str, Any] = {
    "scatter_reduce": lambda x: one(x).scatter_reduce(0, zeros(x), x, "mean"),
    "scatter_reduce alone": lambda x: one(x).scatter_reduce(0, zeros(x), x, "mean", include_self=False),
    "index_reduce": lambda x: one(x).index_reduce(0, zeros(x), x, "mean", include_self=False),
}
NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name == "aminmax" and torch.__version__ < "2.12",
            reason="PyTorch has no derivative of aminmax before 2.12",
        ),
    )
    for name in (*FUNCTIONS, *VALUES)
]


def samples() -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    ties = torch.full((MANY,), 2.0, dtype=torch.float64)
    return [ties, torch.randint(-3, 4, (MANY,), generator=generator).double() * 0.5]


def agree(got: Any, want: Any, dtype: Any) -> None:
    assert got.dtype == dtype
    steps = torch.finfo(dtype)
    shown, expected = got.double().cpu(), want.to(dtype).double()
    torch.testing.assert_close(
        shown, expected, rtol=8 * steps.eps, atol=8 * steps.eps * steps.tiny, equal_nan=True
    )


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str, dtype: Any) -> None:
    function = {**FUNCTIONS, **VALUES}[name]
    for sample in samples():
        x = sample.to("hologram", dtype).requires_grad_(name in FUNCTIONS)
        exact = sample.clone().requires_grad_(name in FUNCTIONS)
        got, want = function(x), function(exact)
        agree(got.detach(), want.detach(), dtype)
        if x.requires_grad:
            got.sum().backward()
            want.sum().backward()
            agree(x.grad, exact.grad, dtype)


@pytest.mark.parametrize("name", ["amax", "median", "nanmean", "scatter_reduce", "cov"])
def test_compiled(name: str) -> None:
    function, (ties, _) = {**FUNCTIONS, **VALUES}[name], samples()
    x = ties.to("hologram", torch.float16).requires_grad_(name in FUNCTIONS)
    exact = ties.clone().requires_grad_(name in FUNCTIONS)
    got, want = torch.compile(function, backend="hologram")(x), function(exact)
    agree(got.detach(), want.detach(), torch.float16)
    if x.requires_grad:
        got.sum().backward()
        want.sum().backward()
        agree(x.grad, exact.grad, torch.float16)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_means_of_integers_are_of_sums_that_do_not_wrap(dtype: Any) -> None:
    x = torch.full((1000,), 100, dtype=dtype, device="hologram")
    for found in (
        one(x).scatter_reduce(0, zeros(x), x, "mean", include_self=False),
        one(x).index_reduce(0, zeros(x), x, "mean", include_self=False),
    ):
        assert found.dtype == dtype
        assert found.tolist() == [100]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_counts_beside_narrow_floats_are_not_rounded_first(dtype: Any) -> None:
    counts = torch.tensor([70_001, 100_000, 2**40], device="hologram")
    x = torch.tensor([7.0, 8.0, 9.0], dtype=dtype, device="hologram")
    want = x.cpu().double() / counts.cpu().double()
    for found in (x / counts, x.clone().div_(counts), torch.div(x, counts, out=torch.empty_like(x))):
        agree(found, want, dtype)
    agree(x[:2] * 2.0**-20 * counts[:2], x[:2].cpu().double() * 2.0**-20 * counts[:2].cpu().double(), dtype)
