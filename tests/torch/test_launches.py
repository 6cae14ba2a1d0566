"""Operators that models call for every token are few launches, and give what they give on the CPU."""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import hologram_torch  # noqa: F401
from hologram_torch.tensors.memory import payload

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.bool)


def launched(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a function gives, and the kernels that it launches."""
    with torch.hologram.executor().profile() as profile:
        found = function()
    return found, [launch.subject.kernel for launch in profile.launches]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_are_written_into_a_cache_in_its_own_memory(dtype: torch.dtype) -> None:
    cache = torch.randint(0, 2, (2, 3, 64, 5)).to(dtype)
    rows = torch.randint(0, 2, (2, 3, 2, 5)).to(dtype)
    index = torch.tensor([40, 7])
    there, given, places = (x.to("hologram") for x in (cache, rows, index))
    before = payload(there)
    found, kernels = launched(lambda: there.index_copy_(2, places, given))
    assert payload(found) is before
    assert torch.equal(found.cpu(), cache.index_copy_(2, index, rows))
    assert len(kernels) <= 2, kernels  # whether the positions are inside, and the rows


def test_scattered_elements_are_written_in_place() -> None:
    x, index, source = torch.randn(5, 4).t(), torch.tensor([[0, 3, 1], [2, 2, 0]]), torch.randn(3, 4)
    there = x.to("hologram")
    found, kernels = launched(lambda: there.scatter_(0, index.to("hologram"), source.to("hologram")))
    assert torch.equal(found.cpu(), x.scatter_(0, index, source))
    assert len([k for k in kernels if "put" in k]) == 1
    assert not any("scatter" in k for k in kernels)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i, v: x.index_put_((i,), v),
        lambda x, i, v: x.index_fill_(0, i, 2.0),
        lambda x, i, v: x.put_(i[:, None] * 4 + torch.arange(4, device=x.device), v),
    ],
    ids=["index_put", "index_fill", "put"],
)
def test_elements_at_positions_are_written_in_place(call: Callable[..., Any]) -> None:
    x, index, values = torch.randn(5, 4), torch.tensor([3, 0]), torch.randn(2, 4)
    there, *given = (t.to("hologram") for t in (x, index, values))
    found, kernels = launched(lambda: call(there, *given))
    assert torch.equal(found.cpu(), call(x, index, values))
    assert any("put" in k for k in kernels), kernels
    assert not any("scatter" in k or "memcpy" in k for k in kernels), kernels


def test_rows_of_another_dtype_are_refused_before_anything_is_written() -> None:
    x = torch.zeros(3, device="hologram")
    index = torch.tensor([1], device="hologram")
    with pytest.raises(RuntimeError, match=r"same dtype, but got f32 and f64"):
        x.index_copy_(0, index, torch.ones(1, dtype=torch.float64, device="hologram"))
    with pytest.raises(RuntimeError, match="single memory location"):
        x.index_copy_(0, index, x[:1])
    assert x.tolist() == [0, 0, 0]


RANGES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((5,), {}),
    ((3, 100, 7), {}),
    ((10, -10, -3), {}),
    ((2**62, 2**62 + 5), {}),
    ((2.7, 9.9, 1.5), {"dtype": torch.int64}),
    ((120, 128), {"dtype": torch.int8}),
    ((5.0,), {"dtype": torch.float16}),
]


@pytest.mark.parametrize(("arguments", "named"), RANGES, ids=str)
def test_a_range_is_one_launch(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    found, kernels = launched(lambda: torch.arange(*arguments, device="hologram", **named))
    assert torch.equal(found.cpu(), torch.arange(*arguments, **named))
    assert len(kernels) == 1, kernels


def test_ranges_wrap_round() -> None:
    found = torch.arange(250, 260, dtype=torch.uint8, device="hologram")
    assert torch.equal(found.cpu(), torch.arange(250, 260, dtype=torch.uint8))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_softmax_that_knows_empty_rows_is_one_launch(dtype: torch.dtype, dim: int) -> None:
    x = torch.randn(3, 4, 5)
    x[0, 1], x[:, 2, 3], x[1], x[2, 3, 1] = -torch.inf, -torch.inf, -torch.inf, torch.nan
    x = x.to(dtype)
    there = x.to("hologram")
    found, kernels = launched(lambda: torch._safe_softmax(there, dim))
    torch.testing.assert_close(found.cpu(), torch._safe_softmax(x, dim), equal_nan=True)
    assert len(kernels) == 1, kernels


MASKS: dict[str, Callable[[int, int], torch.Tensor | None]] = {
    "none": lambda heads, queries: None,
    "of the batch": lambda heads, queries: torch.randn(2, 1, queries, 9),
    "of heads": lambda heads, queries: torch.randn(2, heads, queries, 9),
    "of rows": lambda heads, queries: torch.randn(queries, 9),
    "of bools": lambda heads, queries: torch.rand(1, heads, queries, 9) > 0.3,
    "that hides all": lambda heads, queries: torch.zeros(2, 1, queries, 9, dtype=torch.bool),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("shared", [1, 2])
def test_heads_that_share_keys_attend_as_on_the_cpu(mask: str, queries: int, shared: int) -> None:
    shapes = ((2, 4, queries, 16), (2, shared, 9, 16), (2, shared, 9, 8))
    host = [torch.randn(shape, requires_grad=True) for shape in shapes]
    device = [x.detach().to("hologram").requires_grad_() for x in host]
    m = MASKS[mask](4, queries)
    there = None if m is None else m.to("hologram")

    def attended() -> torch.Tensor:
        return attend(*device, attn_mask=there, enable_gqa=True)

    attend = torch.nn.functional.scaled_dot_product_attention
    wanted, found = attend(*host, attn_mask=m, enable_gqa=True), attended()
    torch.testing.assert_close(found.cpu(), wanted)
    cotangent = torch.randn(wanted.shape)
    wanted.backward(cotangent)
    found.backward(cotangent.to("hologram"))
    for theirs, ours in zip(host, device, strict=True):
        assert theirs.grad is not None
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        kernels = launched(attended)[1]
    assert len(kernels) <= (3 if queries == 1 else 5), kernels


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_few_small_tensors_are_joined_by_one_launch(dtype: torch.dtype, dim: int) -> None:
    host = [torch.randint(0, 2, (2, 3, 4)).to(dtype) for _ in range(4)]
    device = [x.to("hologram") for x in host]
    for each in (host, device):  # with gaps, and in another order
        each[1] = each[1].permute(2, 1, 0).contiguous().permute(2, 1, 0)
        each[2] = torch.stack([each[2], each[2]], 3)[..., 0]
    found, kernels = launched(lambda: torch.cat(device, dim))
    assert torch.equal(found.cpu(), torch.cat(host, dim))
    assert len(kernels) == 1, kernels


def test_what_is_joined_is_promoted() -> None:
    parts = [torch.arange(3), torch.arange(3.0) / 2, torch.empty(0), torch.ones(2, dtype=torch.bool)]
    found, kernels = launched(lambda: torch.cat([x.to("hologram") for x in parts]))
    assert torch.equal(found.cpu(), torch.cat(parts))
    assert len(kernels) == 1, kernels
