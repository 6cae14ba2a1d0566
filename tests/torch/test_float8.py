"""Floats of 8 bits on PyTorch's device: stored, moved and converted as on its CPU, code by code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401

EACH = pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
MOVES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda x: x.clone(),
    "view": lambda x: x.view(16, 16).t()[3:5],
    "contiguous": lambda x: x.view(16, 16).t().contiguous(),
    "slice": lambda x: x[::3].clone(),
    "cat": lambda x: torch.cat([x, x[:5]]),
    "stack": lambda x: torch.stack([x, x]),
    "index": lambda x: x[torch.tensor([3, 200, 5], device=x.device)],
    "mask": lambda x: x[(torch.arange(256) % 3 == 0).to(x.device)],
    "index_select": lambda x: x.index_select(0, torch.tensor([7, 9], device=x.device)),
    "index_put": lambda x: x.clone().index_put_((torch.tensor([1, 2], device=x.device),), x[5:7]),
    "where": lambda x: torch.where((torch.arange(256) % 2 == 0).to(x.device), x, x[0]),
    "roll": lambda x: x.roll(3),
    "repeat": lambda x: x[:4].repeat(3),
    "split": lambda x: x.split(100)[1],
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "fill": lambda x: x.clone().fill_(3.0),
    "zero": lambda x: x.clone().zero_(),
    "none": lambda x: x[:0],
    "one": lambda x: x[200].clone(),
    "bits": lambda x: x.view(torch.uint8),
    "ones": lambda x: torch.ones(4, 2, dtype=x.dtype, device=x.device),
    "full": lambda x: torch.full((2, 3), 2.5, dtype=x.dtype, device=x.device),
    "like": torch.zeros_like,
    "empty": lambda x: torch.empty(3, 0, dtype=x.dtype, device=x.device),
}


def codes(dtype: Any) -> Any:
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def bits(x: Any) -> list[Any]:
    return x.cpu().contiguous().view(torch.uint8).tolist()


@EACH
@pytest.mark.parametrize("name", MOVES)
def test_they_move_as_they_are(dtype: Any, name: str) -> None:
    found, want = MOVES[name](codes(dtype).to("hologram")), MOVES[name](codes(dtype))
    assert (found.device.type, found.dtype, found.shape) == ("hologram", want.dtype, want.shape)
    assert bits(found) == bits(want)


@EACH
@pytest.mark.parametrize(
    "other", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool], ids=str
)
def test_conversions(dtype: Any, other: Any) -> None:
    x = codes(dtype)
    x = x if other.is_floating_point or other is torch.bool else x[torch.isfinite(x.float())]
    torch.testing.assert_close(x.to("hologram").to(other).cpu(), x.to(other), rtol=0, atol=0, equal_nan=True)
    numbers = torch.randn(5000, generator=torch.Generator().manual_seed(1)) * 300
    extremes = [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 464.0, 465.0, 61440.0, 1e-7]
    numbers = torch.cat([numbers, torch.tensor(extremes if other.is_floating_point else [0.0, 7.0])]).to(
        other
    )
    # PyTorch's CPU makes NaN of what is too large before 2.13.
    if dtype is torch.float8_e4m3fn and torch.__version__ < "2.13":
        numbers = numbers[~(numbers.float().abs() > torch.finfo(dtype).max)]
    assert bits(numbers.to("hologram").to(dtype)) == bits(numbers.to(dtype))
    written = torch.zeros(len(numbers), dtype=dtype, device="hologram").copy_(numbers)
    assert bits(written) == bits(numbers.to(dtype))


@EACH
def test_numbers_are_read(dtype: Any) -> None:
    x = codes(dtype).to("hologram")[64:80]
    assert x.tolist() == x.cpu().tolist()
    assert x[5].item() == x.cpu()[5].item()
    assert "float8" in repr(x)


@EACH
def test_weights_kept_in_8_bits(dtype: Any) -> None:
    weight = torch.randn(16, 8).to(dtype)
    x = torch.randn(4, 8)
    found = torch.nn.functional.linear(x.to("hologram"), weight.to("hologram").to(torch.float32))
    torch.testing.assert_close(found.cpu(), torch.nn.functional.linear(x, weight.to(torch.float32)))


@EACH
def test_arithmetic_is_refused(dtype: Any) -> None:
    x = codes(dtype).to("hologram").view(16, 16)
    for compute in (
        lambda: x + x,
        lambda: x + 1.0,
        lambda: -x,
        lambda: x.sum(),
        lambda: x.sort(),
        lambda: x @ x,
    ):
        with pytest.raises(NotImplementedError):
            compute()
    for mix in (lambda: x + torch.ones(16, device="hologram"), lambda: torch.cat([x, x.float()])):
        with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
            mix()
    with pytest.raises(RuntimeError, match="without overflow"):
        x.fill_(1e9)
